"""Does a rising sigmoid describe the run at all? Tests for outliers, leftover structure, decline and no rise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc, ndtr, stdtr, stdtrit

from rlscaling.curves import Array, logistic, sigmoid, sigmoid_jacobian
from rlscaling.model import FittedModel, Series, fit_model
from rlscaling.noise import RHO_GRID, noise_posterior, whiten
from rlscaling.resample import replicates

OUTLIER_SD = 6.0
MIN_DOF_FOR_OUTLIERS = 6
MIN_LATE_POINTS = 8
MIN_POINTS_FOR_DROP = 14
MIN_POINTS_FOR_JUMP, PLAIN_SD, TINY = 8, 20.0, 1e-16
LOW_SD, DROP_GATE, DROP_REPLICATES, MAD_TO_SD = 3.0, 5.0, 60, 1.4826
MAX_SHAPE_POINTS = 1000
SEED = 251013787
QUICK_NULL, FULL_NULL = 200, 400


def _whitened(model: FittedModel) -> tuple[Array, Array]:
    """Return residuals of the fit, whitened at the mean correlation, and their leverages."""
    root = np.sqrt(model.series.weights)
    J = sigmoid_jacobian(model.series.compute, *model.params) * root[:, None]
    J[:, 2] *= model.params[2]  # by log C_mid
    size = np.sqrt(np.einsum("ij,ij->j", J, J))
    J = J[:, size > 1e-6 * size.max()] / size[size > 1e-6 * size.max()]
    rho = model.noise.rho_mean
    z = whiten(model.residual * root, rho, model.ratio)
    Q = np.linalg.qr(whiten(J, rho, model.ratio))[0]
    return z, np.einsum("ij,ij->i", Q, Q)


def outlier_points(model: FittedModel) -> list[int]:
    """Return the points whose deletion residual is as improbable as 6 sd of a normal.

    The residual of each point is compared with the noise of the others (externally studentised, whitened), so that
    a single wild value cannot hide behind the variance it makes, and few degrees of freedom widen the limit.
    """
    z, leverage = _whitened(model)
    dof = model.n - 5
    total = float(z @ z)
    tiny = 1e-20 * max(float(np.square(model.series.y).sum()), 1e-300)
    if dof < MIN_DOF_FOR_OUTLIERS or total <= tiny:
        return []
    room = np.maximum(1.0 - leverage, 0.1)
    others = np.maximum(total - z * z, 1e-12 * total) / dof
    t = z / np.sqrt(others * room)
    p_limit = 2.0 * ndtr(-OUTLIER_SD)
    limit = -float(stdtrit(dof, 0.5 * p_limit))
    wild = np.flatnonzero(np.abs(t) > limit)
    # whitening smears a wild value over its successor: keep the larger of two neighbours
    return [int(i) for i in wild if not (i - 1 in wild and abs(t[i - 1]) > abs(t[i]))]


def residual_tests(model: FittedModel) -> tuple[float, float]:
    """Return the p-values of Ljung-Box and of a runs test on the whitened residuals."""
    z, _ = _whitened(model)
    n = len(z)
    lags = min(10, n // 5)
    total = float(z @ z)
    if lags < 1 or total <= 1e-20 * max(float(np.square(model.series.y).sum()), 1e-300):
        return 1.0, 1.0
    r = np.array([z[k:] @ z[:-k] for k in range(1, lags + 1)]) / total
    q = n * (n + 2) * float(np.sum(r * r / (n - np.arange(1, lags + 1))))
    positive = z > 0
    n_up, n_down = int(positive.sum()), int((~positive).sum())
    if min(n_up, n_down) == 0:
        return float(chdtrc(lags, q)), 0.0
    runs = 1 + int(np.count_nonzero(positive[1:] != positive[:-1]))
    mean = 1.0 + 2.0 * n_up * n_down / n
    variance = (mean - 1.0) * (mean - 2.0) / (n - 1)
    p_runs = 2.0 * float(ndtr(-abs(runs - mean) / np.sqrt(max(variance, 1e-12))))
    return float(chdtrc(lags, q)), p_runs


def plain_change(model: FittedModel) -> float:
    """Return how far the last third lies above the first, in robust sd of the steps between evaluations.

    A correlation near 1 can explain any jump as one large innovation; beyond 20 sd of the ordinary steps nobody
    should. (A random walk of 100 evaluations stays below 10.)
    """
    y, third = model.series.y, max(model.n // 3, 2)
    steps = np.abs(np.diff(y))
    sd = float(np.median(steps)) * MAD_TO_SD / np.sqrt(2.0) or float(steps.mean())
    return float(y[-third:].mean() - y[:third].mean()) / sd if sd > 0 else 0.0


def falling_p_value(model: FittedModel) -> float:
    """Return P(trend >= 0) for a straight line through the evaluations in their order, under AR(1) noise."""
    n = model.n
    if n >= MIN_POINTS_FOR_JUMP and plain_change(model) < -PLAIN_SD:
        return TINY
    design = np.stack([np.ones(n), np.linspace(-1.0, 1.0, n)], axis=1)
    root = np.sqrt(model.series.weights)
    coefficients, *_ = np.linalg.lstsq(design * root[:, None], model.series.y * root, rcond=None)
    if coefficients[1] >= 0 or n < 4:
        return 1.0
    residual = (model.series.y - design @ coefficients) * root
    posterior = noise_posterior(residual, design * root[:, None], model.ratio)
    p = 0.0
    for rho, weight, rss in zip(posterior.rho, posterior.probability, posterior.rss, strict=True):
        Xw = whiten(design * root[:, None], rho, model.ratio)
        yw = whiten(model.series.y * root, rho, model.ratio)
        inverse = np.linalg.inv(Xw.T @ Xw)
        slope = float((inverse @ (Xw.T @ yw))[1])
        se = np.sqrt(max(rss / posterior.dof * inverse[1, 1], 1e-300))
        p += float(weight * stdtr(posterior.dof, slope / se))  # P(slope >= 0) of a t posterior
    return p


@dataclass(frozen=True)
class LateDrop:
    """A fall at the end: its first point, how far it lies below the curve of the part before, and the p-value."""

    start: int
    drop: float
    p: float


def late_drop(model: FittedModel) -> LateDrop | None:
    """Look for a collapse in the last quarter: evaluations far below what the part before them predicts.

    Where the end lies below its neighbours by far more than successive evaluations differ, the part before is fitted
    alone; the p-value compares the shortfall with its noise (AR(1), its posterior) and the error of its curve, times
    the number of ends tried.
    """
    series, n = model.series, model.n
    ends = range(2, n // 4 + 1)
    if n < MIN_POINTS_FOR_DROP:
        return None
    y = series.y
    jump = np.diff(y)
    sd = float(np.median(np.abs(jump - np.median(jump)))) * MAD_TO_SD / np.sqrt(2.0)
    reference = [max(k, 4) for k in ends]
    falls = np.array([y[n - k - m : n - k].mean() - y[n - k :].mean() for k, m in zip(ends, reference, strict=True)])
    scale = np.array([np.sqrt(1.0 / k + 1.0 / m) for k, m in zip(ends, reference, strict=True)]) * max(sd, 1e-12)
    if float((falls / scale).max()) < DROP_GATE:
        return None
    start = n - ends[int(np.argmax(falls / scale))]
    before = _part(model, slice(0, start))
    while start > n - 2 * len(ends) and _lies_low(before, model, start - 1):  # the fall began earlier
        start -= 1
        before = _part(model, slice(0, start))
    rng = np.random.default_rng(SEED)
    draws = replicates(before, "ar1", rng, DROP_REPLICATES)
    later = series.compute[start:]
    curve_sd = float(sigmoid(later, *(draws[:, j : j + 1] for j in range(4))).mean(axis=1).std())
    noise = replace(before.noise, ratio=model.ratio).simulate(rng, 4 * DROP_REPLICATES)[:, start:].mean(axis=1)
    shortfall = float(np.mean(sigmoid(later, *before.centre) - y[start:]))
    t = shortfall / max(float(np.hypot(curve_sd, noise.std())), 1e-12)
    return LateDrop(start, shortfall, min(1.0, len(ends) * float(stdtr(before.noise.dof, -t))))


def _lies_low(before: FittedModel, model: FittedModel, point: int) -> bool:
    """Return whether a point lies more than 3 sd below the curve, the sd being that of the points before it."""
    shortfall = before.centre_residual[:point]
    sd = float(np.median(np.abs(shortfall - np.median(shortfall)))) * MAD_TO_SD
    expected = float(sigmoid(model.series.compute[point], *before.centre))
    return bool(expected - model.series.y[point] > LOW_SD * max(sd, 1e-12))


def _part(model: FittedModel, points: slice) -> FittedModel:
    """Return the fit of some of the points, with the same constraints and anchor."""
    s = model.series
    part = Series(s.compute[points], s.y[points], s.weights[points], s.position[points])
    problem = replace(model.problem, compute=part.compute, weights=part.weights)
    return fit_model(problem, part, model.anchor)


def late_third(model: FittedModel) -> FittedModel | None:
    """Return the last third of a run as a model of its own, where it has 8 points or more."""
    n = model.n // 3
    if n < MIN_LATE_POINTS:
        return None
    series = model.series
    late = replace(
        series, compute=series.compute[-n:], y=series.y[-n:], weights=series.weights[-n:], position=series.position[-n:]
    )
    return replace(model, series=late)


def _thinned(model: FittedModel) -> FittedModel:
    """Return the run with neighbours averaged down to about a thousand points: enough to see a rise."""
    series, n = model.series, model.n
    if n <= MAX_SHAPE_POINTS:
        return model
    starts = np.arange(0, n, -(-n // MAX_SHAPE_POINTS))
    total = np.add.reduceat(series.weights, starts)

    def mean(a: Array) -> Array:
        return np.asarray(np.add.reduceat(series.weights * a, starts) / total)

    compute, weights = mean(series.compute), total / total.mean()
    thin = Series(compute, mean(series.y), weights, mean(series.position))
    scale = model.problem.weights[n:] / float(np.mean(total))
    problem = replace(
        model.problem,
        compute=np.append(compute, model.problem.compute[n:]),
        weights=np.append(weights, scale),
    )
    return replace(model, series=thin, problem=problem)


def flat_p_value(model: FittedModel) -> float:
    """Return the p-value of a constant pass rate against a rising sigmoid, by simulation.

    B and C_mid do not exist under the null, so no F table applies: constant series with the AR(1) noise found around
    the mean are given the same search for the best rising curve (a grid, R0 free, the anchor included). A plain rise
    is settled by the share of the variation that the curve takes; a close case by the likelihood ratio, correlation
    refitted on either side, which can tell a rise from a wander.
    """
    model = _thinned(model)
    series, n = model.series, model.n
    y = series.y if model.anchor is None else np.append(series.y, model.anchor.value)
    w = model.problem.weights
    level = float(w @ y / w.sum())
    if not np.any(np.abs(series.y - level) > 1e-12 * max(abs(level), 1e-300)):
        return 1.0
    if n >= MIN_POINTS_FOR_JUMP and plain_change(model) > PLAIN_SD:
        return TINY
    root = np.sqrt(series.weights)
    noise = noise_posterior((series.y - np.mean(series.y)) * root, root[:, None], model.ratio)
    rng = np.random.default_rng(SEED)
    shares = _shares(model)

    def null(size: int) -> Array:
        Y = np.full((size, len(y)), level)
        Y[:, :n] += noise.simulate(rng, size) / root
        if model.anchor is not None:
            Y[:, n] += model.anchor.standard_error * rng.standard_normal(size)
        return Y

    observed = float(_variation_taken(shares, w, y[None, :])[0])
    if 1.0 - observed < 0.5 * (1.0 - float(_variation_taken(shares, w, null(QUICK_NULL)).max())):
        return 1.0 / (1.0 + QUICK_NULL)
    ratio = float(_likelihood_ratio(model, shares, y[None, :])[0])
    exceeding = np.count_nonzero(_likelihood_ratio(model, shares, null(FULL_NULL)) >= ratio)
    return float((1.0 + exceeding) / (1.0 + FULL_NULL))


def _shares(model: FittedModel) -> Array:
    """Return the curve shares of a coarse grid of a hundred cells, shape (cells, rows)."""
    problem = model.problem
    x = problem.xc[problem.compute > 0]
    us = np.log([0.5, 1.0, 2.0, 4.0, 8.0])
    vs = np.linspace(x.min() - np.log(3.0), x.max() + np.log(10.0), 20)
    u = np.repeat(us, len(vs))
    return logistic(problem.eta(-np.exp(u) * np.tile(vs, len(us)), u))


def _variation_taken(S: Array, w: Array, Y: Array) -> Array:
    """Return the share of the variation around a constant that the best rising cell takes, shape (series,)."""
    total = w.sum()
    Yc = Y - (Y @ w / total)[:, None]
    Sc = S - (S @ w / total)[:, None]
    cross = np.maximum((Yc * w) @ Sc.T, 0.0)
    square = (Sc * Sc) @ w
    usable = square > 1e-8 * total
    gain = np.where(usable, cross**2 / np.where(usable, square, 1.0), 0.0).max(axis=1)
    return np.asarray(gain / np.maximum((Yc * Yc) @ w, 1e-300))


def _likelihood_ratio(model: FittedModel, S: Array, Y: Array) -> Array:
    """Return the log likelihood of the best rising cell minus that of a constant, rho refitted in each."""
    n, root = model.n, np.sqrt(model.series.weights)
    anchor_root = np.sqrt(model.problem.weights[n:])
    constant, rising = [], []
    for rho in RHO_GRID:

        def turned(Z: Array, rho: float = float(rho)) -> Array:
            """Whiten the evaluations, scale the anchor's row; shape (..., rows)."""
            return np.concatenate([whiten((Z[:, :n] * root).T, rho, model.ratio).T, Z[:, n:] * anchor_root], axis=1)

        Yw, Sw, one = turned(Y), turned(S), turned(np.ones((1, Y.shape[1])))[0]
        length = float(one @ one)
        Yc, Sc = Yw - np.outer(Yw @ one / length, one), Sw - np.outer(Sw @ one / length, one)
        rss = np.einsum("ij,ij->i", Yc, Yc)
        square = np.einsum("ij,ij->i", Sc, Sc)
        usable = square > 1e-8 * length
        cross = np.maximum(Yc @ Sc.T, 0.0)
        taken = np.where(usable, cross**2 / np.where(usable, square, 1.0), 0.0).max(axis=1)
        r = rho**model.ratio
        log_det = 0.5 * np.log1p(-rho * rho) + 0.5 * np.sum(np.log((1 - rho * rho) / np.maximum(1 - r * r, 1e-12)))
        floor = 1e-12 * np.maximum(rss, 1e-300)
        constant.append(log_det - 0.5 * n * np.log(np.maximum(rss, 1e-300)))
        rising.append(log_det - 0.5 * n * np.log(np.maximum(rss - taken, floor)))
    return np.asarray(np.max(rising, axis=0) - np.max(constant, axis=0))
