"""Figures of traces, fits, forecasts, comparisons and plans, drawn on matplotlib axes."""
