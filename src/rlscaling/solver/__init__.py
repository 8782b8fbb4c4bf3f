"""The numerical engine.

Weighted least squares of one or many series, the noise around the fit, and replicates of it. Arrays in, arrays out;
no text, no files.
"""
