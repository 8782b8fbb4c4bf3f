"""The solver: batched variable projection for the sigmoid.

Given ``alpha`` and ``u = log B`` the curve ``R0 (1 - s) + A s`` with ``s = 1 / (1 + exp(-eta))`` and
``eta = alpha + B (log C - mean log C)`` is linear in ``(R0, A)``. So only ``(alpha, u)`` is searched: a grid
(`startgrid`) finds the basin of every series, a Levenberg-Marquardt iteration on the projected problem (Kaufman's
Jacobian) finishes all of them together, and an active-set loop keeps ``0 <= R0 <= A <= A_max``. ``(alpha, u)`` is
used because the natural pair ``(C_mid, B)`` makes the iteration crawl along a curved valley.

Nothing here knows about files, verdicts or intervals: arrays in, arrays out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rlscaling.curves import Array, Index, Mask
from rlscaling.problem import Problem
from rlscaling.startgrid import StartGrid, baseline_ssr, grid_scores, pick_cells

BLOCK_ELEMENTS = 36_000  # rows x points worked on at once: about ten such arrays fit the cache
MAX_BLOCK_ROWS = 512
MAX_ITERATIONS = 80
MAX_ROUNDS = 6
RUNAWAY = 0.5  # a free A this share above its bound (or R0 this far below 0) is heading to infinity
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


def solve(problem: Problem, Y: Array, *, W: Array | None = None, n_starts: int = 1, rtol: float = 1e-11) -> Solution:
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

    Returns
    -------
    Solution
    """
    Y = np.atleast_2d(np.ascontiguousarray(Y, dtype=float))
    grid = StartGrid(problem)
    n_rows = max(1, min(MAX_BLOCK_ROWS, BLOCK_ELEMENTS // Y.shape[1]))
    parts = []
    for start in range(0, len(Y), n_rows):
        rows = slice(start, start + n_rows)
        weights = problem.weights[None, :] if W is None else W[rows]
        parts.append(_solve_block(problem, grid, Y[rows], weights, n_starts, rtol))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    alpha, u, R0, A, ssr = columns
    B = np.exp(u)
    return Solution(A=A, B=B, C_mid=np.exp(problem.centre - alpha / B), R0=R0, ssr=ssr)


# --- Levenberg-Marquardt on a fixed active set ----------------------------------------------------------


def _dot(a: Array, b: Array) -> Array:
    """Return the inner product of each pair of rows."""
    return np.asarray(np.einsum("ij,ij->i", a, b))


@dataclass(frozen=True, eq=False)
class _State:
    """One point of each series: parameters, share ``s``, residual ``r`` and the weighted sum of squares."""

    alpha: Array
    u: Array
    R0: Array
    A: Array
    s: Array
    r: Array
    ssr: Array

    def rows(self, keep: Mask) -> _State:
        return _State(*(getattr(self, f)[keep] for f in self.__dataclass_fields__))

    def updated(self, where: Mask, other: _State) -> _State:
        """Return self with the rows ``where`` taken from ``other``."""
        if where.all():
            return other
        pick = {
            f: np.where(where if getattr(self, f).ndim == 1 else where[:, None], getattr(other, f), getattr(self, f))
            for f in self.__dataclass_fields__
        }
        return _State(**pick)


@dataclass(frozen=True, eq=False)
class _Batch:
    """The series being fitted together, all with the same free linear coefficients."""

    problem: Problem
    Y: Array
    W: Array  # (1, m) when shared
    free_R0: bool
    free_A: bool
    R0_fixed: Array
    A_fixed: Array

    def rows(self, keep: Mask) -> _Batch:
        W = self.W if len(self.W) == 1 else self.W[keep]
        return replace(self, Y=self.Y[keep], W=W, R0_fixed=self.R0_fixed[keep], A_fixed=self.A_fixed[keep])

    def evaluate(self, alpha: Array, u: Array) -> _State:
        """Solve the linear coefficients at ``(alpha, u)``."""
        s = self.problem.eta(alpha, u)
        np.negative(s, out=s)
        with np.errstate(over="ignore"):
            np.exp(s, out=s)
        s += 1.0
        np.reciprocal(s, out=s)
        R0, A = self._coefficients(s)
        r = self.Y - R0[:, None]
        r -= (A - R0)[:, None] * s
        ssr = np.einsum("ij,ij,ij->i", np.broadcast_to(self.W, r.shape), r, r) + self.problem.penalty(u)
        return _State(alpha, u, R0, A, s, r, ssr)

    def _coefficients(self, s: Array) -> tuple[Array, Array]:
        if not (self.free_R0 or self.free_A):
            return self.R0_fixed, self.A_fixed
        Ws = self.W * s
        ss, sy = np.einsum("ij,ij->i", Ws, s), np.einsum("ij,ij->i", Ws, self.Y)
        s1 = Ws.sum(axis=1)
        w1, y1 = self._totals
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.free_R0 and self.free_A:
                sbar, ybar = s1 / w1, y1 / w1
                q = ss - s1 * sbar
                d = np.where(q > 1e-14 * w1, (sy - s1 * ybar) / q, 0.0)
                if self.problem.ordered:
                    d = np.maximum(d, 0.0)
                R0 = ybar - d * sbar
                return R0, R0 + d
            if self.free_A:
                gain = np.where(ss > 0, (sy - self.R0_fixed * s1) / ss, 0.0)
                if self.problem.ordered:
                    gain = np.maximum(gain, 0.0)
                return self.R0_fixed, self.R0_fixed + gain
            zz = w1 - 2.0 * s1 + ss
            gain = np.where(zz > 0, (self.A_fixed * (w1 - s1) - (y1 - sy)) / zz, 0.0)
            if self.problem.ordered:
                gain = np.maximum(gain, 0.0)
            return self.A_fixed - gain, self.A_fixed

    @cached_property
    def _totals(self) -> tuple[Array, Array]:
        return self.W.sum(axis=1), np.einsum("ij,ij->i", np.broadcast_to(self.W, self.Y.shape), self.Y)

    def normal_equations(self, z: _State) -> tuple[Array, Array, Array, Array, Array]:
        """Return the gradient (2) and the projected Gauss-Newton matrix (3) in ``(alpha, u)``."""
        p = 1.0 - z.s
        p *= z.s
        p *= (z.A - z.R0)[:, None]
        q = p * (np.exp(z.u)[:, None] * self.problem.xc)
        Wp, Wq = self.W * p, self.W * q
        ga, gu = _dot(Wp, z.r), _dot(Wq, z.r)
        haa, hau, huu = _dot(Wp, p), _dot(Wp, q), _dot(Wq, q)
        if self.problem.log_B_prior is not None:
            mean, strength = self.problem.log_B_prior
            gu, huu = gu - strength * (z.u - mean), huu + strength
        if not (self.free_R0 or self.free_A):
            return ga, gu, haa, hau, huu
        ps, qs, p1, q1 = _dot(Wp, z.s), _dot(Wq, z.s), Wp.sum(axis=1), Wq.sum(axis=1)
        Ws = self.W * z.s
        ss, s1, w1 = _dot(Ws, z.s), Ws.sum(axis=1), self._totals[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.free_R0 and self.free_A:  # project off span{1, s}
                haa, hau, huu = haa - p1 * p1 / w1, hau - p1 * q1 / w1, huu - q1 * q1 / w1
                pc, qc, square = ps - p1 * s1 / w1, qs - q1 * s1 / w1, ss - s1 * s1 / w1
            elif self.free_A:
                pc, qc, square = ps, qs, ss
            else:
                pc, qc, square = p1 - ps, q1 - qs, w1 - 2.0 * s1 + ss
            inverse = np.where(square > 0, 1.0 / square, 0.0)
        return ga, gu, haa - pc * pc * inverse, hau - pc * qc * inverse, huu - qc * qc * inverse


def _propose(problem: Problem, z: _State, normal: tuple[Array, ...], lam: Array) -> tuple[Array, Array]:
    """Return the damped step's end point, inside the bounds on log B and log C_mid."""
    ga, gu, haa, hau, huu = normal
    (u_lo, u_hi), (v_lo, v_hi) = problem.u_bounds, problem.v_bounds
    haa_d, huu_d = haa * (1.0 + lam) + 1e-300, huu * (1.0 + lam) + 1e-300
    det = haa_d * huu_d - hau * hau
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        da = (huu_d * ga - hau * gu) / det
        du = (haa_d * gu - hau * ga) / det
        singular = ~(det > 1e-14 * haa_d * huu_d)
        da, du = np.where(singular, ga / haa_d, da), np.where(singular, 0.0, du)
        # log B at its bound and pushed outward: move alpha alone
        stuck_u = ((z.u <= u_lo) & (du < 0)) | ((z.u >= u_hi) & (du > 0)) | (u_lo == u_hi)
        da, du = np.where(stuck_u, ga / haa_d, da), np.where(stuck_u, 0.0, du)
    da, du = np.clip(np.nan_to_num(da), -3.0, 3.0), np.clip(np.nan_to_num(du), -1.0, 1.0)
    alpha, u = z.alpha + da, np.clip(z.u + du, u_lo, u_hi)
    v_old, v = -z.alpha * np.exp(-z.u), -alpha * np.exp(-u)
    outside = (v < v_lo) | (v > v_hi)
    if outside.any():
        # log C_mid at its bound and pushed outward: move along it, where d alpha / d u = alpha
        edge = np.where(v < v_lo, v_lo, v_hi)
        along = outside & (np.abs(v_old - edge) <= 1e-9 * (1.0 + np.abs(edge)))
        g1 = gu + z.alpha * ga
        h1 = huu_d + 2.0 * z.alpha * hau + z.alpha**2 * haa_d
        step = np.clip(np.nan_to_num(g1 / np.where(h1 > 0, h1, np.inf)), -1.0, 1.0)
        u = np.where(along, np.clip(z.u + step, u_lo, u_hi), u)
        alpha = np.where(outside, -edge * np.exp(u), alpha)
    return alpha, u


def _levenberg_marquardt(batch: _Batch, alpha: Array, u: Array, rtol: float) -> tuple[Array, ...]:
    """Minimise over ``(alpha, u)``; return alpha, u, R0, A, ssr and the sums that tell whether to release a bound."""
    problem = batch.problem
    n = len(alpha)
    out = np.empty((7, n))
    index = np.arange(n)
    z = batch.evaluate(alpha, u)
    lam = np.full(n, 1e-4)
    for _ in range(MAX_ITERATIONS):
        alpha, u = _propose(problem, z, batch.normal_equations(z), lam)
        trial = batch.evaluate(alpha, u)
        better = trial.ssr <= z.ssr
        change = (z.ssr - trial.ssr) / np.maximum(z.ssr, 1e-300)
        lam = np.where(better, np.maximum(lam * 0.1, 1e-14), np.maximum(lam, 1e-12) * 10.0)
        done = np.where(better, change <= rtol, (change >= -1e-12) | (lam > 1e10))
        z = z.updated(better, trial)
        if problem.ordered:
            if batch.free_A:
                done |= z.A > problem.A_max + RUNAWAY * max(1.0, problem.A_max)
            if batch.free_R0:
                done |= z.R0 < problem.R0_min - RUNAWAY
        if done.any():
            _store(out, index[done], batch.rows(done), z.rows(done))
            keep = ~done
            if not keep.any():
                return tuple(out)
            batch, z, lam, index = batch.rows(keep), z.rows(keep), lam[keep], index[keep]
    _store(out, index, batch, z)
    return tuple(out)


def _store(out: Array, index: Index, batch: _Batch, z: _State) -> None:
    Wr = batch.W * z.r
    sr = np.einsum("ij,ij->i", Wr, z.s)
    out[:, index] = z.alpha, z.u, z.R0, z.A, z.ssr, sr, Wr.sum(axis=1) - sr


# --- the active-set loop -----------------------------------------------------------------------------------


def _solve_block(problem: Problem, grid: StartGrid, Y: Array, W: Array, n_starts: int, rtol: float) -> list[Array]:
    score, at_R0, at_A = grid_scores(problem, grid, Y, W)
    score = score - problem.penalty(grid.u)
    cells = pick_cells(score, grid.shape, n_starts, baseline_ssr(problem, Y, W))
    n_starts = cells.shape[1]
    row = np.repeat(np.arange(len(Y)), n_starts)
    cell = cells.ravel()
    if n_starts > 1:
        Y, W = Y[row], W if len(W) == 1 else W[row]
    best = _active_set(problem, Y, W, grid.alpha[cell], grid.u[cell], at_R0[row, cell], at_A[row, cell], rtol)
    if n_starts > 1:
        ssr = best[4].reshape(-1, n_starts)
        winner = np.arange(len(ssr)) * n_starts + np.argmin(ssr, axis=1)
        best = best[:, winner]
    return list(best)


def _active_set(
    problem: Problem, Y: Array, W: Array, alpha0: Array, u0: Array, hold_R0: Mask, hold_A: Mask, rtol: float
) -> Array:
    """Fit with bounds: hold a coefficient at its bound, or release it, until nothing changes."""
    p, n = problem, len(Y)
    R0_fixed = np.full(n, p.R0 if p.R0 is not None else p.R0_min if p.ordered else 0.0)
    A_fixed = np.full(n, p.A if p.A is not None else p.A_max if np.isfinite(p.A_max) else 0.0)
    hold_R0, hold_A = hold_R0 | (p.R0 is not None), hold_A | (p.A is not None)
    best = np.full((5, n), np.nan)
    best[4] = np.inf
    alpha, u = alpha0.copy(), u0.copy()
    todo = np.arange(n)
    for _ in range(MAX_ROUNDS):
        fit = np.empty((7, len(todo)))
        for free_R0 in (False, True):
            for free_A in (False, True):
                group = (hold_R0[todo] != free_R0) & (hold_A[todo] != free_A)
                if group.any():
                    k = todo[group]
                    Wk = W if len(W) == 1 else W[k]
                    batch = _Batch(p, Y[k], Wk, free_R0, free_A, R0_fixed[k], A_fixed[k])
                    fit[:, group] = _levenberg_marquardt(batch, alpha[k], u[k], rtol)
        a, lu, R0, A, ssr, s_r, z_r = fit
        over = (A > p.A_max + FEASIBLE) & (p.A is None)
        under = (R0 < p.R0_min - FEASIBLE) & (p.R0 is None)
        feasible = ~(over | under)
        improved = feasible & (ssr < best[4, todo])
        best[:, todo[improved]] = fit[:5, improved]
        release_A = feasible & hold_A[todo] & (p.A is None) & (s_r < 0)
        release_R0 = feasible & hold_R0[todo] & (p.R0 is None) & (z_r > 0)
        near = (~over | (A < p.A_max * 1.6)) & (~under | (R0 > p.R0_min - 0.6))
        restart = near | feasible
        alpha[todo] = np.where(restart, a, alpha0[todo])
        u[todo] = np.where(restart, lu, u0[todo])
        hold_A[todo] = (hold_A[todo] | over) & ~release_A
        hold_R0[todo] = (hold_R0[todo] | under) & ~release_R0
        # a released bound is worth another round only while it still lowers the sum of squares
        again = over | under | ((release_A | release_R0) & improved)
        if not again.any():
            break
        todo = todo[again]
    return best
