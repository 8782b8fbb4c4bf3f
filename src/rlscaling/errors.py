"""Everything this package raises or warns with, in one family."""

from __future__ import annotations


class RLScalingError(ValueError):
    """Base of every error this package raises on purpose.

    The message always says which value, what is wrong with it, and what to do about it.
    """


class TraceError(RLScalingError):
    """The data cannot be used as they stand: a bad value, a missing column, a torn file."""


class FitError(RLScalingError):
    """The data are readable but the requested fit, forecast or interval cannot be computed."""


class WorkersError(RLScalingError):
    """Worker processes died, or cannot do the work; what was finished and written before is kept."""


class RLScalingWarning(UserWarning):
    """Something was assumed or looks wrong; the result still stands, and says so in its notes."""
