"""Checks of the sigmoid on a run: outliers, bad blocks, structure in the residuals, and a collapse at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc, ndtr, stdtr, stdtrit

from rlscaling.arrays import Array, Mask
from rlscaling.curves.sigmoid import gain_share, sigmoid, sigmoid_jacobian
from rlscaling.fitting.trend_tests import Decline
from rlscaling.solver.fitted_model import FittedModel, fit_model
from rlscaling.solver.noise import MAD_TO_SD, sd_of_differences, whiten
from rlscaling.solver.observations import Observations
from rlscaling.solver.resampling import replicates
from rlscaling.solver.variable_projection import solve

OUTLIER_SD = 6.0
MIN_DOF_FOR_OUTLIERS = 6
MIN_POINTS_FOR_DROP = 14
LOW_SD, DROP_GATE, DROP_REPLICATES = 3.0, 5.0, 60
FAR, NEAR = 10.0, 4.0  # robust sd: of a stray evaluation, and of its neighbours
GATE, MOST_CORRELATED = 2.5, 0.4  # where no residual of least squares is further off, and neighbours are unlike
MOST_IN_A_ROW, MOST_BLOCKS, NEIGHBOURS = 6, 2, 2
MIN_POINTS_FOR_BLOCKS = 9
N_STEPS, TUNING, MOST_SD = 8, 2.0, 1e6  # reweighted fits, their Cauchy constant in robust sd, and the most that counts
SEED = 251013787


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
    an outlier cannot mask itself by inflating the variance, and few degrees of freedom widen the limit.
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
    outliers = np.flatnonzero(np.abs(t) > limit)
    # whitening spreads an outlier to its successor: keep the larger of two neighbours
    return [int(i) for i in outliers if not (i - 1 in outliers and abs(t[i - 1]) > abs(t[i]))]


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


def late_drop(model: FittedModel) -> Decline | None:
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
    sd = sd_of_differences(y)
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
    draws = replicates(before, "ar1", rng, DROP_REPLICATES).parameters
    later = series.compute[start:]
    curve_sd = float(sigmoid(later, *(draws[:, j : j + 1] for j in range(4))).mean(axis=1).std())
    noise = replace(before.noise, ratio=model.ratio).simulate(rng, 4 * DROP_REPLICATES)[:, start:].mean(axis=1)
    shortfall = float(np.mean(sigmoid(later, *before.bootstrap_params) - y[start:]))
    t = shortfall / max(float(np.hypot(curve_sd, noise.std())), 1e-12)
    return Decline(start, shortfall, min(1.0, len(ends) * float(stdtr(before.noise.dof, -t))))


def _lies_low(before: FittedModel, model: FittedModel, point: int) -> bool:
    """Return whether a point lies more than 3 sd below the curve, the sd being that of the points before it."""
    shortfall = before.bootstrap_residual[:point]
    sd = float(np.median(np.abs(shortfall - np.median(shortfall)))) * MAD_TO_SD
    expected = float(sigmoid(model.series.compute[point], *before.bootstrap_params))
    return bool(expected - model.series.y[point] > LOW_SD * max(sd, 1e-12))


def _part(model: FittedModel, points: slice) -> FittedModel:
    """Return the fit of some of the points, with the same constraints and observation of R0."""
    s = model.series
    part = Observations(s.compute[points], s.y[points], s.weights[points], s.position[points])
    problem = replace(model.problem, compute=part.compute, weights=part.weights)
    return fit_model(problem, part, model.anchor)


@dataclass(frozen=True, eq=False)
class StrayPoints:
    """Evaluations far off the curve of all the others: which, and that curve's ``A, B, C_mid, R0``."""

    points: list[int]
    params: Array


def stray_blocks(model: FittedModel) -> StrayPoints | None:
    """Return up to two blocks of one to six evaluations far off the curve, the run being back on it after each.

    The curve is a robust fit (Cauchy weights, started from least squares), so that the block has no say in it; its
    noise is the median absolute deviation. At the end of a run there is no way to tell a bad block from a collapse.
    """
    n = model.n
    if n < MIN_POINTS_FOR_BLOCKS or not model.rises:
        return None
    y = model.series.y if model.anchor is None else np.append(model.series.y, model.anchor.value)
    params, root = np.array(model.params), np.sqrt(model.series.weights)
    r = model.residual * root
    correlation = float(r[1:] @ r[:-1]) / max(float(r @ r), 1e-300)
    if correlation < MOST_CORRELATED and float(np.abs(r).max()) <= GATE * _robust_sd(r):
        return None
    for _ in range(N_STEPS):
        sd = _robust_sd(r)
        if sd <= 0.0:
            break
        weights = model.problem.weights.copy()
        weights[:n] /= 1.0 + np.minimum(np.abs(r) / (TUNING * sd), MOST_SD) ** 2
        params = solve(model.problem, y[None, :], W=weights[None, :], rtol=1e-5).draws()[0]
        r = (model.series.y - model.curve_of(params)) * root
    r, sd = _off_the_rise(model, params) * root, _robust_sd(r)
    if sd <= 1e-9 * max(float(np.abs(model.series.y).max()), 1e-300):
        return None
    past_the_bend = gain_share(model.series.compute, params[1], params[2]) > 0.5  # a rise may be ragged
    far = (np.abs(r) > FAR * sd) & past_the_bend
    blocks = _blocks(far)
    if not 1 <= len(blocks) <= MOST_BLOCKS or not all(_is_alone(block, r, sd) for block in blocks):
        return None
    return StrayPoints([i for block in blocks for i in block], params)


def _off_the_rise(model: FittedModel, params: Array) -> Array:
    """Return how far each score lies outside the range of the curve between its neighbours: early is not stray."""
    curve = model.curve_of(params)
    before, after = np.append(curve[:1], curve[:-1]), np.append(curve[1:], curve[-1:])
    return np.asarray(model.series.y - np.clip(model.series.y, np.minimum(before, after), np.maximum(before, after)))


def _robust_sd(r: Array) -> float:
    return MAD_TO_SD * float(np.median(np.abs(r)))


def _blocks(far: Mask) -> list[list[int]]:
    """Return runs of neighbouring points."""
    points = np.flatnonzero(far).tolist()
    blocks: list[list[int]] = []
    for i in points:
        if blocks and i == blocks[-1][-1] + 1:
            blocks[-1].append(i)
        else:
            blocks.append([i])
    return blocks


def _is_alone(block: list[int], r: Array, sd: float) -> bool:
    """Return whether a block is short, inside the run, and between evaluations on the curve."""
    first, last = block[0], block[-1]
    if len(block) > MOST_IN_A_ROW or first < NEIGHBOURS or last + NEIGHBOURS >= len(r):
        return False
    around = np.r_[r[first - NEIGHBOURS : first], r[last + 1 : last + 1 + NEIGHBOURS]]
    return bool(np.all(np.abs(around) < NEAR * sd))
