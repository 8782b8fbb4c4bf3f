"""Several recipes on the same draws.

Which is better at a budget, how sure that is, where curves cross, and leave-one-out ablations.
"""
