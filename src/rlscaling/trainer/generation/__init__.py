"""Sampling completions.

Continuous batching, the paged cache, evaluation, and the schedule of generators and trainer.
"""
