"""The evaluations of one run.

The `Trace` object, its columns and units, and the crash-safe file in which it is kept.
"""
