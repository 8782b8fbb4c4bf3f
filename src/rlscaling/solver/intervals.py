"""Quantile intervals and probabilities from draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlscaling.arrays import Array


class ConfidenceInterval(NamedTuple):
    """The ends of an interval: numbers, or arrays of one number per budget, as in `scipy.stats`."""

    low: float | Array
    high: float | Array


def half_width_68(draws: np.ndarray) -> float:
    """Return half the distance between the 15.9 and 84.1 % quantiles: a standard error that outliers cannot move."""
    low, high = np.quantile(draws, [0.1587, 0.8413])
    return float(0.5 * (high - low))


def percentile_interval(draws: Array, confidence_level: float) -> Array:
    """Return the percentile interval of each column, shape (..., 2).

    Never the "basic" (reflected) interval: where A piles up at its bound that one points the wrong way.
    """
    tail = 0.5 * (1.0 - confidence_level)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.quantile(draws, [tail, 1.0 - tail], axis=0, method="linear").T)


def order_interval(draws: Array, confidence_level: float) -> tuple[float, float]:
    """Return the percentile interval by order statistics, so that inf stays inf."""
    ordered = np.sort(draws)
    tail = 0.5 * (1.0 - confidence_level)
    low = ordered[int(np.floor(tail * (len(ordered) - 1)))]
    return float(low), float(ordered[int(np.ceil((1.0 - tail) * (len(ordered) - 1)))])


def _hull(this_run: Array, new_run: Array) -> Array:
    """Return the interval that holds both: at a bound of ``A`` the spread between seeds can only push inwards."""
    low, high = np.minimum(this_run, new_run)[..., 0], np.maximum(this_run, new_run)[..., 1]
    return np.stack([low, high], axis=-1)


def probability_above(draws: Array) -> Array:
    """Return the share of draws above 0 along the last axis, ties counting half."""
    return np.asarray((draws > 0).mean(axis=-1) + 0.5 * (draws == 0).mean(axis=-1))


def probability_best(draws: Array) -> Array:
    """Return the share of draws in which each row is the greatest, ties shared, shape (rows,)."""
    top = draws == draws.max(axis=0)
    return np.asarray((top / top.sum(axis=0)).mean(axis=1))
