"""The posterior of a run on a grid: two shapes of curve, AR(1) noise, and model discrepancy.

``y = R0 (1 - s) + A s + discrepancy + noise``, with ``s`` a sigmoid of ``B log(C / C_mid)``. Given ``B, C_mid``, the
shape and the noise, ``R0`` and ``A`` are normal; the rest is a grid. The noise is AR(1) over evaluations; the model
discrepancy is a Gaussian process in log C (Ornstein-Uhlenbeck) of a given correlation length: where the last
evaluations lie off the curve, so does the forecast, and it returns to the curve slowly.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from rlscaling.arrays import Array, Index
from rlscaling.curves.forms import FORMS
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.uncertainty.prior import Prior

RHO = (0.0, 0.3, 0.6, 0.9)
MAX_POINTS = 60  # neighbours are averaged down to this many
N_B, N_C_MID = 14, 36  # cells
SPAN, C_MID_SPAN = 2.5, 4.0  # how many sd of the priors on log B and log C_mid they cover
BELOW, ABOVE = math.log(10.0), math.log(50.0)  # C_mid: from a tenth of the first to 50 times the last compute
NOISE_RATIO, MOST_NOISE, LEAST_NOISE = 1.6, 0.3, 1e-5  # grid of the noise, in units of the scores
GIVEN_SE = 1e-4  # of a parameter that the caller fixed
FREE_R0_SD = 0.15  # around the first fitted evaluation, where there is no observation of R0
JITTER = 1e-9
MAX_ZOOMS, NEGLIGIBLE, ENOUGH = 3, 1e-5, 0.6  # the grid is narrowed to the cells that carry the posterior


def gain_share_of(shape: str, z: Array) -> Array:
    """Return the share of the gain of a form at ``z = B log(C / C_mid)``."""
    gain_share = FORMS[shape].gain_share
    assert gain_share is not None, "checked by Prior"
    return gain_share(z)


@dataclass(frozen=True, eq=False)
class _Data:
    """Evaluations on the scale of the prior, at most `MAX_POINTS`."""

    compute: Array
    y: Array
    position: Array
    weights: Array
    shift: float
    scale: float
    R0: tuple[float, float, float]  # compute, value and standard error of the observation of R0
    A_range: tuple[float, float]

    @property
    def x(self) -> Array:
        return np.log(self.compute)


@dataclass(frozen=True, eq=False)
class _Component:
    """One shape, correlation and size of the discrepancy: moments of R0 and A in every cell, arrays (noise, cells)."""

    shape: str
    wander: float
    whitening: Array  # inverse Cholesky factor of the covariance, (n, n)
    share: Array  # (n, cells)
    A: Array
    R0: Array
    A_sd: Array
    outside: tuple[Array, Array]  # probability below the lower and below the upper bound of A
    R0_on_A: Array
    R0_precision: Array


@dataclass(frozen=True, eq=False)
class Posterior:
    """The grid with its weights, shape (components, noise, cells)."""

    data: _Data
    prior: Prior
    components: tuple[_Component, ...]
    probability: Array
    u: Array
    v: Array
    sigma: Array
    axes: tuple[Array, Array]

    def shape_probability(self, shape: str) -> float:
        """Return the posterior probability of a shape."""
        mine = [c.shape == shape for c in self.components]
        return float(self.probability[mine].sum())

    def draw(self, rng: np.random.Generator, size: int) -> Draws:
        """Draw ``size`` runs: stratified over the grid, then ``A`` and ``R0`` given the cell."""
        cumulative = np.cumsum(self.probability.ravel())
        at = (rng.permutation(size) + rng.random(size)) / size * cumulative[-1]
        pick = np.minimum(np.searchsorted(cumulative, at), len(cumulative) - 1)
        component, noise, cell = np.unravel_index(pick, self.probability.shape)
        A, R0 = np.empty(size), np.empty(size)
        low, high = self.data.A_range
        for k, rows in _groups(component):
            one, at_cell = self.components[k], (noise[rows], cell[rows])
            below, above = (cdf[at_cell] for cdf in one.outside)
            p = np.clip(below + rng.random(len(rows)) * (above - below), 1e-12, 1.0 - 1e-12)
            A[rows] = np.clip(one.A[at_cell] + one.A_sd[at_cell] * ndtri(p), low, high)
            R0[rows] = one.R0[at_cell] - one.R0_on_A[at_cell] * (A[rows] - one.A[at_cell])
            R0[rows] += rng.standard_normal(len(rows)) / np.sqrt(one.R0_precision[at_cell])
        if math.isfinite(high):
            R0 = np.clip(R0, 0.0, A)
        return Draws(self, component, cell, A, R0, np.exp(self.u[cell]), np.exp(self.v[cell]), self.sigma[noise])


@dataclass(frozen=True, eq=False)
class Draws:
    """Runs drawn from a posterior, on the scale of the prior, arrays of shape (size,)."""

    posterior: Posterior
    component: Index
    cell: Index
    A: Array
    R0: Array
    B: Array
    C_mid: Array
    sigma: Array

    def parameters(self) -> Array:
        """Return ``A, B, C_mid, R0`` in the units of the scores, shape (size, 4)."""
        data = self.posterior.data
        A, R0 = (data.shift + data.scale * value for value in (self.A, self.R0))
        return np.stack([A, self.B, self.C_mid, R0], axis=1)

    def runs(
        self, compute: Array, rng: np.random.Generator, noise_scale: Array | float = 1.0
    ) -> tuple[Array, Array]:  # fmt: skip
        """Return where each run stands at ``compute``, and one evaluation of it there, both (size, n).

        The discrepancy of the last evaluations is carried forward, with its uncertainty. ``noise_scale`` is the noise
        of the evaluation over that of one of mean weight.
        """
        data, size = self.posterior.data, (len(self.A), len(compute))
        level, x = np.empty(size), np.log(compute)
        near = _decay(x[:, None] - data.x[None, :], self.posterior.prior.length)
        among = _decay(x[:, None] - x[None, :], self.posterior.prior.length)
        for k, rows in _groups(self.component):
            one = self.posterior.components[k]
            share = gain_share_of(one.shape, self.B[rows, None] * (x - np.log(self.C_mid[rows, None])))
            R0, A = self.R0[rows], self.A[rows]
            level[rows] = R0[:, None] * (1.0 - share) + A[:, None] * share
            if one.wander == 0.0:
                continue
            s = one.share[:, self.cell[rows]]
            residual = data.y[:, None] - R0 * (1.0 - s) - A * s
            gain = one.wander**2 * near @ one.whitening.T
            covariance = one.wander**2 * among - gain @ gain.T
            root = np.linalg.cholesky(covariance + JITTER * max(one.wander**2, 1.0) * np.eye(len(x)))
            level[rows] += (gain @ (one.whitening @ residual)).T
            level[rows] += self.sigma[rows, None] * (rng.standard_normal((len(rows), len(x))) @ root.T)
        level = _widened(level, x - data.x[-1], self.posterior.prior.widening)
        seen = level + noise_scale * self.sigma[:, None] * rng.standard_normal(size)
        low, high = (0.0, data.A_range[1]) if math.isfinite(data.A_range[1]) else (-np.inf, np.inf)
        return tuple(data.shift + data.scale * np.clip(a, low, high) for a in (level, seen))  # type: ignore[return-value]


def _groups(component: Index) -> list[tuple[int, Index]]:
    return [(int(k), np.flatnonzero(component == k)) for k in np.unique(component)]


def _decay(distance: Array, length: float) -> Array:
    return np.asarray(np.exp(-np.abs(distance) / length))


def _widened(level: Array, beyond: Array, widening: float) -> Array:
    """Return the draws spread about their median by ``1 + widening log(C / C_last)``."""
    median = np.median(level, axis=0)
    return np.asarray(median + (level - median) * (1.0 + widening * np.maximum(beyond, 0.0)))


def posterior(model: FittedModel, prior: Prior) -> Posterior:
    """Return the posterior of a fitted run under ``prior``.

    Parameters
    ----------
    model : FittedModel
        The evaluations, with constraints and observation of R0; the least-squares fit gives the scale of noise only.
    prior : Prior

    Returns
    -------
    Posterior
    """
    data = _prepare(model)
    axes = _axes(model, data, prior)
    coarse = replace(prior, wander=tuple(dict.fromkeys((prior.wander[0], prior.wander[len(prior.wander) // 2]))))
    for _ in range(MAX_ZOOMS):
        closer = _support(_on_grid(model, data, coarse, axes, RHO[::2]))
        if closer is None:
            break
        axes = closer
    return _on_grid(model, data, prior, axes, RHO)


def _on_grid(
    model: FittedModel, data: _Data, prior: Prior, axes: tuple[Array, Array], correlations: tuple[float, ...]
) -> Posterior:
    u, v = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    centre = _C_mid_centre(data, prior)
    log_prior = -0.5 * ((u - prior.log_B[0]) / prior.log_B[1]) ** 2 - 0.5 * ((v - centre) / prior.log_C_mid[1]) ** 2
    low = float(np.clip(0.5 * model.noise.sd_marginal / data.scale, LEAST_NOISE, 0.5 * MOST_NOISE))
    sigma = np.geomspace(low, MOST_NOISE, math.ceil(math.log(MOST_NOISE / low) / math.log(NOISE_RATIO)) + 1)
    gaps = np.abs(data.position[:, None] - data.position[None, :])
    near = _decay(data.x[:, None] - data.x[None, :], prior.length)
    ceiling = prior.A if model.problem.A is None else ((model.problem.A - data.shift) / data.scale, GIVEN_SE)
    components, weights = [], []
    for shape, shape_weight in prior.shapes:
        share = gain_share_of(shape, np.exp(u) * (data.x[:, None] - v))
        at_R0 = gain_share_of(shape, np.exp(u) * (math.log(data.R0[0]) - v)) if data.R0[0] > 0 else np.zeros(len(u))
        for rho, wander in itertools.product(correlations, prior.wander):
            noise = rho**gaps / np.sqrt(data.weights[:, None] * data.weights[None, :])
            root = np.linalg.cholesky(noise + wander**2 * near + JITTER * np.eye(len(data.y)))
            whitening = solve_triangular(root, np.eye(len(root)), lower=True)
            one, log_weight = _component(data, shape, wander, whitening, share, at_R0, sigma, ceiling)
            components.append(one)
            weights.append(log_weight + log_prior + math.log(shape_weight))
    log_p = np.array(weights)
    p = np.exp(log_p - log_p.max())
    return Posterior(data, prior, tuple(components), p / p.sum(), u, v, sigma, axes)


def _support(coarse: Posterior) -> tuple[Array, Array] | None:
    """Return axes around the cells that carry the posterior, or None when they fill most of the grid already."""
    p = coarse.probability.sum(axis=(0, 1)).reshape([len(axis) for axis in coarse.axes])
    axes, smaller = [], False
    for axis, marginal in zip(coarse.axes, (p.sum(axis=1), p.sum(axis=0)), strict=True):
        occupied = np.flatnonzero(marginal > NEGLIGIBLE)
        first, last = max(occupied[0] - 1, 0), min(occupied[-1] + 1, len(axis) - 1)
        smaller = smaller or last - first < ENOUGH * (len(axis) - 1)
        axes.append(np.linspace(axis[first], axis[last], len(axis)))
    return (axes[0], axes[1]) if smaller else None


def _prepare(model: FittedModel) -> _Data:
    """Return the evaluations at positive compute, averaged down; unbounded scores brought to start 0 and range 1."""
    series, bounded = model.series, model.problem.ordered
    keep = series.compute > 0
    C, y, position, w = (a[keep] for a in (series.compute, series.y, series.position, series.weights))
    if len(C) > MAX_POINTS:
        starts = np.linspace(0, len(C), MAX_POINTS, endpoint=False).astype(int)
        total = np.add.reduceat(w, starts)
        log_C, y, position = (np.add.reduceat(w * a, starts) / total for a in (np.log(C), y, position))
        C, w = np.exp(log_C), total / total.mean()
    position = position / np.median(np.diff(position))
    scale = 1.0 if bounded else float(np.ptp(y)) or float(np.abs(y).max()) or 1.0
    if model.anchor is not None:
        R0 = model.anchor.compute, model.anchor.value, model.anchor.standard_error / scale
    elif model.problem.R0 is not None:
        R0 = 0.0, float(model.problem.R0), GIVEN_SE
    else:
        R0 = 0.0, float(y[0]), FREE_R0_SD
    if bounded:
        return _Data(C, y, position, w, 0.0, 1.0, R0, (min(max(R0[1], 0.0), 0.98), model.problem.A_max))
    shift = R0[1]
    return _Data(C, (y - shift) / scale, position, w, shift, scale, (R0[0], 0.0, R0[2]), (-np.inf, np.inf))


def _C_mid_centre(data: _Data, prior: Prior) -> float:
    """Return the prior mean of log C_mid."""
    return prior.log_C_mid[0] + (float(data.x[-1]) if prior.relative else 0.0)


def _axes(model: FittedModel, data: _Data, prior: Prior) -> tuple[Array, Array]:
    """Return the values of log B and of log C_mid to begin with."""
    mean, sd = prior.log_B
    u = np.unique(np.clip(np.linspace(mean - SPAN * sd, mean + SPAN * sd, N_B), *model.problem.u_bounds))
    centre, reach = _C_mid_centre(data, prior), C_MID_SPAN * prior.log_C_mid[1]
    low, high = max(data.x[0] - BELOW, centre - reach), min(data.x[-1] + ABOVE, centre + reach)
    if low >= high:  # the prior lies outside the data altogether
        low, high = centre - reach, centre + reach
    return u, np.linspace(low, high, N_C_MID)


def _component(
    data: _Data,
    shape: str,
    wander: float,
    whitening: Array,
    share: Array,
    at_R0: Array,
    sigma: Array,
    ceiling: tuple[float, float],
) -> tuple[_Component, Array]:
    """Return the moments of R0 and A in every cell, and the log marginal likelihood, shape (noise, cells)."""
    S, y = whitening @ share, whitening @ data.y
    Z = whitening.sum(axis=1)[:, None] - S
    var, weight_R0, weight_A = sigma[:, None] ** 2, 1.0 / data.R0[2] ** 2, 1.0 / ceiling[1] ** 2
    start, top = data.R0[1], ceiling[0]
    m11 = (Z * Z).sum(axis=0) / var + weight_R0 * (1.0 - at_R0) ** 2
    m12 = (Z * S).sum(axis=0) / var + weight_R0 * (1.0 - at_R0) * at_R0
    m22 = (S * S).sum(axis=0) / var + weight_R0 * at_R0**2 + weight_A
    c1 = y @ Z / var + weight_R0 * start * (1.0 - at_R0)
    c2 = y @ S / var + weight_R0 * start * at_R0 + weight_A * top
    det = np.maximum(m11 * m22 - m12**2, 1e-12 * m11 * m22)
    R0, A = (m22 * c1 - m12 * c2) / det, (m11 * c2 - m12 * c1) / det
    squares = y @ y / var + weight_R0 * start**2 + weight_A * top**2 - R0 * c1 - A * c2
    A_sd = np.sqrt(m11 / det)
    below, above = (ndtr((bound - A) / A_sd) for bound in data.A_range)
    log_weight = np.log(np.diag(whitening)).sum() - len(data.y) * np.log(sigma[:, None])
    log_weight = log_weight - 0.5 * np.log(det) - 0.5 * squares + np.log(np.maximum(above - below, 1e-300))
    component = _Component(shape, wander, whitening, share, A, R0, A_sd, (below, above), m12 / m11, m11)
    return component, np.asarray(log_weight)
