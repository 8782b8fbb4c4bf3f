"""The combined forecast: a weighted mean of four simple forecasts, with the spread of the two that have one.

* ``last-value``: the mean of the last twentieth of the evaluations;
* ``damped-trend``: from the level that the run has reached, on along its recent slope over log compute, which fades;
* ``averaged``: the median of a posterior over curves (`rlscaling.uncertainty.posterior`);
* ``sigmoid``: the least-squares curve.

The first three need no ceiling. The farther a forecast reaches, the less the last value counts. Where the ceiling is
known to ±0.02 the forecast is the sigmoid. Where it is known to ±0.05 the forecast goes over to the sigmoid between the
data and eight times their compute: near the data the other three were nearer to real runs, and far from them they have
nothing to go by. The weights were chosen on one half of the repositories of benchmarks/forecast.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlscaling.arrays import Array
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import THRESHOLDS, Verdict
from rlscaling.solver.departures import HORIZON
from rlscaling.solver.fitted_model import score_range, score_scale
from rlscaling.uncertainty.posterior import Posterior, posterior
from rlscaling.uncertainty.prior import DEFAULT, Prior

LAST_VALUE, DAMPED_TREND, AVERAGED, SIGMOID = "last-value", "damped-trend", "averaged", "sigmoid"
N_DRAWS = 1000  # of the posterior
LAST_SHARE = 20  # the last value is the mean of the last 1/20 of the evaluations
LAST_WEIGHT, LAST_LOSES = 0.5, 0.15  # weight of the last value at the data, and what it loses a doubling
TREND_SHARE, LEAST_IN_TREND = 0.7, 5  # of the evaluations, the latest: those that give the slope
FADES = 2.5  # of log compute: over this much the slope of the trend falls to 1 / e
WIDENING = 0.45  # of the spread, for each doubling beyond the first, where the ceiling is not known
TREND_SPREAD = 0.75  # of what the trend adds, in the spread of unbounded scores: nothing holds those back
WIDEST = 4.0  # times the range of the scores that a run's own compute may add to those that have no bounds


@dataclass(frozen=True, eq=False)
class Outlook:
    """What a method says of a run at some budgets.

    Attributes
    ----------
    pass_rate : array of shape (n,)
    distribution, evaluations : arrays of shape (size, n)
        Where the run may stand, and what an evaluation of it may show.
    """

    pass_rate: Array
    distribution: Array
    evaluations: Array


def outlook_of_posterior(
    fit: SigmoidFit, budgets: Array, entropy: int, *, prior: Prior = DEFAULT, noise_scale: Array | float = 1.0
) -> tuple[Outlook, Posterior]:
    """Return the median and the draws of the posterior at ``budgets`` (n,), and the posterior itself."""
    belief = posterior(fit.fitted_model(), prior)
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(3,)))
    runs, evaluations = belief.draw(rng, N_DRAWS).runs(budgets, rng, noise_scale)
    return Outlook(np.median(runs, axis=0), runs, evaluations), belief


def last_value(fit: SigmoidFit) -> float:
    """Return the mean of the last twentieth of the evaluations, at least of one."""
    series = fit.fitted_model().series
    n = int(np.sum(fit.data.compute <= series.compute[-1]))  # those before min_compute count
    last = slice(-max(1, n // LAST_SHARE), None)
    return float(np.average(series.y[last], weights=series.weights[last]))


def damped_trend(fit: SigmoidFit, compute: Array) -> Array:
    """Return the recent trend of a run over log compute, which fades, shape of ``compute``.

    It starts half-way between the last value and where a line through the later 70 % of the evaluations ends.
    """
    series = fit.fitted_model().series
    C = series.compute
    n = max(LEAST_IN_TREND, int(np.ceil(TREND_SHARE * np.sum(C > 0.0))))
    x, y, w = np.log(C[C > 0.0][-n:]), series.y[C > 0.0][-n:], series.weights[C > 0.0][-n:]
    x, now = x - x[-1], x[-1]
    root = np.sqrt(w)
    end, slope = np.linalg.lstsq(np.stack([root, root * x], axis=1), root * y, rcond=None)[0]
    beyond = np.log(compute) - now
    return np.asarray(0.5 * (end + last_value(fit)) + slope * FADES * -np.expm1(-beyond / FADES))


def how_known(fit: SigmoidFit, unknown: float, known: float) -> float:
    """Return how well the ceiling is known: 0 to a half-width of ``unknown`` or more, 1 to ``known`` or less."""
    if fit.verdict is Verdict.GIVEN:
        return 1.0
    if fit.verdict not in THRESHOLDS or fit.confidence_interval is None:
        return 0.0
    low, high = fit.confidence_interval["A"]
    half_width = 0.5 * (high - low) / score_scale(fit.fitted_model())
    return float(np.clip((unknown - half_width) / (unknown - known), 0.0, 1.0))


def weight_of_sigmoid(fit: SigmoidFit, budgets: Array) -> Array:
    """Return the weight of the sigmoid at ``budgets`` (n,)."""
    fine, medium, coarse = (THRESHOLDS[v] for v in (Verdict.IDENTIFIED, Verdict.APPROXIMATE, Verdict.WEAK))
    near, far = how_known(fit, medium, fine), how_known(fit, coarse, medium)
    distance = np.log(budgets / fit.compute_range[1]) / np.log(HORIZON)
    return np.asarray(np.maximum(near, far * np.clip(distance, 0.0, 1.0)))


def point_forecast(
    fit: SigmoidFit, budgets: Array, sigmoid: Array, averaged: Callable[[], Array]
) -> tuple[Array, dict[str, Array]]:
    """Return the combined forecast at ``budgets`` (n,), and what each of its members says there.

    Parameters
    ----------
    fit : SigmoidFit
    budgets : array of shape (n,)
    sigmoid : array of shape (n,)
    averaged : callable
        Returns that of the posterior, shape (n,); not called where the sigmoid has all the weight.

    Returns
    -------
    array of shape (n,), dict of str to array of shape (n,)
    """
    share = weight_of_sigmoid(fit, budgets)
    if np.all(share == 1.0):
        return sigmoid, {SIGMOID: sigmoid}
    (low, high), posterior = forecast_limits(fit), averaged()
    members = {
        LAST_VALUE: np.full(len(budgets), last_value(fit)),
        DAMPED_TREND: np.clip(damped_trend(fit, budgets), low, high),
        AVERAGED: posterior,
    }
    doublings = np.log2(budgets / fit.compute_range[1])
    last = np.clip(LAST_WEIGHT - LAST_LOSES * doublings, 0.0, LAST_WEIGHT)
    others = last * members[LAST_VALUE] + 0.5 * (1.0 - last) * (members[DAMPED_TREND] + posterior)
    # within the data the posterior, which follows the evaluations, is all there is to say
    pass_rate = np.clip(np.where(doublings > 0.0, others, posterior), low, high)
    if np.any(share > 0.0):
        members[SIGMOID] = sigmoid
        pass_rate = share * np.clip(sigmoid, low, high) + (1.0 - share) * pass_rate
    return pass_rate, members


def combine(
    fit: SigmoidFit, budgets: Array, sigmoid: Outlook, averaged: Callable[[], Outlook], rng: np.random.Generator
) -> tuple[Outlook, dict[str, Array]]:
    """Return the combined forecast at ``budgets`` (n,) with its draws, and what each of its members says there.

    The draws are those of ``sigmoid`` and ``averaged``, moved to the pass rate that is forecast: half of each where the
    ceiling is not known, those of the sigmoid alone where it is.
    """
    if np.all(weight_of_sigmoid(fit, budgets) == 1.0):
        return sigmoid, {SIGMOID: sigmoid.pass_rate}
    posterior = averaged()
    pass_rate, members = point_forecast(fit, budgets, sigmoid.pass_rate, lambda: posterior.pass_rate)
    unknown = 1.0 - how_known(fit, THRESHOLDS[Verdict.WEAK], THRESHOLDS[Verdict.APPROXIMATE])
    size = len(sigmoid.distribution)
    n_posterior = min(round(0.5 * unknown * size), len(posterior.distribution))
    wider = 1.0 + WIDENING * unknown * np.maximum(np.log2(budgets / fit.compute_range[1]) - 1.0, 0.0)
    spread = np.zeros((size, len(budgets)))
    if not fit.options.bounded:
        trend = np.abs(members[DAMPED_TREND] - members[LAST_VALUE]) * (budgets > fit.compute_range[1])
        spread = TREND_SPREAD * unknown * rng.standard_normal((size, 1)) * trend

    def moved(of_sigmoid: Array, of_posterior: Array) -> Array:
        own = of_sigmoid[: size - n_posterior] - np.median(sigmoid.distribution, axis=0)
        rest = of_posterior[:n_posterior] - np.median(posterior.distribution, axis=0)
        return _within(fit, budgets, pass_rate + wider * np.concatenate([own, rest]) + spread)

    draws = moved(sigmoid.distribution, posterior.distribution)
    return Outlook(pass_rate, draws, moved(sigmoid.evaluations, posterior.evaluations)), members


def forecast_limits(fit: SigmoidFit) -> tuple[float, float]:
    """Return between what a forecast may lie: unbounded scores leave their range by as much again at most."""
    model = fit.fitted_model()
    if fit.options.bounded:
        return score_range(model)
    low, high = float(model.series.y.min()), float(model.series.y.max())
    return low - (high - low), high + (high - low)


def _within(fit: SigmoidFit, budgets: Array, draws: Array) -> Array:
    if fit.options.bounded:
        return np.clip(draws, *score_range(fit.fitted_model()))
    low, high = forecast_limits(fit)
    more = (high - low) * WIDEST * np.maximum(budgets / fit.compute_range[1] - 1.0, 0.0)
    return np.clip(draws, low - more, high + more)
