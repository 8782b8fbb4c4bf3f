"""How far to run until ``A`` is identified to a chosen half-width: Fisher information along the run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import gain_share
from rlscaling.solver.fitted_model import FittedModel

FARTHEST = 1000.0  # times the compute so far; beyond that, no run length would do at this noise
N_GRID = 160
N_ENDS = 50
N_LAST = 10
Z95 = 1.96
Rate = Callable[[Array, Array], Array]


def compute_needed(
    model: FittedModel,
    draws: Array,
    half_width: float,
    *,
    rate: Rate | None = None,
    at: float | None = None,
    n_ends: int = N_ENDS,
) -> Array:
    """Return, for each draw, the compute at which the 95 % half-width of ``A`` falls to ``half_width``.

    With evaluations every ``step`` of compute the information about ``(A, B, log C_mid, R0)`` after ``C_end`` is
    the integral of ``J J' dC / step`` over the long-run variance ``sigma^2 / (1 - rho)^2`` of the noise, plus
    that of the observation of R0. Each draw has its own curve and noise, so the results have a distribution. Weighted
    evaluations give information in proportion to their weights, and later ones are like the last ten.

    Parameters
    ----------
    model : FittedModel
        The data so far.
    draws : array of shape (d, 4)
        Parameters ``A, B, C_mid, R0`` of replicates.
    half_width : float
        In units of the pass rate.
    rate : callable, optional
        Takes the correlation and the innovation sd of each draw; returns how many times the present information a unit
        of compute would give.
    at : float, optional
        The half-width is that of the curve at this compute, instead of ``A``.
    n_ends : int
        Run lengths tried, evenly in log compute.

    Returns
    -------
    array of shape (d,)
        ``inf`` where it is beyond a thousand times the compute so far.
    """
    C = model.series.compute
    step = float(np.median(np.diff(C)))
    first, last = max(float(C[0]), step * 0.5), float(C[-1])
    grid = np.geomspace(first, last * FARTHEST, max(N_GRID, 2 * n_ends))
    ends = np.geomspace(last, last * FARTHEST, n_ends)
    rho, sd = model.noise.draw(np.random.default_rng(0), len(draws))
    variance = (sd / (1.0 - rho)) ** 2
    if rate is not None:
        variance = variance / rate(rho, sd)
    J = _jacobian(grid, draws)  # (d, grid, 4)
    density = np.einsum("dgi,dgj->dgij", J, J)
    amount = _weight_along(model, grid) * np.diff(grid) / step
    area = 0.5 * (density[:, 1:] + density[:, :-1]) * amount[None, :, None, None]
    information = np.concatenate([np.zeros_like(area[:, :1]), np.cumsum(area, axis=1)], axis=1)
    information_at_ends = information[:, np.searchsorted(grid, ends, side="right") - 1]
    information_at_ends = information_at_ends / variance[:, None, None, None]
    if model.anchor is not None:
        Ja = _jacobian(np.array([model.anchor.compute]), draws)
        information_at_ends = information_at_ends + np.einsum("dgi,dgj->dgij", Ja, Ja) / model.anchor.standard_error**2
    towards = np.zeros((len(draws), 4))
    towards[:, 0] = 1.0
    if at is not None:
        towards = _jacobian(np.array([at]), draws)[:, 0]
    widths = Z95 * np.sqrt(_variance(information_at_ends, model, towards))
    enough = widths <= half_width
    index = np.argmax(enough, axis=1)
    return np.where(enough.any(axis=1), ends[index], np.inf)


def _weight_along(model: FittedModel, grid: Array) -> Array:
    """Return the weight of evaluations between the points of ``grid``: present ones, then the mean of the last ten."""
    C, w = model.series.compute, model.series.weights
    middle = np.sqrt(grid[1:] * grid[:-1])
    return np.where(middle > C[-1], w[-N_LAST:].mean(), np.interp(middle, C, w))


def _jacobian(compute: Array, draws: Array) -> Array:
    """Return derivatives by ``A, B, log C_mid, R0``, shape (draws, compute, 4)."""
    A, B, C_mid, R0 = (draws[:, j : j + 1] for j in range(4))
    s = gain_share(compute[None, :], B, C_mid)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(compute > 0, np.log(compute), 0.0)[None, :] - np.log(C_mid)
    slope = (A - R0) * s * (1.0 - s)
    return np.stack([s, slope * x, -slope * B, 1.0 - s], axis=2)


def _variance(information: Array, model: FittedModel, towards: Array) -> Array:
    """Return the variance of a linear combination ``towards`` (d, 4) of the parameters that are estimated."""
    p = model.problem
    keep = [0, *([1] if p.B_bounds[0] < p.B_bounds[1] else []), 2, *([3] if p.R0 is None else [])]
    M = information[..., keep, :][..., :, keep]
    scale = np.sqrt(np.maximum(np.einsum("...ii->...i", M), 1e-150))
    with np.errstate(all="ignore"):  # a replicate without a rise says nothing of C_mid: infinite width
        M = M / (scale[..., :, None] * scale[..., None, :]) + 1e-12 * np.eye(len(keep))
        inverse = np.linalg.inv(np.where(np.isfinite(M), M, 0.0) + 1e-12 * np.eye(len(keep)))
        g = towards[:, None, keep] / scale
        variance = np.einsum("...i,...ij,...j->...", g, inverse, g)
        return np.asarray(np.nan_to_num(np.maximum(variance, 0.0), nan=np.inf))
