"""Stage 1 of the solver: a grid over (log B, log C_mid) that finds the basin of every series at once.

In each cell the best R0 and A follow from three sums over the points, and all series share the curve shares ``s``:
one matrix product serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from rlscaling.arrays import Array, Index, Mask
from rlscaling.curves.sigmoid import log_compute, logistic
from rlscaling.solver.problem import Problem

AtBounds = Callable[[Index, Index], tuple[Mask, Mask]]

GRID_B = 16
GRID_SPACING = 0.35  # of log C_mid, at most
PROMISING = 3.0  # a second basin is followed when its cell is within this factor of the best cell's SSR
MAX_GRID_POINTS = 2000
MAX_ELEMENTS = 4_000_000  # cells x points in memory at once


@dataclass(frozen=True, eq=False)
class BinnedSeries:
    """A long problem with neighbours merged: enough to find the basin, not to fit."""

    problem: Problem
    starts: Index

    @classmethod
    def of(cls, problem: Problem) -> BinnedSeries | None:
        """Return the binned problem, or None for one short enough."""
        C = problem.compute
        if len(C) <= MAX_GRID_POINTS:
            return None
        forced = np.concatenate(
            [[True], (C[1:] <= C[:-1]) | (C[:-1] == 0)]
        )  # an observation of R0, or compute 0, is not merged
        starts = np.flatnonzero(forced | (np.arange(len(C)) % -(-len(C) // MAX_GRID_POINTS) == 0))
        weights = np.add.reduceat(problem.weights, starts)
        x = np.where(C > 0, log_compute(C), 0.0)
        mean_x = np.add.reduceat(problem.weights * x, starts) / weights
        compute = np.where(C[starts] > 0, np.exp(mean_x), 0.0)
        return cls(replace(problem, compute=compute, weights=weights), starts)

    def series(self, Y: Array, W: Array) -> tuple[Array, Array]:
        """Return weighted means and total weights of series (rows, m)."""
        total = np.add.reduceat(W, self.starts, axis=1)
        mean = np.add.reduceat(W * Y, self.starts, axis=1) / np.where(total > 0, total, 1.0)
        return mean, total


class StartGrid:
    """Cells of (log B, log C_mid) and the curve share ``s`` in each, computed once for all blocks."""

    def __init__(self, problem: Problem) -> None:
        self.weights = problem.weights[None, :]  # shared by all series, unless each has its own
        self.binned = BinnedSeries.of(problem)
        self.problem = problem if self.binned is None else self.binned.problem
        x = problem.xc[problem.compute > 0]
        lo, hi = x.min() - np.log(10.0), x.max() + np.log(50.0)
        n_mid = int(np.clip(np.ceil((hi - lo) / GRID_SPACING), 28, 200))
        u_lo, u_hi = problem.u_bounds
        us = np.linspace(u_lo, u_hi, GRID_B) if u_hi > u_lo else np.array([u_lo])
        vs = np.linspace(lo, hi, n_mid)
        self.shape = (len(us), len(vs))
        self.u = np.repeat(us, len(vs))
        self.alpha = -np.exp(self.u) * np.tile(vs, len(us))  # in the coordinates of the problem itself
        self.shift = np.exp(self.u) * (self.problem.centre - problem.centre)  # to those of the binned one
        self._kept: dict[int, tuple[Array, Array]] = {}
        self._own = self.weights if self.binned is None else self.binned.series(self.weights, self.weights)[1]
        self._block = max(1, MAX_ELEMENTS // len(self.problem.compute))

    def view(self, Y: Array, W: Array) -> tuple[Array, Array]:
        """Return series and weights as the grid sees them: binned where they are long."""
        if self.binned is None:
            return Y, W
        shared = W is self.weights
        mean, total = self.binned.series(Y, W)
        return mean, self._own if shared else total

    def sums(self, WY: Array, W: Array) -> tuple[Array, Array, Array]:
        """Return ``sum w s y``, ``sum w s^2`` and ``sum w s`` for each row and cell."""
        parts = []
        for start in range(0, len(self.u), self._block):
            S = self._shares(start)
            parts.append((WY @ S.T, *self._own_sums(S, W, start)))
        if len(parts) == 1:
            return parts[0]
        first, second, third = (np.concatenate(p, axis=1) for p in zip(*parts, strict=True))
        return first, second, third

    def _own_sums(self, S: Array, W: Array, start: int) -> tuple[Array, Array]:
        """Return ``sum w s^2`` and ``sum w s``, kept for weights that all series share."""
        if W is not self._own:
            return W @ (S * S).T, W @ S.T
        if start not in self._kept:
            self._kept[start] = W @ (S * S).T, W @ S.T
        return self._kept[start]

    def _shares(self, start: int) -> Array:
        if self._block >= len(self.u):
            return self._all_shares
        cells = slice(start, start + self._block)
        return logistic(self.problem.eta((self.alpha + self.shift)[cells], self.u[cells]))

    @cached_property
    def _all_shares(self) -> Array:
        return logistic(self.problem.eta(self.alpha + self.shift, self.u))


@lru_cache(maxsize=2)
def start_grid(problem: Problem) -> StartGrid:
    """Return the grid of this very problem, kept for the chunks of a bootstrap."""
    return StartGrid(problem)


def grid_scores(problem: Problem, grid: StartGrid, Y: Array, W: Array) -> tuple[Array, AtBounds]:
    """Return the reduction of the sum of squares in each cell.

    Also a function of (rows, cells) that returns whether R0, and A, lie at their bounds there: it is called only for
    the few cells that are followed.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if problem.R0 is None and problem.A is None:
            return _scores_both_free(problem, grid, Y, W)
        return _scores_one_free(problem, grid, Y, W)


def _scores_one_free(p: Problem, grid: StartGrid, Y: Array, W: Array) -> tuple[Array, AtBounds]:
    """R0 or A fixed (or both): the gain A - R0 is the only coefficient."""
    WY = W * Y
    sy, ss, s1 = grid.sums(WY, W)
    w1, y1 = W.sum(axis=1, keepdims=True), WY.sum(axis=1, keepdims=True)
    fixed = None
    if p.R0 is not None:  # y - R0 = (A - R0) s
        cross, square, limit = sy - p.R0 * s1, ss, p.A_max - p.R0
        fixed = None if p.A is None else p.A - p.R0
    else:  # A - y = (A - R0) (1 - s)
        assert p.A is not None
        cross, square, limit = p.A * (w1 - s1) - (y1 - sy), w1 - 2.0 * s1 + ss, p.A - p.R0_min
    usable = square > 1e-12 * w1
    gain = np.where(usable, cross / square, 0.0) if fixed is None else np.full_like(cross, fixed)
    at_limit = usable & (gain > limit)
    if p.ordered and fixed is None:
        gain = np.clip(gain, 0.0, limit)
    score = np.where(usable | (fixed is not None), gain * (2.0 * cross - gain * square), -np.inf)

    def at_bounds(row: Index, cell: Index) -> tuple[Mask, Mask]:
        limited = at_limit[row, cell]
        return (np.zeros_like(limited), limited) if p.R0 is not None else (limited, np.zeros_like(limited))

    return score, at_bounds


def _scores_both_free(p: Problem, grid: StartGrid, Y: Array, W: Array) -> tuple[Array, AtBounds]:
    """R0 and A free: regress on the centred share, which is well conditioned; clip the slope to the bounds."""
    w1 = W.sum(axis=1, keepdims=True)
    ybar = (W * Y).sum(axis=1, keepdims=True) / w1
    cross, ss, s1 = grid.sums(W * (Y - ybar), W)
    sbar = s1 / w1
    q = ss - s1 * sbar
    empty = ~(q > 1e-8 * w1)
    q[empty] = 0.0
    gain = cross * np.where(empty, 0.0, 1.0 / q)
    if p.ordered:  # the clipped gain, then (2 cross - gain q) gain, in two arrays that stay in the cache
        spare = np.maximum(p.A_max - ybar, 0.0) * (1.0 / (1.0 - sbar))
        score = np.minimum(gain, spare)
        np.multiply(np.maximum(ybar - p.R0_min, 0.0), 1.0 / sbar, out=spare)
        np.minimum(score, spare, out=score)
        np.maximum(score, 0.0, out=score)
        np.multiply(score, q, out=spare)
        cross *= 2.0
        cross -= spare
        score *= cross
    else:
        score = gain * cross
    if empty.any():
        score[np.broadcast_to(empty, score.shape)] = -np.inf

    def at_bounds(row: Index, cell: Index) -> tuple[Mask, Mask]:
        share, level, d = sbar[row if len(sbar) > 1 else 0, cell], ybar[row, 0], gain[row, cell]
        return (level - d * share < p.R0_min) & p.ordered, level + d * (1.0 - share) > p.A_max

    return score, at_bounds


def baseline_ssr(problem: Problem, Y: Array, W: Array) -> Array:
    """Return the sum of squares that the scores of `grid_scores` are reductions of, shape (rows,)."""
    if problem.R0 is not None:
        level: Array | float = problem.R0
    elif problem.A is not None:
        level = problem.A
    else:
        level = ((W * Y).sum(axis=1) / W.sum(axis=1))[:, None]
    return np.asarray((W * (Y - level) ** 2).sum(axis=1))


def pick_cells(score: Array, shape: tuple[int, int], n_starts: int, constant_ssr: Array) -> Index:
    """Return the best cell of each row and, in n_starts - 1 more columns, the next best local maxima.

    A maximum whose sum of squares is several times the best one is not followed: the best is repeated.
    """
    best: Index = np.argmax(score, axis=1)[:, None]
    if n_starts == 1:
        return best
    cube = score.reshape(-1, *shape)
    padded = np.full((len(cube), shape[0] + 2, shape[1] + 2), -np.inf)
    padded[:, 1:-1, 1:-1] = cube
    peak = np.ones(cube.shape, dtype=bool)
    for di in range(3):
        for dj in range(3):
            peak &= cube >= padded[:, di : di + shape[0], dj : dj + shape[1]]
    ranked = np.where(peak.reshape(len(score), -1), score, -np.inf)
    cells = np.argsort(-ranked, axis=1, kind="stable")[:, :n_starts]
    ssr = constant_ssr[:, None] - np.take_along_axis(ranked, cells, axis=1)
    promising = ssr <= PROMISING * ssr[:, :1]
    cells = np.where(promising, cells, best)
    return np.asarray(cells[:, : max(1, int(promising.sum(axis=1).max()))])
