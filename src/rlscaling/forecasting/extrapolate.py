"""`extrapolate` and `compute_to_reach`: forecasts of the fitted curve, averaged over curves, or combined."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array, Mask, as_floats
from rlscaling.curves.sigmoid import gain_share, sigmoid_reach
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fitting.budgets import SUPPORTED_BEYOND, check_budgets, supported_beyond
from rlscaling.fitting.data import recent_weights, relative_to_fit
from rlscaling.fitting.fit import refit
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL, Verdict
from rlscaling.forecasting.results import Forecast, PastForecast, Reach
from rlscaling.solver.fitted_model import score_range, score_scale
from rlscaling.uncertainty.bootstrap import Bootstrap, bootstrap
from rlscaling.uncertainty.combined import (
    AVERAGED,
    LAST_VALUE,
    N_DRAWS,
    SIGMOID,
    Outlook,
    combine,
    last_value,
    outlook_of_posterior,
    point_forecast,
    weight_of_sigmoid,
)
from rlscaling.uncertainty.prior import DEFAULT, Prior
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import RngLike, check_seed_sd, entropy_of, with_count_note

COMBINED = "combined"
METHODS = (COMBINED, SIGMOID, AVERAGED)
OLD_NAMES = {"auto": AVERAGED, "power_law": "power-law", "last_value": LAST_VALUE}
"""Names of forecasting methods before 0.1, accepted until 1.0."""

MEASURED_BEYOND = 4.0  # of the averaged forecast: benchmarks/forecast.py
PAST, LATE = 0.5, 0.8  # of the compute: a track record is that of a forecast from the first to beyond the second


def method_of(name: str) -> str:
    """Return the name of a forecasting method, given by that or by its old name."""
    return OLD_NAMES.get(name, name) if isinstance(name, str) else name


def extrapolate(
    fit: SigmoidFit,
    compute: ArrayLike | None = None,
    *,
    method: str = COMBINED,
    bootstrap: Bootstrap | None = None,
    prior: Prior | None = None,
    weight: ArrayLike | None = None,
    seed_sd: float = SEED_SD,
    rng: RngLike = None,
    track_record: bool = True,
) -> Forecast:
    """Forecast the pass rate at one or more budgets, with intervals.

    Parameters
    ----------
    fit : SigmoidFit
        The fit.
    compute : float or array-like of shape (n,), optional
        Budgets, in the fit's unit. Default 100,000 GPU-hours; other units have no default.
    method : {"combined", "sigmoid", "averaged"}
        ``combined``: the sigmoid where its ceiling is known to ±0.02; else a weighted mean of the last value, a damped
        trend, ``averaged`` and, as far as the ceiling is known, the sigmoid, which on real curves is nearer than each
        of them (benchmarks/forecast.py). ``sigmoid``: the least-squares curve and its replicates. ``averaged``: the
        median and the spread of a posterior that averages two shapes of curve, shrinks early runs towards ``prior`` and
        follows the last evaluations where they leave the curve.
    bootstrap : Bootstrap, optional
        Replicates of the sigmoid; None draws the default ones. Not for ``averaged``.
    prior : Prior, optional
        Of the posterior; `learn_prior` estimates one from your own runs. Not for ``sigmoid``.
    weight : float or array-like of shape (n,), optional
        For a weighted fit: the weight of the evaluation that the prediction interval is for, on the scale of the fit's
        weights, one for all budgets or one each. Default: it is like the last ten fitted evaluations, each draw like
        one of them.
    seed_sd : float
        Between-seed standard deviation of ``A``, for the intervals of a new run; ``bootstrap`` has its own.
    rng : int, Generator, SeedSequence or None
        Seed of the draws.
    track_record : bool
        Whether to forecast the end of the run from its first half too, and say how far off that was.

    Returns
    -------
    Forecast

    Raises
    ------
    FitError
        For a budget that is not a positive number, or with fewer than 7 fitted points (5 with ``averaged``).

    Notes
    -----
    When the ceiling is not identified a number is given only to twice the data (``supported``; four times with
    ``averaged``); the interval is given at any budget, and is wide where the data say little. A run of 3k hours says
    nothing about 100k.

    Examples
    --------
    >>> from rlscaling import datasets, extrapolate, fit_trace
    >>> forecast = extrapolate(fit_trace(datasets.load_demo()["scalerl"]), 100_000, rng=0)
    >>> low, high = forecast.confidence_interval
    >>> forecast.pass_rate.shape, low.shape
    ((1,), (1,))
    """
    if not isinstance(fit, SigmoidFit):
        raise FitError(f"extrapolate takes a SigmoidFit, not {type(fit).__name__}; fit first")
    budgets = check_budgets(fit, compute)
    method = method_of(method)
    if method not in METHODS:
        choices = " or ".join(f'"{name}"' for name in METHODS)
        raise FitError(f"method={method!r} is unknown; choose {choices}")
    if method == SIGMOID and prior is not None:
        raise FitError(f'prior= is used with method="{COMBINED}" and "{AVERAGED}" only; drop it or set the method')
    if method == AVERAGED and bootstrap is not None:
        raise FitError(f'bootstrap= holds replicates of the sigmoid; drop it, or use method="{SIGMOID}"')
    if prior is not None and not isinstance(prior, Prior):
        raise FitError(f"prior= takes a Prior, e.g. from learn_prior, not {type(prior).__name__}")
    check_seed_sd(seed_sd)
    make = {COMBINED: _combined, SIGMOID: _sigmoid, AVERAGED: _averaged}[method]
    forecast = make(_Request(fit, budgets, bootstrap, prior or DEFAULT, weight, seed_sd, rng))
    past = _track_record(fit, method, prior or DEFAULT, forecast.rng_seed) if track_record else None
    return forecast if past is None else replace(forecast, past=past)


@dataclass(frozen=True, eq=False)
class _Request:
    """What `extrapolate` was asked for."""

    fit: SigmoidFit
    budgets: Array
    bootstrap: Bootstrap | None
    prior: Prior
    weight: ArrayLike | None
    seed_sd: float
    rng: RngLike

    def supported(self, measured: float) -> tuple[Mask, tuple[str, ...]]:
        """Return where a number is supported, and a note where it is not."""
        fit = self.fit
        inside = self.budgets / fit.compute_range[1] <= supported_beyond(fit.verdict, measured)
        if inside.all():
            return inside, ()
        if fit.verdict is Verdict.NOT_IDENTIFIED:
            times = "twice" if measured == SUPPORTED_BEYOND else f"{measured:g} times"
            return inside, (f"beyond {times} the data only the interval is given: the ceiling is not identified",)
        return inside, (f"beyond the data no number is given: the verdict is {fit.verdict}",)

    def noise_scale(self, size: int, entropy: int) -> Array:
        return _noise_scale(self.fit, self.weight, self.budgets, size, entropy)


def _sigmoid(r: _Request) -> Forecast:
    boot = _bootstrap(r.fit, r.bootstrap, r.rng, r.seed_sd)
    outlook = _of_sigmoid(r, boot)
    new = outlook.distribution
    new = new + (boot.A_new_run - boot.distribution[:, 0])[:, None] * _shares(boot.distribution, r.budgets)
    supported, note = r.supported(SUPPORTED_BEYOND)
    return Forecast(
        fit=r.fit, compute=r.budgets, pass_rate=outlook.pass_rate, distribution=outlook.distribution,
        distribution_new_run=np.clip(new, *score_range(r.fit.fitted_model())), supported=supported,
        confidence_level=boot.confidence_level, rng_seed=boot.rng_seed,
        notes=with_count_note((*r.fit.notes, *note), boot.n_resamples, boot.confidence_level),
        evaluations=outlook.evaluations, method=SIGMOID, members={SIGMOID: outlook.pass_rate},
    )  # fmt: skip


def _of_sigmoid(r: _Request, boot: Bootstrap) -> Outlook:
    """Return the least-squares curve and its replicates."""
    draws = boot.curves(r.budgets)
    rng = np.random.default_rng(np.random.SeedSequence(boot.rng_seed, spawn_key=(2,)))
    rho, sd = r.fit.fitted_model().noise.draw(rng, boot.n_resamples)
    noise = (sd / np.sqrt(1.0 - rho**2) * rng.standard_normal(boot.n_resamples))[:, None]
    noise = noise * r.noise_scale(boot.n_resamples, boot.rng_seed)
    return Outlook(r.fit.predict(r.budgets), draws, draws + noise)


def _averaged(r: _Request) -> Forecast:
    entropy = entropy_of(r.rng)
    outlook, how = _of_posterior(r, entropy)
    supported, note = r.supported(MEASURED_BEYOND)
    return Forecast(
        fit=r.fit, compute=r.budgets, pass_rate=outlook.pass_rate, distribution=outlook.distribution,
        distribution_new_run=_new_run(r, outlook.distribution, entropy), supported=supported, confidence_level=0.95,
        rng_seed=entropy, evaluations=outlook.evaluations, notes=(*r.fit.notes, *note, how), method=AVERAGED,
        members={AVERAGED: outlook.pass_rate},
    )  # fmt: skip


def _of_posterior(r: _Request, entropy: int) -> tuple[Outlook, str]:
    """Return the median and the draws of the posterior, and a note on it."""
    scale = r.noise_scale(N_DRAWS, entropy)
    outlook, belief = outlook_of_posterior(r.fit, r.budgets, entropy, prior=r.prior, noise_scale=scale)
    slow = belief.shape_probability("slow")
    return outlook, f"average over curves: {slow:.2f} on the slow shape; prior: {belief.prior.source}"


def _new_run(r: _Request, runs: Array, entropy: int) -> Array:
    """Return draws of new runs: those of this run, each off by what seeds differ by."""
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(5,)))
    model = r.fit.fitted_model()
    new = runs + r.seed_sd * score_scale(model) * rng.standard_normal((len(runs), 1))
    return np.asarray(np.clip(new, *score_range(model)))


def _combined(r: _Request) -> Forecast:
    if np.all(weight_of_sigmoid(r.fit, r.budgets) == 1.0):
        return replace(_sigmoid(r), method=COMBINED)
    boot = _bootstrap(r.fit, r.bootstrap, r.rng, r.seed_sd)
    entropy = boot.rng_seed
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(6,)))
    outlook, members = combine(r.fit, r.budgets, _of_sigmoid(r, boot), lambda: _of_posterior(r, entropy)[0], rng)
    supported, note = r.supported(SUPPORTED_BEYOND)
    notes = with_count_note((*r.fit.notes, *note), boot.n_resamples, boot.confidence_level)
    return Forecast(
        fit=r.fit, compute=r.budgets, pass_rate=outlook.pass_rate, distribution=outlook.distribution,
        distribution_new_run=_new_run(replace(r, seed_sd=boot.seed_sd), outlook.distribution, entropy),
        supported=supported, confidence_level=boot.confidence_level, rng_seed=entropy, notes=notes,
        evaluations=outlook.evaluations, method=COMBINED, members=members,
    )  # fmt: skip


def _track_record(fit: SigmoidFit, method: str, prior: Prior, entropy: int) -> PastForecast | None:
    """Return how the method would have forecast the end of the run from its first half; None where that is no fit."""
    C, y = fit.fitted_model().series.compute, fit.fitted_model().series.y
    last = float(C[-1])
    late = C > LATE * last
    try:
        early = refit(fit, max_compute=PAST * last)
        if early.n_points < MIN_POINTS_FOR_INTERVAL or early.compute_range[1] > LATE * last:
            return None
        at, r = C[late], _Request(early, C[late], None, prior, None, 0.0, entropy)
        if method == SIGMOID:
            forecast = early.predict(at)
        elif method == AVERAGED:
            forecast = _of_posterior(r, entropy)[0].pass_rate
        else:
            forecast, _ = point_forecast(early, at, early.predict(at), lambda: _of_posterior(r, entropy)[0].pass_rate)
    except RLScalingError:  # a beginning that cannot be fitted has no forecast
        return None
    w = fit.fitted_model().series.weights[late]
    return PastForecast(
        early.compute_range[1], last, float(np.average(forecast, weights=w)), float(np.average(y[late], weights=w)),
        last_value(early),
    )  # fmt: skip


def _noise_scale(fit: SigmoidFit, weight: ArrayLike | None, budgets: Array, size: int, entropy: int) -> Array:
    """Return the noise of a new evaluation over that of one of mean weight, in shape to multiply (size, budgets)."""
    if fit.data.weights is None:
        if weight is not None:
            raise FitError("weight= was given, but the fit is not weighted; leave it out, or fit with weights=")
        return np.ones((1, 1))
    if weight is None:
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(4,)))
        return np.asarray(1.0 / np.sqrt(rng.choice(recent_weights(fit.data), size))[:, None])
    given = as_floats(np.full(len(budgets), weight) if np.ndim(weight) == 0 else weight, "weight")
    if len(given) != len(budgets) or not np.all(np.isfinite(given) & (given > 0)):
        raise FitError(
            f"weight={weight!r}: give one positive number, or one for each of the {len(budgets)} budgets, on the scale "
            "of the fit's weights"
        )
    return np.asarray(1.0 / np.sqrt(relative_to_fit(fit.data, given))[None, :])


def _bootstrap(fit: SigmoidFit, boot: Bootstrap | None, rng: RngLike, seed_sd: float = SEED_SD) -> Bootstrap:
    if boot is None:
        return bootstrap(fit, rng=rng, seed_sd=seed_sd)
    if not isinstance(boot, Bootstrap):
        raise FitError(f"bootstrap= takes the result of bootstrap(fit), not {type(boot).__name__}")
    if boot.fit.params != fit.params or boot.fit.options != fit.options:
        raise FitError("bootstrap= belongs to another fit; run bootstrap(fit) on this one, or leave it out")
    return boot


def _shares(draws: Array, budgets: Array) -> Array:
    """Return the share of the gain that each draw has reached at each budget."""
    return gain_share(budgets[None, :], draws[:, 1:2], draws[:, 2:3])


def compute_to_reach(
    fit: SigmoidFit, pass_rate: float, *, bootstrap: Bootstrap | None = None, rng: RngLike = None
) -> Reach:
    """Return the compute at which the run reaches ``pass_rate``, with its interval.

    Parameters
    ----------
    fit : SigmoidFit
        The fit.
    pass_rate : float
        Target.
    bootstrap, rng
        As in `extrapolate`.

    Returns
    -------
    Reach
        ``inf`` where the ceiling lies below the target; 0 where the run started above it.

    Examples
    --------
    >>> from rlscaling import compute_to_reach, datasets, fit_trace
    >>> reach = compute_to_reach(fit_trace(datasets.load_demo()["scalerl"]), 0.55, rng=0)
    >>> reach.confidence_interval[0] < reach.compute < reach.confidence_interval[1]
    True
    """
    try:
        target = float(pass_rate)
    except (TypeError, ValueError):
        target = np.nan
    if not np.isfinite(target):
        raise FitError(f"pass_rate={pass_rate!r} is not a finite number; give the pass rate to reach, e.g. 0.55")
    if fit.options.bounded and not 0.0 <= target <= 1.0:
        raise FitError(f"pass_rate={target:g} is outside [0, 1]: pass rates are fractions, e.g. 0.55 for 55 %")
    boot = _bootstrap(fit, bootstrap, rng)
    draws = boot.reach(target)
    p = fit.params
    point = float(sigmoid_reach(target, *(np.array([v]) for v in p.as_tuple()))[0])
    return Reach(fit, target, point, draws, boot.confidence_level)
