"""Quantile intervals and probabilities from draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from rlscaling.arrays import Array

if TYPE_CHECKING:  # with a default, so that a bare ConfidenceInterval is of numbers or of arrays
    from typing_extensions import TypeVar

    Bound = TypeVar("Bound", default=Any)
else:
    from typing import TypeVar

    Bound = TypeVar("Bound")


class ConfidenceInterval(NamedTuple, Generic[Bound]):
    """The ends of an interval, as in `scipy.stats`.

    Attributes
    ----------
    low, high : float or array of shape (n,)
        A number each, or one number per budget.

    Examples
    --------
    >>> low, high = ConfidenceInterval(0.59, 0.63)
    >>> ConfidenceInterval(np.array([0.5, 0.6]), np.array([0.7, 0.8])).at(1)
    ConfidenceInterval(low=0.6, high=0.8)
    """

    low: Bound
    high: Bound

    def at(self, index: int) -> ConfidenceInterval[float]:
        """Return the interval at one of several budgets."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        return ConfidenceInterval(float(low[index]), float(high[index]))


def interval_of(ends: Array) -> ConfidenceInterval[Array]:
    """Return intervals of shape (n, 2) as a pair of arrays."""
    return ConfidenceInterval(ends[..., 0], ends[..., 1])


def half_width_68(draws: Array) -> float:
    """Return the half-width of the central 68 % of draws: like a standard error, but robust to outliers."""
    low, high = np.quantile(draws, [0.1587, 0.8413])
    return float(0.5 * (high - low))


def percentile_interval(draws: Array, confidence_level: float) -> Array:
    """Return the percentile interval of each column, shape (..., 2).

    Never the "basic" (reflected) interval: where A piles up at its bound the reflected one points the wrong way.
    """
    quantile = 0.5 * (1.0 - confidence_level)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.quantile(draws, [quantile, 1.0 - quantile], axis=0, method="linear").T)


def containing(interval: Array, estimate: Array | float) -> Array:
    """Return intervals of shape (..., 2), made to contain the estimates they belong to, shape (...).

    Replicates are drawn around a curve with a weak prior, so that before the bend is seen the least-squares estimate
    may lie outside their percentiles. An interval that excludes its own estimate helps nobody.
    """
    low, high = np.minimum(interval[..., 0], estimate), np.maximum(interval[..., 1], estimate)
    return np.stack([low, high], axis=-1)


def order_interval(draws: Array, confidence_level: float) -> ConfidenceInterval[float]:
    """Return the percentile interval by order statistics, so that inf stays inf."""
    ordered = np.sort(draws)
    quantile = 0.5 * (1.0 - confidence_level)
    low = ordered[int(np.floor(quantile * (len(ordered) - 1)))]
    return ConfidenceInterval(float(low), float(ordered[int(np.ceil((1.0 - quantile) * (len(ordered) - 1)))]))


def union(this_run: Array, new_run: Array) -> Array:
    """Return the smallest interval that contains both, shape (..., 2).

    Where ``A`` sits at its bound, the spread between seeds can only push it inwards: the interval of a new run would
    otherwise not contain that of this run.
    """
    low, high = np.minimum(this_run, new_run)[..., 0], np.maximum(this_run, new_run)[..., 1]
    return np.stack([low, high], axis=-1)


def probability_above(draws: Array) -> Array:
    """Return the share of draws above 0 along the last axis, ties counting half."""
    return np.asarray((draws > 0).mean(axis=-1) + 0.5 * (draws == 0).mean(axis=-1))


def probability_best(draws: Array) -> Array:
    """Return the share of draws in which each row is the greatest, ties shared, shape (rows,)."""
    top = draws == draws.max(axis=0)
    return np.asarray((top / top.sum(axis=0)).mean(axis=1))
