"""Differences between all pairs of recipes, with the family-wise error controlled over all pairs.

The statistic of a pair is its median difference divided by the spread on the side towards zero, which allows for a
skewed posterior. Its family-wise p-value is how often the largest such statistic over all pairs, in draws centred at
their medians, is at least as large: the single-step max-T procedure of Westfall and Young (1993).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from rlscaling.arrays import Array, Index, Mask
from rlscaling.solver.intervals import probability_above

EQUAL_PROBABILITY = 0.9  # P(|difference| < margin) from which two recipes are called equal
DECIDED = 0.95  # probability of being the best from which a comparison is called decided
TINY = 1e-12


class PairVerdict(StrEnum):
    """How the first of two recipes compares with the second."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUAL = "equal"
    UNDECIDED = "undecided"

    @property
    def reversed(self) -> PairVerdict:
        """The verdict with the two recipes exchanged."""
        swap = {PairVerdict.HIGHER: PairVerdict.LOWER, PairVerdict.LOWER: PairVerdict.HIGHER}
        return swap.get(self, self)


@dataclass(frozen=True, eq=False)
class PairwiseDifferences:
    """First minus second recipe of every pair: arrays of shape (pairs,) in the order of ``numpy.triu_indices``.

    Attributes
    ----------
    first, second : index arrays
        The recipes of each pair.
    family : boolean array of shape (recipes,)
        Recipes whose pairs may be decided.
    difference, low, high
        Difference of the estimates, and its interval over the draws.
    p_greater, p_within
        Probability that the first is greater, and that they differ by less than the margin.
    p_family, p_equal_family
        Family-wise p-values: of a difference from zero, and of a difference as large as the margin.
    alpha : float
        Family-wise error of the verdicts.
    """

    first: Index
    second: Index
    family: Mask
    difference: Array
    low: Array
    high: Array
    p_greater: Array
    p_within: Array
    p_family: Array
    p_equal_family: Array
    alpha: float

    def row(self, i: int, j: int) -> int:
        """Return the row of the pair ``i < j``."""
        n = len(self.family)
        return i * n - i * (i + 1) // 2 + (j - i - 1)

    @cached_property
    def verdicts(self) -> list[PairVerdict]:
        """The verdict on every pair: undecided where one of the two is not in the family."""
        equal = (self.p_within >= EQUAL_PROBABILITY) & (self.p_equal_family <= 1.0 - EQUAL_PROBABILITY + TINY)
        differ = np.where(self.p_greater > 0.5, PairVerdict.HIGHER, PairVerdict.LOWER)
        decided = np.where(self.p_family <= self.alpha, differ, PairVerdict.UNDECIDED)
        verdicts = np.where(equal, PairVerdict.EQUAL, decided)
        verdicts[~(self.family[self.first] & self.family[self.second])] = PairVerdict.UNDECIDED
        return [PairVerdict(verdict) for verdict in verdicts.tolist()]

    def verdict(self, i: int, j: int) -> PairVerdict:
        """Return how recipe ``i`` compares with ``j``."""
        verdict = self.verdicts[self.row(min(i, j), max(i, j))]
        return verdict if i < j else verdict.reversed


def pairwise_differences(
    estimate: Array, draws: Array, family: Mask, *, margin: float, confidence_level: float
) -> PairwiseDifferences:
    """Return the differences between all pairs of recipes.

    Parameters
    ----------
    estimate : array of shape (recipes,)
    draws : array of shape (recipes, size)
        Column b holds the same draw of all recipes.
    family : boolean array of shape (recipes,)
        Recipes whose pairs form the family; the pairs of the others are shown but never decided.
    margin : float
        Smaller differences count as none.
    confidence_level : float
    """
    n, size = draws.shape
    first, second = np.triu_indices(n, 1)
    tail = 0.5 * (1.0 - confidence_level)
    parts = []
    largest, largest_signed = np.full(size, -np.inf), np.full(size, -np.inf)
    for i in range(n - 1):
        D = draws[i] - draws[i + 1 :]
        q = np.quantile(D, [tail, 0.1587, 0.5, 0.8413, 1.0 - tail], axis=1)
        below, above = np.maximum(q[2] - q[1], TINY), np.maximum(q[3] - q[2], TINY)
        p_greater = probability_above(D)
        t = np.where(q[2] > 0, q[2] / below, -q[2] / above)
        t_equal = np.minimum((margin - q[2]) / above, (margin + q[2]) / below)
        parts.append(np.stack([q[0], q[4], p_greater, (np.abs(D) < margin).mean(axis=1), t, t_equal]))
        members = family[i + 1 :] if family[i] else np.zeros(len(D), dtype=bool)
        if members.any():
            R = D[members] - q[2, members, None]
            R /= np.where(R < 0, below[members, None], above[members, None])
            np.maximum(largest_signed, R.max(axis=0), out=largest_signed)
            np.maximum(largest, np.maximum(R.max(axis=0), -R.min(axis=0)), out=largest)
    low, high, p_greater, p_within, t, t_equal = np.concatenate(parts, axis=1)
    return PairwiseDifferences(
        first, second, family, estimate[first] - estimate[second], low, high, p_greater, p_within,
        _exceedance(largest, t), _exceedance(largest_signed, t_equal),
        1.0 - confidence_level,
    )  # fmt: skip


def _exceedance(maxima: Array, t: Array) -> Array:
    """Return the share of ``maxima`` that are at least each ``t``; 1 where there is no family."""
    if not np.isfinite(maxima).all():
        return np.ones(len(t))
    ordered = np.sort(maxima)
    return np.asarray((len(ordered) - np.searchsorted(ordered, t - TINY, side="left")) / len(ordered))
