"""What the data can tell: flat, falling, misfit, or how well the ceiling ``A`` is known.

The verdict is computed for every fit, at 95 %, from 200 replicates with a fixed seed. When several apply, the
order is misfit, falling, flat, then the width of the interval of ``A``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, ndtr, stdtr, stdtrit

from rlscaling.curves import PARAMETER_NAMES, Array
from rlscaling.format import number, robust_error
from rlscaling.horizon import compute_needed
from rlscaling.model import FittedModel
from rlscaling.noise import noise_posterior, whiten
from rlscaling.printing import unit_text
from rlscaling.problem import Problem
from rlscaling.resample import replicates
from rlscaling.results import ComputeNeeded, Verdict
from rlscaling.startgrid import rising_gain

N_REPLICATES = 200
SEED = 251013786  # fixed, so that a fit has one verdict: the paper's arXiv number
MIN_POINTS_FOR_INTERVAL = 7
HALF_WIDTHS = {Verdict.IDENTIFIED: 0.02, Verdict.APPROXIMATE: 0.05, Verdict.WEAK: 0.10}
AT_CEILING_WIDTH = 0.05  # an interval that reaches A_max and is wider than this says nothing about A
P_FLAT, P_FALLING, P_MISFIT = 0.01, 0.01, 0.001
OUTLIER_SD = 6.0
MIN_DOF_FOR_OUTLIERS = 6
NULL_SERIES = (200, 1000)  # few when the rise is plain, more when it is close


@dataclass(frozen=True, eq=False)
class Judgement:
    """A verdict with its reason and the numbers it rests on."""

    verdict: Verdict
    reason: str
    confidence_interval: dict[str, tuple[float, float]] | None
    robust_error: dict[str, float] | None
    compute_needed: ComputeNeeded | None
    notes: tuple[str, ...]


def judge(model: FittedModel, unit: str) -> Judgement:
    """Return what the data of ``model`` can tell, with 95 % this-run intervals where there are 7 points."""
    draws = None
    if model.n >= MIN_POINTS_FOR_INTERVAL:
        draws = replicates(model, "ar1", np.random.default_rng(SEED), N_REPLICATES)
    return judge_draws(model, draws, unit)


def judge_draws(model: FittedModel, draws: Array | None, unit: str) -> Judgement:
    """Return the verdict given replicates of the parameters, shape (size, 4), or None for too few points."""
    ci = error = None
    if draws is not None:
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        ci = {k: (float(a), float(b)) for k, a, b in zip(PARAMETER_NAMES, low, high, strict=True)}
        error = {k: robust_error(draws[:, j]) for j, k in enumerate(PARAMETER_NAMES)}
    shape = _shape_verdict(model, unit)
    needed = None
    if model.problem.A is not None:
        verdict, reason = Verdict.GIVEN, f"A was given as {model.problem.A:g}; nothing is claimed about it"
    elif ci is None or draws is None:
        verdict = Verdict.NOT_IDENTIFIED
        reason = f"{model.n} points are too few for an interval (7 at least); A cannot be told from these data"
    else:
        verdict = grade(*ci["A"], model.problem.A_max, score_scale(model))
        if verdict is not Verdict.IDENTIFIED and shape is None:
            needed = _needed(model, draws)
        reason = _ceiling_reason(verdict, model, ci["A"], needed, unit)
    if shape is not None:
        verdict, reason = shape
    return Judgement(verdict, reason, ci, error, needed, ())


def score_scale(model: FittedModel) -> float:
    """Return what 1.0 means: 1 for pass rates, the observed range for unbounded scores."""
    return 1.0 if model.problem.ordered else max(float(np.ptp(model.series.y)), 1e-300)


def grade(low: float, high: float, A_max: float, scale: float = 1.0) -> Verdict:
    """Return the verdict on ``A`` from its 95 % interval (METHOD: identified, approximate, weak, or not)."""
    half_width = 0.5 * (high - low) / scale
    if high >= A_max - 1e-9 and high - low > AT_CEILING_WIDTH * scale:
        return Verdict.NOT_IDENTIFIED
    for verdict, limit in HALF_WIDTHS.items():
        if half_width <= limit:
            return verdict
    return Verdict.NOT_IDENTIFIED


def _needed(model: FittedModel, draws: Array) -> ComputeNeeded:
    target = HALF_WIDTHS[Verdict.IDENTIFIED]
    hours = np.sort(compute_needed(model, draws, target * score_scale(model)))
    low, median, high = (float(hours[int(q * (len(hours) - 1))]) for q in (0.1, 0.5, 0.9))
    return ComputeNeeded(target, median, low, high)


def _ceiling_reason(
    verdict: Verdict, model: FittedModel, ci: tuple[float, float], needed: ComputeNeeded | None, unit: str
) -> str:
    low, high = ci
    decimals = 3 if high - low < 0.1 else 2
    span = f"95 %: {number(low, decimals)} to {number(high, decimals)}"
    if verdict is Verdict.NOT_IDENTIFIED:
        text = f"these data cannot tell A ({span}; it is at least {number(low, decimals)})"
    else:
        plus = number(0.5 * (high - low), 3 if high - low < 0.02 else decimals)
        text = f"A = {number(model.params[0], decimals)}, known to ±{plus} ({span})"
    return text + _needed_text(needed, float(model.series.compute[-1]), unit)


def _needed_text(needed: ComputeNeeded | None, last: float, unit: str) -> str:
    if needed is None:
        return ""
    name = unit_text(unit)
    if not np.isfinite(needed.median):
        return f"; no run length up to {number(last * 1000)} {name} would bring it to ±0.02 at this noise"
    high = number(_two_digits(needed.high)) if np.isfinite(needed.high) else "beyond reach"
    return (
        f"; run to about {number(_two_digits(needed.median))} {name} to know it to ±0.02 "
        f"(10-90 %: {number(_two_digits(needed.low))} to {high})"
    )


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


# --- shape: does a rising sigmoid describe the run at all? ---------------------------------------------------


def _shape_verdict(model: FittedModel, unit: str) -> tuple[Verdict, str] | None:
    """Return the first of misfit, falling and flat that applies, or None."""
    outliers = outlier_points(model)
    if len(outliers):
        places = ", ".join(number(float(model.series.compute[i])) for i in outliers[:5])
        values = ", ".join(number(float(model.series.y[i])) for i in outliers[:5])
        several = len(outliers) > 1
        return Verdict.MISFIT, (
            f"the {'points' if several else 'point'} at {places} {unit_text(unit)} (pass rate {values}) "
            f"{'lie' if several else 'lies'} more than 6 sd off the curve; look at {'them' if several else 'it'}, "
            "and leave out with exclude= / --exclude what is an error"
        )
    p_ljung_box, p_runs = residual_tests(model)
    if p_ljung_box < P_MISFIT and p_runs < P_MISFIT:
        return Verdict.MISFIT, (
            "the residuals are not noise around a sigmoid "
            f"(Ljung-Box p = {p_ljung_box:.1g}, runs p = {p_runs:.1g}); plot the fit before you use it"
        )
    if not model.problem.ordered:
        return None
    p_falling = falling_p_value(model)
    if p_falling < P_FALLING:
        return (
            Verdict.FALLING,
            f"the pass rate declines (p = {p_falling:.1g}): no ceiling can be read from this run",
        )
    p_flat = flat_p_value(model)
    if p_flat > P_FLAT:
        return Verdict.FLAT, f"no rise beyond the noise (p = {p_flat:.2g} for a constant pass rate)"
    return None


def _whitened(model: FittedModel) -> tuple[Array, Array]:
    """Return residuals of the fit, whitened at the mean correlation, and their leverages."""
    from rlscaling.curves import sigmoid_jacobian

    root = np.sqrt(model.series.weights)
    J = sigmoid_jacobian(model.series.compute, *model.params) * root[:, None]
    J /= np.maximum(np.sqrt(np.einsum("ij,ij->j", J, J)), 1e-300)
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


def falling_p_value(model: FittedModel) -> float:
    """Return P(trend >= 0) for a straight line through the evaluations in their order, under AR(1) noise."""
    n = model.n
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


def flat_p_value(model: FittedModel) -> float:
    """Return the p-value of a constant pass rate against a rising sigmoid, by simulation.

    B and C_mid do not exist under the null, so no F table applies: constant series with the AR(1) noise found
    around the mean are given the same search for the best rising curve (a grid, R0 free, the anchor included).
    """
    series, n = model.series, model.n
    problem = Problem(compute=model.problem.compute, weights=model.problem.weights)
    y = series.y if model.anchor is None else np.append(series.y, model.anchor.value)
    w = problem.weights
    level = float(w @ y / w.sum())
    root = np.sqrt(series.weights)
    if not np.any(np.abs(series.y - level) > 1e-12 * max(abs(level), 1e-300)):
        return 1.0
    noise = noise_posterior((series.y - np.mean(series.y)) * root, root[:, None], model.ratio)
    rng = np.random.default_rng(SEED + 1)
    observed = float(rising_gain(problem, y[None, :])[0])
    for size in NULL_SERIES:
        Y = np.full((size, len(y)), level)
        Y[:, :n] += noise.simulate(rng, size) / root
        if model.anchor is not None:
            Y[:, n] += model.anchor.standard_error * rng.standard_normal(size)
        null = rising_gain(problem, Y)
        p = (1.0 + np.count_nonzero(null >= observed)) / (1.0 + size)
        plain = 1.0 - observed < 0.5 * (1.0 - float(null.max()))
        if plain or p > 0.1:
            break
    return float(p)
