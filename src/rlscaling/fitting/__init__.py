"""Fit a curve to one run.

Input checked, points selected, least squares solved, and a verdict on how well the asymptote `A` is identified.
"""
