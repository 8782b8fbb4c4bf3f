"""What a run will reach, how far such forecasts can be trusted, and what to do next.

Extrapolate, backtest, plan, monitor, allocate.
"""
