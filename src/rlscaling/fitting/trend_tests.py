"""Tests of a trend under correlated noise: a constant against a rise or a fall, and a rise with a later decline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtr

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import logistic
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.solver.noise import RHO_GRID, log_det_whitening, noise_posterior, spacing_ratio, whiten

SEED = 251013787
QUICK_NULL, FULL_NULL = 200, 400  # constant series: for a clear change, and for a close case
MIN_LATE_POINTS = 8
MOST_CORRELATED = 0.95
MIN_POINTS_FOR_PEAK, MIN_AFTER = 7, 3  # fitted points, and those from the peak on
N_BENDS = 24
MIN_DROP, LEAST_SHARE = 2.0, 0.1  # sd of an evaluation, and share of the rise: less is a plateau that wanders
N_CENTRES, EDGE = 24, 3  # places tried for a steep change, and evaluations that must lie on either side of it
WIDTHS = (0.05, 0.4, 0.8)  # of a steep change, in evaluations; the first is a jump


@dataclass(frozen=True)
class TrendTest:
    """The direction of a trend, and the p-value of a constant pass rate against it."""

    rises: bool
    p: float


@dataclass(frozen=True)
class RankTrend(TrendTest):
    """The direction of a trend by ranks, the p-value of no trend, and Kendall's tau."""

    tau: float


@dataclass(frozen=True)
class Decline:
    """A fall that goes on to the end of a run: its first point, how deep it is, and the p-value of no fall."""

    start: int
    drop: float
    p: float


def change(model: FittedModel) -> TrendTest:
    """Test a constant pass rate against a rising and against a falling curve, by simulation.

    B and C_mid are not defined under a constant, so no F distribution applies. Instead, constant series with the AR(1)
    noise estimated around the mean go through the same search for the best curve (R0 free, the observation of R0
    included). A clear change is decided by the share of the variation that sigmoids of a coarse grid explain; a close
    case by the likelihood ratio with the correlation refitted under both hypotheses, which separates a change from
    AR(1) noise, with curves too steep for the grid added. The work grows with the square of the number of points: see
    `FittedModel.averaged`.
    """
    series, n = model.series, model.n
    y = series.y if model.anchor is None else np.append(series.y, model.anchor.value)
    w = model.problem.weights
    level = float(w @ y / w.sum())
    if not np.any(np.abs(series.y - level) > 1e-12 * max(abs(level), 1e-300)):
        return TrendTest(True, 1.0)
    root = np.sqrt(series.weights)
    noise = noise_posterior((series.y - np.mean(series.y)) * root, root[:, None], model.ratio)
    rng = np.random.default_rng(SEED)
    curves = coarse_sigmoids(model)

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


def rank_trend(y: Array) -> RankTrend:
    """Test for a trend by ranks, with the variance that correlated noise gives (Kendall; Hamed and Rao 1998).

    The correlation is that of the residuals around the best monotone curve, not around a constant: a rise does not
    count as its own noise.

    Parameters
    ----------
    y : array of shape (n,)
        In the order of compute.

    Returns
    -------
    RankTrend
        The direction, the one-sided p-value, and Kendall's tau.

    Examples
    --------
    >>> rank_trend(np.array([0.1, 0.2, 0.15, 0.3, 0.35, 0.5, 0.45, 0.6])).rises
    True
    """
    n = len(y)
    later = np.sign(y[None, :] - y[:, None])[np.triu_indices(n, 1)]
    score, untied = float(later.sum()), float(np.abs(later).sum())
    if untied == 0.0:
        return RankTrend(True, 1.0, 0.0)
    residual = y - monotone(y if score >= 0 else -y) * (1.0 if score >= 0 else -1.0)
    square = float(residual @ residual)
    rho = float(residual[1:] @ residual[:-1]) / square if square > 0.0 else 0.0
    rho = float(np.clip(rho + (1.0 + 4.0 * rho) / n, 0.0, MOST_CORRELATED))  # its bias is -(1 + 4 rho) / n
    variance = n * (n - 1) * (2 * n + 5) / 18.0 * (untied / (0.5 * n * (n - 1))) * (1.0 + rho) / (1.0 - rho)
    p = float(ndtr(-(abs(score) - 1.0) / np.sqrt(variance)))
    return RankTrend(score >= 0, p, score / (0.5 * n * (n - 1)))


def monotone(y: Array) -> Array:
    """Return the nearest series that never falls, by least squares (pool adjacent violators)."""
    levels: list[float] = []
    counts: list[int] = []
    for value in y.tolist():
        levels.append(value)
        counts.append(1)
        while len(levels) > 1 and levels[-2] > levels[-1]:
            total = counts[-2] + counts[-1]
            levels[-2:] = [(levels[-2] * counts[-2] + levels[-1] * counts[-1]) / total]
            counts[-2:] = [total]
    return np.repeat(levels, counts)


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


def coarse_sigmoids(model: FittedModel) -> Array:
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


def peak_and_decline(model: FittedModel) -> Decline | None:
    """Return the best rise with a later decline, where it has one.

    A sigmoid of a coarse grid plus a line that bends down at one of the evaluations is fitted by least squares; the
    p-value is that of the fall from the peak of this curve to its end, under AR(1) noise whose correlation has a
    posterior. The size of the noise is that of the residuals around this curve: around a constant, the rise and the
    fall would count as noise themselves.

    Parameters
    ----------
    model : FittedModel
        Of few points: see `FittedModel.averaged`.

    Returns
    -------
    Decline or None
        None where the best curve does not fall, or with fewer than 7 points.
    """
    series, n = model.series, model.n
    if n < MIN_POINTS_FOR_PEAK:
        return None
    rise, bend = _best_curve(model)
    if rise is None or bend is None:
        return None
    root = np.sqrt(series.weights)
    x = np.where(series.compute > 0, np.log(np.maximum(series.compute, 1e-300)), 0.0)
    slope = rise * (1.0 - rise)
    X = np.stack([np.ones(n), rise, bend, slope, slope * (x - x.mean())], axis=1) * root[:, None]
    y, linear = series.y * root, X[:, :3]
    coefficients = np.linalg.lstsq(linear, y, rcond=None)[0]
    curve = linear @ coefficients / root
    peak = int(np.argmax(curve))
    if peak > n - MIN_AFTER:
        return None
    fall = np.array([0.0, rise[peak] - rise[-1], bend[peak] - bend[-1]])
    ratio = spacing_ratio(series.position)
    noise = noise_posterior(y - linear @ coefficients, X, ratio)
    drop = float(fall @ coefficients)
    if drop < max(MIN_DROP * noise.sd_marginal, LEAST_SHARE * float(curve[peak] - curve.min())):
        return None
    p = 0.0
    for rho, probability, rss in zip(noise.rho, noise.probability, noise.rss, strict=True):
        Xw, yw = whiten(linear, rho, ratio), whiten(y, rho, ratio)
        inverse = np.linalg.pinv(Xw.T @ Xw)
        se = np.sqrt(max(rss / noise.dof * float(fall @ inverse @ fall), 1e-300))
        p += float(probability * stdtr(noise.dof, -float(fall @ inverse @ Xw.T @ yw) / se))
    return Decline(peak, drop, p)


def _best_curve(model: FittedModel) -> tuple[Array | None, Array | None]:
    """Return the rise and the bend, shape (n,) each, that together leave the least sum of squares."""
    n, root = model.n, np.sqrt(model.problem.weights)
    y = model.series.y if model.anchor is None else np.append(model.series.y, model.anchor.value)
    rises = coarse_sigmoids(model)
    at = np.unique(np.round(np.linspace(max(2, n // 6), n - MIN_AFTER, N_BENDS)).astype(int))
    bends = np.zeros((len(at), len(root)))
    bends[:, :n] = np.maximum(np.arange(n) - at[:, None], 0.0)
    unit = root / np.linalg.norm(root)

    def centred(rows: Array) -> Array:
        rows = rows * root
        return np.asarray(rows - np.outer(rows @ unit, unit))

    S, H, z = centred(rises), centred(bends), centred(y[None, :])[0]
    ss, hh, sh = np.einsum("ij,ij->i", S, S)[:, None], np.einsum("ij,ij->i", H, H)[None, :], S @ H.T
    sy, hy = (S @ z)[:, None], (H @ z)[None, :]
    det = ss * hh - sh**2
    usable = det > 1e-9 * ss * hh
    det = np.where(usable, det, 1.0)
    up, down = (hh * sy - sh * hy) / det, (ss * hy - sh * sy) / det
    taken = np.where(usable & (up > 0.0) & (down < 0.0), up * sy + down * hy, -1.0)
    i, j = np.unravel_index(np.argmax(taken), taken.shape)
    return (rises[i, :n], bends[j, :n]) if taken[i, j] > 0.0 else (None, None)
