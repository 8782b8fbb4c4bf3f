"""The procedure of the paper: a grid over A and C_mid, B by least squares in each cell, and the best cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import logistic, sigmoid
from rlscaling.errors import FitError
from rlscaling.solver.problem import Problem

N_LOG_B = 40
N_POLISHED = 200
N_STEPS = 12


@dataclass(frozen=True, eq=False)
class GridSpec:
    """Values of the grid. The default is the paper's [ScaleRL, A.5].

    (Seven of Table 1's C_mid lie on ``linspace(100, 4000, 100)`` and none on the stated [100, 40000].)
    """

    A: Array
    C_mid: Array

    @classmethod
    def of(cls, axes: tuple[tuple[float, ...], tuple[float, ...]] | None) -> GridSpec:
        """Return the grid with these axes, or the paper's."""
        if axes is not None:
            return cls(np.array(axes[0]), np.array(axes[1]))
        return cls(np.arange(90.0, 161.0) * 0.005, np.linspace(100.0, 40000.0, 100))


@dataclass(frozen=True, eq=False)
class GridFit:
    """The best cell: ``A, B, C_mid, R0``, its sum of squares, and the parameters at the edge of the grid."""

    params: tuple[float, float, float, float]
    ssr: float
    at_edge: tuple[str, ...]


def fit_on_grid(problem: Problem, y: Array, grid: GridSpec) -> GridFit:
    """Return the cell with the lowest sum of squares, ``B`` optimised within each cell.

    For each C_mid and 40 values of B, two sums give the sum of squares for every A at once. The best 200 cells are
    then polished in B by Gauss-Newton with step halving, so that the winner is that of the full double loop.
    """
    assert problem.R0 is not None, "checked by the caller"
    R0, w = problem.R0, problem.weights
    keep = (grid.A > R0) & (grid.A <= problem.A_max)
    if not keep.any():
        raise FitError(
            f"no A of the grid ({grid.A.min():g} to {grid.A.max():g}) lies between R0 = {R0:g} and A_max = "
            f"{problem.A_max:g}; give grid= with other values"
        )
    A, C_mid = grid.A[keep], grid.C_mid
    x = np.where(problem.compute > 0, problem.xc, -np.inf)[None, :] - (np.log(C_mid) - problem.centre)[:, None]
    log_b = np.linspace(*problem.u_bounds, N_LOG_B)
    d = y - R0
    gain = A - R0
    by_gain = np.stack([-2.0 * gain, gain * gain])
    S = logistic(np.exp(log_b)[:, None, None] * x)  # (B, C_mid, n)
    sums = np.stack([S @ (w * d), (S * S) @ w], axis=2)
    ssr = sums @ by_gain  # (B, C_mid, A), without the common total
    lowest = ssr.min(axis=0)
    n = min(N_POLISHED, lowest.size)
    cells = np.argpartition(lowest, n - 1, axis=None)[:n]
    i, j = np.unravel_index(np.sort(cells), lowest.shape)
    u, polished = _polish(problem, x[i], d, gain[j], log_b[ssr[:, i, j].argmin(axis=0)])
    winner = int(np.argmin(polished))
    params = (float(A[j[winner]]), float(np.exp(u[winner])), float(C_mid[i[winner]]), float(R0))
    residual = y - sigmoid(problem.compute, *params)
    edge = {"A": (A, j[winner]), "C_mid": (C_mid, i[winner])}
    at_edge = tuple(name for name, (axis, k) in edge.items() if len(axis) > 1 and k in (0, len(axis) - 1))
    return GridFit(params, float(np.sum(w * residual**2)), at_edge)


def _polish(problem: Problem, x: Array, d: Array, gain: Array, u: Array) -> tuple[Array, Array]:
    """Minimise the sum of squares of each cell over ``u = log B``; return u and the sum of squares."""
    w, (low, high) = problem.weights, problem.u_bounds
    finite_x = np.where(np.isfinite(x), x, 0.0)
    c = gain[:, None]

    def evaluate(u: Array) -> tuple[Array, Array, Array]:
        """Return the sum of squares, and gradient and curvature by u (without the factor B of the slope)."""
        s = np.multiply(x, -np.exp(u)[:, None])
        np.exp(s, out=s)
        s += 1.0
        np.reciprocal(s, out=s)
        slope = 1.0 - s
        slope *= s
        slope *= finite_x
        s *= c
        np.subtract(d, s, out=s)
        ssr = (s * s) @ w
        s *= slope
        slope *= slope
        return ssr, s @ w, slope @ w

    with np.errstate(over="ignore"):
        ssr, g, h = evaluate(u)
        damping = np.ones(len(u))
        for _ in range(N_STEPS):
            step = g / np.maximum(gain * np.exp(u) * h, 1e-300)
            trial = np.minimum(np.maximum(u + damping * np.minimum(np.maximum(step, -0.5), 0.5), low), high)
            new, new_g, new_h = evaluate(trial)
            better = new <= ssr
            damping = np.where(better, np.minimum(damping * 2.0, 1.0), damping * 0.25)
            moved = np.abs(trial - u).max()
            u, ssr = np.where(better, trial, u), np.where(better, new, ssr)
            g, h = np.where(better, new_g, g), np.where(better, new_h, h)
            if moved < 1e-10:
                break
    return u, ssr
