"""Several recipes compared on the same draws.

Which is better at a budget and how certain that is, where their curves cross, and leave-one-out ablations.
"""
