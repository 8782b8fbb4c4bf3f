"""Exceptions and warnings of the package."""

from __future__ import annotations


class RLScalingError(ValueError):
    """Base of every error that this package raises on purpose.

    The message always names the value, what is wrong with it, and what to do about it.
    """


class TraceError(RLScalingError):
    """The data cannot be used as they stand: a bad value, a missing column, a torn file."""


class FitError(RLScalingError):
    """The data are readable but the requested fit, forecast or interval cannot be computed."""


class WorkersError(RLScalingError):
    """Worker processes died or cannot do the work; what they had finished and written is kept."""


class RLScalingWarning(UserWarning):
    """Something was assumed or looks wrong; the result is still valid, and its notes state what it is."""
