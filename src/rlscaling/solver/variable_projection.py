"""The solver: batched variable projection for the sigmoid.

Given ``alpha`` and ``u = log B`` the curve ``R0 (1 - s) + A s`` with ``s = 1 / (1 + exp(-eta))`` and
``eta = alpha + B (log C - mean log C)`` is linear in ``(R0, A)``. So only ``(alpha, u)`` is searched: a grid
(`start_grid`) finds the basin of every series, `levenberg_marquardt` finishes all of them together, and an
active-set loop keeps ``0 <= R0 <= A <= A_max``. ``(alpha, u)`` is used because with the natural pair ``(C_mid, B)`` the
iteration follows a curved valley slowly.

Files, verdicts and intervals are unknown here: arrays in, arrays out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rlscaling.arrays import Array, Index, Mask
from rlscaling.solver.levenberg_marquardt import SeriesBatch, minimise
from rlscaling.solver.problem import LOG_B_CENTRE, Problem
from rlscaling.solver.start_grid import StartGrid, baseline_ssr, grid_scores, pick_cells, start_grid

BLOCK_ELEMENTS = 36_000  # rows x points worked on at once: about ten such arrays fit the cache
MAX_BLOCK_ROWS = 512
GRID_ROWS = 64  # series whose grid scores stay in the cache
MAX_ROUNDS = 6
FEASIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class Solution:
    """Least-squares parameters of each series, arrays of shape (rows,)."""

    A: Array
    B: Array
    C_mid: Array
    R0: Array
    ssr: Array

    def draws(self) -> Array:
        """Return the parameters as columns ``A, B, C_mid, R0``."""
        return np.stack([self.A, self.B, self.C_mid, self.R0], axis=1)


def solve(
    problem: Problem,
    Y: Array,
    *,
    W: Array | None = None,
    n_starts: int = 1,
    rtol: float = 1e-11,
    prior: Array | None = None,
) -> Solution:
    """Fit every row of ``Y``.

    Parameters
    ----------
    problem : Problem
        Points, weights and constraints.
    Y : array of shape (rows, m)
        One series a row.
    W : array of shape (rows, m), optional
        Weights of each series (pairs bootstrap) instead of ``problem.weights``.
    n_starts : int
        How many basins of the grid to follow; 1 for replicates, more for the one fit that counts.
    rtol : float
        Relative decrease of the sum of squares at which a series has converged.
    prior : array of shape (rows,), optional
        Strength of the penalty ``prior (log B - log 1.6)^2`` added to the sum of squares of each series.

    Returns
    -------
    Solution
    """
    Y = np.atleast_2d(np.ascontiguousarray(Y, dtype=float))
    problem, scale = _scaled(problem, Y)
    Y, prior = Y / scale, None if prior is None else prior / scale**2
    grid = start_grid(problem)
    n_rows = max(1, min(MAX_BLOCK_ROWS, BLOCK_ELEMENTS // Y.shape[1]))
    parts = []
    for start in range(0, len(Y), n_rows):
        rows = slice(start, start + n_rows)
        series = _WeightedSeries(
            Y[rows], grid.weights if W is None else W[rows], None if prior is None else prior[rows]
        )
        parts.append(_solve_block(problem, grid, series, n_starts, rtol))
    alpha, u, R0, A, ssr = np.concatenate(parts, axis=1)
    B = np.clip(np.exp(u), *problem.B_bounds)
    if problem.ordered:  # rounding may leave the bounds by a hair
        A, R0 = np.clip(A, problem.R0_min, problem.A_max), np.maximum(R0, problem.R0_min)
    return Solution(A=A * scale, B=B, C_mid=np.exp(problem.centre - alpha / B), R0=R0 * scale, ssr=ssr * scale**2)


def _scaled(problem: Problem, Y: Array) -> tuple[Problem, float]:
    """Return the problem for ``Y / scale``: unbounded scores of any size are brought near 1 by a power of two."""
    size = float(np.abs(Y).max(initial=0.0))
    if problem.ordered or size == 0.0 or 0.1 < size < 10.0:
        return problem, 1.0
    scale = 2.0 ** round(np.log2(size))
    R0, A = (None if value is None else value / scale for value in (problem.R0, problem.A))
    return replace(problem, R0=R0, A=A, A_max=problem.A_max / scale), scale


@dataclass(frozen=True, eq=False)
class _WeightedSeries:
    """Series with their weights, (1, m) when shared, and strengths of the prior."""

    Y: Array
    W: Array
    prior: Array | None

    def __len__(self) -> int:
        return len(self.Y)

    def rows(self, pick: slice | Index | Mask) -> _WeightedSeries:
        return _WeightedSeries(
            self.Y[pick],
            self.W if len(self.W) == 1 else self.W[pick],
            None if self.prior is None else self.prior[pick],
        )


def _solve_block(problem: Problem, grid: StartGrid, series: _WeightedSeries, n_starts: int, rtol: float) -> Array:
    """Return alpha, u, R0, A and the sum of squares of each series, shape (5, series)."""
    cells, hold_R0, hold_A = _starts(problem, grid, series, n_starts)
    n_starts = cells.shape[1]
    if n_starts > 1:
        series = series.rows(np.repeat(np.arange(len(series)), n_starts))
    cell = cells.ravel()
    best = _active_set(problem, series, (grid.alpha[cell], grid.u[cell]), hold_R0.ravel(), hold_A.ravel(), rtol)
    if n_starts > 1:
        ssr = best[4].reshape(-1, n_starts)
        best = best[:, np.arange(len(ssr)) * n_starts + np.argmin(ssr, axis=1)]
    return best


def _starts(problem: Problem, grid: StartGrid, series: _WeightedSeries, n_starts: int) -> tuple[Index, Mask, Mask]:
    """Return the cells to start from, shape (series, starts), and which have R0 or A at its bound."""
    parts = []
    for start in range(0, len(series), GRID_ROWS):
        some = series.rows(slice(start, start + GRID_ROWS))
        Y, W = grid.view(some.Y, some.W)
        score, at_bounds = grid_scores(problem, grid, Y, W)
        if some.prior is not None:
            score -= some.prior[:, None] * (grid.u - LOG_B_CENTRE) ** 2
        cells = pick_cells(score, grid.shape, n_starts, baseline_ssr(problem, Y, W))
        parts.append((cells, *at_bounds(np.arange(len(cells))[:, None], cells)))
    width = max(cells.shape[1] for cells, *_ in parts)

    # where a part has fewer starts its last one is repeated
    wide = [[a[:, np.minimum(np.arange(width), a.shape[1] - 1)] for a in part] for part in parts]
    cells, hold_R0, hold_A = (np.concatenate(column) for column in zip(*wide, strict=True))
    return cells, hold_R0, hold_A


def _active_set(
    problem: Problem, series: _WeightedSeries, start: tuple[Array, Array], hold_R0: Mask, hold_A: Mask, rtol: float
) -> Array:
    """Fit with bounds: hold a coefficient at its bound, or release it, until nothing changes."""
    p, n = problem, len(series)
    R0_fixed = np.full(n, p.R0 if p.R0 is not None else p.R0_min if p.ordered else 0.0)
    A_fixed = np.full(n, p.A if p.A is not None else p.A_max if np.isfinite(p.A_max) else 0.0)
    hold_R0, hold_A = hold_R0 | (p.R0 is not None), hold_A | (p.A is not None)
    best = np.full((5, n), np.nan)
    best[4] = np.inf
    alpha, u = start[0].copy(), start[1].copy()
    todo = np.arange(n)
    for _ in range(MAX_ROUNDS):
        solution = np.empty((7, len(todo)))
        for free in ((False, False), (False, True), (True, False), (True, True)):
            group = (hold_R0[todo] != free[0]) & (hold_A[todo] != free[1])
            if group.any():
                k = todo[group]
                some = series.rows(k)
                batch = SeriesBatch.of(p, some.Y, some.W, free, (R0_fixed[k], A_fixed[k]), some.prior)
                solution[:, group] = minimise(batch, alpha[k], u[k], rtol)
        a, lu, R0, A, ssr, s_r, z_r = solution
        over = (A > p.A_max + FEASIBLE) & (p.A is None)
        under = (R0 < p.R0_min - FEASIBLE) & (p.R0 is None)
        feasible = ~(over | under)
        improved = feasible & (ssr < best[4, todo])
        best[:, todo[improved]] = solution[:5, improved]
        release_A = feasible & hold_A[todo] & (p.A is None) & (s_r < 0)
        release_R0 = feasible & hold_R0[todo] & (p.R0 is None) & (z_r > 0)
        near = (~over | (A < p.A_max * 1.6)) & (~under | (R0 > p.R0_min - 0.6))
        alpha[todo] = np.where(near | feasible, a, start[0][todo])
        u[todo] = np.where(near | feasible, lu, start[1][todo])
        hold_A[todo] = (hold_A[todo] | over) & ~release_A
        hold_R0[todo] = (hold_R0[todo] | under) & ~release_R0
        # a released bound is worth another round only while it still lowers the sum of squares
        again = over | under | ((release_A | release_R0) & improved)
        if not again.any():
            break
        todo = todo[again]
    return best
