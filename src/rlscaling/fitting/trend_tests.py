"""Tests of a trend: a constant pass rate against a rising or falling curve, under correlated noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import logistic
from rlscaling.solver.fitted_model import FittedModel, Observations
from rlscaling.solver.noise import RHO_GRID, log_det_whitening, noise_posterior, spacing_ratio, whiten

SEED = 251013787
QUICK_NULL, FULL_NULL = 200, 400  # constant series: for a clear change, and for a close case
MAX_POINTS = 1000
MIN_LATE_POINTS = 8
N_CENTRES, EDGE = 24, 3  # places tried for a steep change, and evaluations that must lie on either side of it
WIDTHS = (0.05, 0.4, 0.8)  # of a steep change, in evaluations; the first is a jump


@dataclass(frozen=True)
class TrendTest:
    """The direction of a trend, and the p-value of a constant pass rate against it."""

    rises: bool
    p: float


def change(model: FittedModel) -> TrendTest:
    """Test a constant pass rate against a rising and against a falling curve, by simulation.

    B and C_mid are not defined under a constant, so no F distribution applies. Instead, constant series with the AR(1)
    noise estimated around the mean go through the same search for the best curve (R0 free, the observation of R0
    included). A clear change is decided by the share of the variation that sigmoids of a coarse grid explain; a close
    case by the likelihood ratio with the correlation refitted under both hypotheses, which separates a change from
    AR(1) noise, with curves too steep for the grid added.
    """
    model = _thinned(model)
    series, n = model.series, model.n
    y = series.y if model.anchor is None else np.append(series.y, model.anchor.value)
    w = model.problem.weights
    level = float(w @ y / w.sum())
    if not np.any(np.abs(series.y - level) > 1e-12 * max(abs(level), 1e-300)):
        return TrendTest(True, 1.0)
    root = np.sqrt(series.weights)
    noise = noise_posterior((series.y - np.mean(series.y)) * root, root[:, None], model.ratio)
    rng = np.random.default_rng(SEED)
    curves = _sigmoids(model)

    def null(size: int) -> Array:
        Y = np.full((size, len(y)), level)
        Y[:, :n] += noise.simulate(rng, size) / root
        if model.anchor is not None:
            Y[:, n] += model.anchor.standard_error * rng.standard_normal(size)
        return Y

    taken = _variation_taken(curves, w, y[None, :])[:, 0]
    way = int(taken[1] > taken[0])  # 0 up, 1 down
    if 1.0 - taken[way] < 0.5 * (1.0 - float(_variation_taken(curves, w, null(QUICK_NULL))[way].max())):
        return TrendTest(way == 0, 1.0 / (1.0 + QUICK_NULL))
    curves = np.concatenate([curves, _steep(model)])
    ratios = _likelihood_ratio(model, curves, y[None, :])[:, 0]
    way = int(ratios[1] > ratios[0])
    exceeding = np.count_nonzero(_likelihood_ratio(model, curves, null(FULL_NULL))[way] >= ratios[way])
    return TrendTest(way == 0, float((1.0 + exceeding) / (1.0 + FULL_NULL)))


def late_decline(model: FittedModel) -> tuple[int, float] | None:
    """Return the first point of the last third and P(trend >= 0) there, where it has 8 points or more.

    A straight line through the evaluations in their order, with the posterior of AR(1) noise around it.
    """
    n = model.n // 3
    if n < MIN_LATE_POINTS:
        return None
    first, series = model.n - n, model.series
    root = np.sqrt(series.weights[first:])[:, None]
    design, y = np.stack([np.ones(n), np.linspace(-1.0, 1.0, n)], axis=1) * root, series.y[first:] * root[:, 0]
    ratio = spacing_ratio(series.position[first:])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    posterior = noise_posterior(residual, design, ratio)
    p = 0.0
    for rho, weight, rss in zip(posterior.rho, posterior.probability, posterior.rss, strict=True):
        X, z = whiten(design, rho, ratio), whiten(y, rho, ratio)
        inverse = np.linalg.inv(X.T @ X)
        slope = float((inverse @ (X.T @ z))[1])
        se = np.sqrt(max(rss / posterior.dof * inverse[1, 1], 1e-300))
        p += float(weight * stdtr(posterior.dof, slope / se))  # P(slope >= 0) of a t posterior
    return first, p


def _thinned(model: FittedModel) -> FittedModel:
    """Return the run with neighbours averaged down to about a thousand points: enough to see a change."""
    series, n = model.series, model.n
    if n <= MAX_POINTS:
        return model
    starts = np.arange(0, n, -(-n // MAX_POINTS))
    total = np.add.reduceat(series.weights, starts)

    def mean(a: Array) -> Array:
        return np.asarray(np.add.reduceat(series.weights * a, starts) / total)

    compute, weights = mean(series.compute), total / total.mean()
    thin = Observations(compute, mean(series.y), weights, mean(series.position))
    problem = replace(
        model.problem,
        compute=np.append(compute, model.problem.compute[n:]),
        weights=np.append(weights, model.problem.weights[n:] / float(np.mean(total))),
    )
    return replace(model, series=thin, problem=problem)


def _sigmoids(model: FittedModel) -> Array:
    """Return a hundred sigmoids from 0 to 1, shape (curves, rows)."""
    problem = model.problem
    x = problem.xc[problem.compute > 0]
    us = np.log([0.5, 1.0, 2.0, 4.0, 8.0])
    vs = np.linspace(x.min() - np.log(3.0), x.max() + np.log(10.0), 20)
    u = np.repeat(us, len(vs))
    return logistic(problem.eta(-np.exp(u) * np.tile(vs, len(us)), u))


def _steep(model: FittedModel) -> Array:
    """Return rises from 0 to 1 within a few evaluations, wherever those are, shape (curves, rows)."""
    n, rows = model.n, len(model.problem.compute)
    if n < 2 * EDGE:
        return np.empty((0, rows))
    centres = np.unique(np.round(np.linspace(EDGE, n - EDGE, N_CENTRES) * 2.0) / 2.0 - 0.5)
    place = np.concatenate([np.arange(n), np.full(rows - n, -1.0)])  # the observation of R0 comes first
    return np.concatenate([logistic((place - centres[:, None]) / width) for width in WIDTHS])


def _best(cross: Array, square: Array, usable: Array) -> Array:
    """Return the largest reduction of the sum of squares by a rising and by a falling curve, shape (2, series)."""
    gain = np.where(usable, cross**2 / np.where(usable, square, 1.0), 0.0)
    return np.stack([np.where(cross > 0, gain, 0.0).max(axis=1), np.where(cross < 0, gain, 0.0).max(axis=1)])


def _variation_taken(S: Array, w: Array, Y: Array) -> Array:
    """Return the share of the variation around a constant that the best curve of each direction takes."""
    total = w.sum()
    Yc = Y - (Y @ w / total)[:, None]
    Sc = S - (S @ w / total)[:, None]
    square = (Sc * Sc) @ w
    return np.asarray(_best((Yc * w) @ Sc.T, square, square > 1e-8 * total) / np.maximum((Yc * Yc) @ w, 1e-300))


def _likelihood_ratio(model: FittedModel, S: Array, Y: Array) -> Array:
    """Return the log likelihood of the best curve of each direction minus that of a constant, rho refitted in each."""
    n, root = model.n, np.sqrt(model.series.weights)
    anchor_root = np.sqrt(model.problem.weights[n:])
    log_det = log_det_whitening(RHO_GRID, model.ratio)
    constant, moving = [], []
    for rho, jacobian in zip(RHO_GRID, log_det, strict=True):

        def turned(Z: Array, rho: float = float(rho)) -> Array:
            """Whiten the evaluations, scale the row of R0; shape (..., rows)."""
            return np.concatenate([whiten((Z[:, :n] * root).T, rho, model.ratio).T, Z[:, n:] * anchor_root], axis=1)

        Yw, Sw, one = turned(Y), turned(S), turned(np.ones((1, Y.shape[1])))[0]
        length = float(one @ one)
        Yc, Sc = Yw - np.outer(Yw @ one / length, one), Sw - np.outer(Sw @ one / length, one)
        rss, square = np.einsum("ij,ij->i", Yc, Yc), np.einsum("ij,ij->i", Sc, Sc)
        taken = _best(Yc @ Sc.T, square, square > 1e-8 * length)
        left = np.maximum(rss - taken, 1e-12 * np.maximum(rss, 1e-300))
        constant.append(jacobian - 0.5 * n * np.log(np.maximum(rss, 1e-300)))
        moving.append(jacobian - 0.5 * n * np.log(left))
    return np.asarray(np.max(moving, axis=0) - np.max(constant, axis=0))
