"""Levenberg-Marquardt on the projected problem, many series at once, on a fixed active set.

Given ``(alpha, u)`` the free ones of R0 and A are solved exactly; the Jacobian by ``(alpha, u)`` is projected off their
columns (Kaufman). Sums over points are products with the columns ``w (1, xc, xc^2)``, so that a step over a block of
series is a dozen passes over arrays that stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rlscaling.arrays import Array, Index, Mask
from rlscaling.solver.problem import LOG_B_CENTRE, Problem

MAX_ITERATIONS = 400
RUNAWAY = 0.5  # a free A this share above its bound (or R0 this far below 0) is heading to infinity
PATIENCE = 6  # iterations before swings are looked for
POOR_GAIN = 0.25


@dataclass(frozen=True, eq=False)
class SolverState:
    """One point of each series: parameters, share ``s``, residual ``r``, sum of squares, ``sum w s``, ``sum w s^2``."""

    alpha: Array
    u: Array
    R0: Array
    A: Array
    s: Array
    r: Array
    ssr: Array
    s1: Array
    ss: Array

    def rows(self, keep: Mask) -> SolverState:
        """Return the series ``keep``."""
        return SolverState(*[getattr(self, name)[keep] for name in _FIELDS])

    def updated(self, where: Mask, trial: SolverState) -> SolverState:
        """Return the trial with the rows that are not ``where`` put back to self (in place: a trial is used once)."""
        for name in _FIELDS:
            mine, theirs = getattr(self, name), getattr(trial, name)
            np.copyto(theirs, mine, where=~where if mine.ndim == 1 else ~where[:, None])
        return trial


_FIELDS = tuple(SolverState.__dataclass_fields__)


@dataclass(frozen=True, eq=False)
class SolverPoints:
    """What depends on the points alone, made once a block.

    ``lines`` turns ``(alpha, B)`` into ``-eta``; ``moments`` are the columns ``w (1, xc, xc^2)`` for shared weights and
    ``(1, xc, xc^2)`` where each series has its own; ``zero`` are the rows of compute 0, where ``s = 0``.
    """

    lines: Array
    moments: Array
    zero: Index | None
    shared: bool

    @classmethod
    def of(cls, problem: Problem, W: Array) -> SolverPoints:
        """Return the points of a problem with weights of shape (1, m), shared, or (rows, m)."""
        x, shared = problem.xc, len(W) == 1
        powers = np.stack([np.ones_like(x), x, x * x])
        moments = np.ascontiguousarray((W * powers if shared else powers).T)
        zero = None if problem.offset is None else np.flatnonzero(np.isneginf(problem.offset))
        return cls(-powers[:2], moments, zero, shared)


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """The series fitted together, all with the same free linear coefficients.

    ``prior`` is the strength, per series, of the penalty ``prior (log B - log 1.6)^2``.
    """

    problem: Problem
    points: SolverPoints
    Y: Array
    W: Array
    WY: Array
    w1: Array
    y1: Array
    free_R0: bool
    free_A: bool
    R0_fixed: Array
    A_fixed: Array
    prior: Array | None

    @classmethod
    def of(
        cls,
        problem: Problem,
        Y: Array,
        W: Array,
        free: tuple[bool, bool],
        fixed: tuple[Array, Array],
        prior: Array | None,
    ) -> SeriesBatch:
        """Return the batch of series ``Y`` with ``(R0, A)`` free or fixed."""
        WY = W * Y
        return cls(problem, SolverPoints.of(problem, W), Y, W, WY, W.sum(axis=1), WY.sum(axis=1), *free, *fixed, prior)

    def rows(self, keep: Mask) -> SeriesBatch:
        """Return the series ``keep``."""
        shared = self.points.shared
        return replace(
            self, Y=self.Y[keep], WY=self.WY[keep], y1=self.y1[keep],
            W=self.W if shared else self.W[keep], w1=self.w1 if shared else self.w1[keep],
            R0_fixed=self.R0_fixed[keep], A_fixed=self.A_fixed[keep],
            prior=None if self.prior is None else self.prior[keep],
        )  # fmt: skip

    def sums(self, a: Array, n_moments: int) -> Array:
        """Return ``sum w a``, ``sum w a xc``, ... as rows, shape (n_moments, series)."""
        weighted = a if self.points.shared else self.W * a
        return np.asarray((weighted @ self.points.moments[:, :n_moments]).T)

    def evaluate(self, alpha: Array, u: Array) -> SolverState:
        """Solve the linear coefficients at ``(alpha, u)``."""
        s = np.stack([alpha, np.exp(u)], axis=1) @ self.points.lines  # -eta
        np.exp(s, out=s)
        s += 1.0
        np.reciprocal(s, out=s)
        if self.points.zero is not None:
            s[:, self.points.zero] = 0.0
        s1, ss = self.sums(s, 1)[0], self.sums(s * s, 1)[0]
        R0, A = self._coefficients(s, s1, ss)
        r = self.Y - R0[:, None]
        r -= (A - R0)[:, None] * s
        ssr = self.sums(r * r, 1)[0]
        if self.prior is not None:
            ssr = ssr + self.prior * (u - LOG_B_CENTRE) ** 2
        return SolverState(alpha, u, R0, A, s, r, ssr, s1, ss)

    def _coefficients(self, s: Array, s1: Array, ss: Array) -> tuple[Array, Array]:
        if not (self.free_R0 or self.free_A):
            return self.R0_fixed.copy(), self.A_fixed.copy()
        sy = np.asarray(np.einsum("ij,ij->i", self.WY, s))
        w1, y1 = self.w1, self.y1
        if self.free_R0 and self.free_A:
            sbar, ybar = s1 / w1, y1 / w1
            square, cross = ss - s1 * sbar, sy - s1 * ybar
            square = np.where(square > 1e-14 * w1, square, np.inf)
        elif self.free_A:
            square, cross = ss, sy - self.R0_fixed * s1
        else:
            square, cross = w1 - 2.0 * s1 + ss, self.A_fixed * (w1 - s1) - (y1 - sy)
        gain = np.where(square > 0, cross / square, 0.0)
        if self.problem.ordered:
            gain = np.maximum(gain, 0.0)
        if self.free_R0 and self.free_A:
            R0 = ybar - gain * sbar
            return R0, R0 + gain
        return (
            (self.R0_fixed.copy(), self.R0_fixed + gain) if self.free_A else (self.A_fixed - gain, self.A_fixed.copy())
        )

    def normal_equations(self, z: SolverState) -> tuple[Array, Array, Array, Array, Array]:
        """Return the gradient (2) and the projected Gauss-Newton matrix (3) in ``(alpha, u)``.

        The derivative by u is ``B xc`` times that by alpha.
        """
        B = np.exp(z.u)
        p = 1.0 - z.s
        p *= z.s
        p *= (z.A - z.R0)[:, None]
        ga, gu = self.sums(p * z.r, 2)
        haa, hau, huu = self.sums(p * p, 3)
        gu, hau, huu = gu * B, hau * B, huu * (B * B)
        if self.free_R0 or self.free_A:
            ps, qs = self.sums(p * z.s, 2)
            p1, q1 = self.sums(p, 2)
            qs, q1 = qs * B, q1 * B
            if self.free_R0 and self.free_A:  # project off span{1, s}
                haa, hau, huu = haa - p1 * p1 / self.w1, hau - p1 * q1 / self.w1, huu - q1 * q1 / self.w1
                pc, qc, square = ps - p1 * z.s1 / self.w1, qs - q1 * z.s1 / self.w1, z.ss - z.s1 * z.s1 / self.w1
            elif self.free_A:
                pc, qc, square = ps, qs, z.ss
            else:
                pc, qc, square = p1 - ps, q1 - qs, self.w1 - 2.0 * z.s1 + z.ss
            inverse = np.where(square > 0, 1.0 / square, 0.0)
            haa, hau, huu = haa - pc * pc * inverse, hau - pc * qc * inverse, huu - qc * qc * inverse
        if self.prior is not None:
            gu, huu = gu - self.prior * (z.u - LOG_B_CENTRE), huu + self.prior
        return ga, gu, haa, hau, huu

    def ran_away(self, z: SolverState) -> Mask:
        """Return which series have left the bounds for good: a pure power law, or pure saturation."""
        gone = np.zeros(len(z.u), dtype=bool)
        if self.problem.ordered and self.free_A:
            gone |= z.A > self.problem.A_max + RUNAWAY * max(1.0, self.problem.A_max)
        if self.problem.ordered and self.free_R0:
            gone |= z.R0 < self.problem.R0_min - RUNAWAY
        return gone


Normal = tuple[Array, Array, Array, Array, Array]


def _propose(problem: Problem, z: SolverState, normal: Normal, lam: Array) -> tuple[Array, Array]:
    """Return the damped step's end point, inside the bounds on log B and log C_mid."""
    ga, gu, haa, hau, huu = normal
    (u_lo, u_hi), (v_lo, v_hi) = problem.u_bounds, problem.v_bounds
    haa_d, huu_d = haa * (1.0 + lam) + 1e-300, huu * (1.0 + lam) + 1e-300
    det = haa_d * huu_d - hau * hau
    da = (huu_d * ga - hau * gu) / det
    du = (haa_d * gu - hau * ga) / det
    # singular, or log B at its bound and pushed outward: move alpha alone
    alone = ~(det > 1e-14 * haa_d * huu_d) | ((z.u <= u_lo) & (du < 0)) | ((z.u >= u_hi) & (du > 0))
    if u_lo == u_hi:
        alone[:] = True
    if alone.any():
        da, du = np.where(alone, ga / haa_d, da), np.where(alone, 0.0, du)
    alpha, u = z.alpha + _within(da, 3.0), np.minimum(np.maximum(z.u + _within(du, 1.0), u_lo), u_hi)
    v = -alpha * np.exp(-u)
    outside = (v < v_lo) | (v > v_hi)
    if outside.any():
        # log C_mid at its bound and pushed outward: move along it, where d alpha / d u = alpha
        edge = np.where(v < v_lo, v_lo, v_hi)
        along = outside & (np.abs(-z.alpha * np.exp(-z.u) - edge) <= 1e-9 * (1.0 + np.abs(edge)))
        h1 = huu_d + 2.0 * z.alpha * hau + z.alpha**2 * haa_d
        step = _within((gu + z.alpha * ga) / np.where(h1 > 0, h1, np.inf), 1.0)
        u = np.where(along, np.minimum(np.maximum(z.u + step, u_lo), u_hi), u)
        alpha = np.where(outside, -edge * np.exp(u), alpha)
    return alpha, u


def _within(step: Array, limit: float) -> Array:
    """Return ``step`` within ``limit`` of 0, and 0 where it is not a number."""
    step = np.minimum(np.maximum(step, -limit), limit)
    return np.where(np.isnan(step), 0.0, step)


def _swings(normal: Normal, step: Array, last: Array, drop: Array) -> Mask:
    """Return which steps turn back and gain far less than the model promised.

    They have overshot: undamped, the iteration swings to and fro across a curved valley.
    """
    ga, gu, haa, hau, huu = normal
    da, du = step
    promised = da * (2.0 * ga - haa * da - 2.0 * hau * du) + du * (2.0 * gu - huu * du)
    return np.asarray((drop < POOR_GAIN * promised) & (da * last[0] + du * last[1] < 0))


def minimise(batch: SeriesBatch, alpha: Array, u: Array, rtol: float) -> Array:
    """Minimise over ``(alpha, u)`` from the given start.

    Returns
    -------
    array of shape (7, series)
        alpha, u, R0, A, the sum of squares, and the sums ``sum w s r`` and ``sum w (1 - s) r`` that tell whether
        letting go of a bound of A or R0 would help.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _iterate(batch, alpha, u, rtol)


def _iterate(batch: SeriesBatch, alpha: Array, u: Array, rtol: float) -> Array:
    out, index = np.empty((7, len(alpha))), np.arange(len(alpha))
    z = batch.evaluate(alpha, u)
    lam, last = np.full(len(alpha), 1e-4), np.zeros((2, len(alpha)))
    for iteration in range(MAX_ITERATIONS):
        normal = batch.normal_equations(z)
        alpha, u = _propose(batch.problem, z, normal, lam)
        trial = batch.evaluate(alpha, u)
        better = trial.ssr <= z.ssr
        drop = z.ssr - trial.ssr
        change = drop / np.maximum(z.ssr, 1e-300)
        step = np.stack([alpha - z.alpha, u - z.u])
        lam_next = np.where(better, np.maximum(lam * 0.1, 1e-14), np.maximum(lam, 1e-12) * 10.0)
        if iteration >= PATIENCE:
            swinging = better & _swings(normal, step, last, drop)
            lam_next = np.where(swinging, np.maximum(lam * 10.0, 0.1), lam_next)
        lam, last = lam_next, np.where(better, step, last)
        done = np.where(better, change <= rtol, (change >= -1e-12) | (lam > 1e10))
        z = trial if better.all() else z.updated(better, trial)
        done |= batch.ran_away(z)
        if done.any():
            _store(out, index[done], batch.rows(done), z.rows(done))
            if done.all():
                return out
            keep = ~done
            batch, z, lam, index, last = batch.rows(keep), z.rows(keep), lam[keep], index[keep], last[:, keep]
    _store(out, index, batch, z)
    return out


def _store(out: Array, index: Index, batch: SeriesBatch, z: SolverState) -> None:
    sr, r1 = batch.sums(z.s * z.r, 1)[0], batch.sums(z.r, 1)[0]
    out[:, index] = z.alpha, z.u, z.R0, z.A, z.ssr, sr, r1 - sr
