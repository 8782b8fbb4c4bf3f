"""`backtest`: fit each beginning of a run, forecast the rest, and compare with the evaluations observed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array, as_floats
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fitting.curve_fit import fit_power_law
from rlscaling.fitting.fit import fit_beginning, fit_trace
from rlscaling.fitting.selection import checked_weights
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.forecasting.backtest_results import (
    HORIZONS,
    Backtest,
    FamilyBacktest,
    ForecastOrigin,
)
from rlscaling.forecasting.extrapolate import COMBINED, extrapolate, method_of
from rlscaling.printing.numbers import number, unit_text
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.bootstrap import bootstrap
from rlscaling.uncertainty.combined import AVERAGED, DAMPED_TREND, SIGMOID, damped_trend, forecast_limits, last_value
from rlscaling.uncertainty.combined import LAST_VALUE as BASELINE
from rlscaling.uncertainty.prior import Prior, learn_prior
from rlscaling.validation import RngLike, entropy_of, renamed

N_CUTOFFS, PER_DOUBLING = 8, 2
N_RESAMPLES = 200
LEAVE_ONE_OUT = "leave-one-out"
LEAST_FOR_PRIOR = 3  # finished runs besides the one that is forecast
Curve = tuple[Array, Array, Array]  # forecast, lower and upper end of the 95 % interval of an evaluation
Progress = Callable[[int, int], None]


@overload
def backtest(
    trace: Trace,
    *,
    cutoffs: ArrayLike | None = ...,
    methods: Sequence[str] | None = ...,
    prior: Prior | None = ...,
    rng: RngLike = ...,
    weights: ArrayLike | None = ...,
    on_progress: Progress | None = ...,
    **options: Any,
) -> Backtest: ...


@overload
def backtest(
    trace: Sequence[Trace],
    *,
    cutoffs: ArrayLike | None = ...,
    methods: Sequence[str] | None = ...,
    prior: Prior | str | None = ...,
    rng: RngLike = ...,
    weights: None = ...,
    on_progress: Progress | None = ...,
    **options: Any,
) -> FamilyBacktest: ...


@renamed(models="methods")
def backtest(
    trace: Trace | Sequence[Trace],
    *,
    cutoffs: ArrayLike | None = None,
    methods: Sequence[str] | None = None,
    prior: Prior | str | None = None,
    rng: RngLike = None,
    weights: ArrayLike | None = None,
    on_progress: Progress | None = None,
    **options: Any,
) -> Backtest | FamilyBacktest:
    """Fit each beginning of a run, forecast the rest, and compare with the evaluations observed.

    Parameters
    ----------
    trace : Trace or sequence of Trace
        A run, finished or not; or several of one family (the same task, compute in one unit), whose scores are pooled:
        how forecasts of this team's runs have held.
    cutoffs : array-like, optional
        Compute at which the beginnings end. Default: up to 8, a factor of the square root of 2 apart, from half of the
        compute downwards, as far as a fit has 5 points.
    methods : sequence of {"combined", "sigmoid", "averaged", "damped-trend", "power-law", "last-value"}
        None takes all. ``combined``, ``sigmoid`` and ``averaged`` are the methods of `extrapolate`; ``last-value``, the
        mean of the last twentieth of the evaluations, and ``damped-trend`` are members of the first.
    prior : Prior or "leave-one-out", optional
        Of ``combined`` and ``averaged``. Of several runs ``"leave-one-out"`` forecasts each with the prior that
        `learn_prior` finds in the others, which takes three others whose ceiling is identified or approximate.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.
    weights : array-like of shape (n,), optional
        Relative inverse variances of all evaluations of the run: each beginning is fitted with its own, and each later
        evaluation has the interval of its own. Of a single run.
    on_progress : callable, optional
        Called with (runs done, runs in all).
    **options
        Other options of `fit_sigmoid`.

    Returns
    -------
    Backtest
        Of several runs a `FamilyBacktest`.

    Raises
    ------
    FitError
        For an unknown method, a cutoff without later evaluations or with too few before it, or a run that is too short;
        of several runs for mixed units, or when none of them can be backtested.

    Notes
    -----
    Each error is that of the (weighted) mean of the evaluations from 0.8 times the horizon to it. Intervals are for one
    evaluation, at 95 %.

    Examples
    --------
    >>> from rlscaling import backtest, datasets
    >>> demo = datasets.load_demo()
    >>> result = backtest(demo["scalerl"], methods=("sigmoid", "last-value"), rng=0)
    >>> result.score("sigmoid", 2.0).median_error < result.score("last-value", 2.0).median_error
    True
    >>> family = backtest([demo["scalerl"], demo["batch-512"]], methods=("sigmoid", "last-value"), rng=0)
    >>> family.score("sigmoid", 2.0).n > result.score("sigmoid", 2.0).n
    True
    """
    names = tuple(METHODS) if methods is None else tuple(dict.fromkeys(method_of(name) for name in methods))
    if not names or set(names) - set(METHODS):
        raise FitError(f"methods={names!r}: choose from {', '.join(METHODS)}")
    if isinstance(trace, list | tuple):
        if weights is not None:
            raise FitError("weights= are those of one run; backtest it alone")
        return _family(trace, cutoffs, names, prior, entropy_of(rng), on_progress, options)
    if not isinstance(trace, Trace):
        raise FitError(
            f"backtest takes a Trace, or a list of them, not {type(trace).__name__}; read one with read_trace"
        )
    if prior is not None and not isinstance(prior, Prior):
        raise FitError(f"prior={prior!r}: give a Prior, e.g. from learn_prior; {LEAVE_ONE_OUT!r} is for several runs")
    return _of_run(trace, cutoffs, names, prior, entropy_of(rng), weights, options)


def _of_run(
    trace: Trace, cutoffs: ArrayLike | None, names: tuple[str, ...], prior: Prior | None, entropy: int,
    weights: ArrayLike | None, options: dict[str, Any],
) -> Backtest:  # fmt: skip
    w = None
    if weights is not None:
        w = options["weights"] = checked_weights(weights, len(trace))
    fits = list(_fits_at(trace, cutoffs, options) if cutoffs is not None else _default_fits(trace, options))
    origins = tuple(_origin(trace, fit, name, cutoff, prior, entropy, w) for name in names for cutoff, fit in fits)
    return Backtest(trace, names, tuple(cutoff for cutoff, _ in fits), origins, entropy)


def _family(
    traces: Sequence[Trace], cutoffs: ArrayLike | None, names: tuple[str, ...], prior: Prior | str | None, entropy: int,
    on_progress: Progress | None, options: dict[str, Any],
) -> FamilyBacktest:  # fmt: skip
    runs = list(traces)
    if not runs or not all(isinstance(run, Trace) for run in runs):
        raise FitError("a family is a list of traces, one or more; read them with read_trace")
    units = sorted({run.compute_unit for run in runs})
    if len(units) > 1:
        raise FitError(f"compute is in {' and '.join(map(unit_text, units))}; give runs in one unit")
    if isinstance(prior, str) and prior != LEAVE_ONE_OUT:
        raise FitError(f"prior={prior!r}: give a Prior, or {LEAVE_ONE_OUT!r}")
    learned = isinstance(prior, str)
    priors = _learned_from_others(runs, options) if isinstance(prior, str) else [prior] * len(runs)
    found: list[Backtest] = []
    refused: dict[str, str] = {}
    for k, (run, own) in enumerate(zip(runs, priors, strict=True)):
        try:
            found.append(_of_run(run, cutoffs, names, own, entropy, None, options))
        except RLScalingError as error:
            refused[run.name or f"run {k + 1}"] = str(error)
        if on_progress is not None:
            on_progress(k + 1, len(runs))
    if not found:
        name, why = next(iter(refused.items()))
        raise FitError(f"none of {len(runs)} runs can be backtested; {name}: {why}")
    return FamilyBacktest(tuple(found), refused, learned, entropy)


def _learned_from_others(runs: Sequence[Trace], options: dict[str, Any]) -> list[Prior]:
    """Return for each run the prior learned from the others."""
    fits = [fit_trace(run, on_error="return", **options) for run in runs]
    finished = [isinstance(fit, SigmoidFit) and fit.verdict.identifies_ceiling for fit in fits]
    priors = []
    for k, run in enumerate(runs):
        others = [fit for j, fit in enumerate(fits) if j != k and finished[j]]
        if len(others) < LEAST_FOR_PRIOR:
            raise FitError(
                f"besides {run.name or f'run {k + 1}'}, {len(others)} of the runs have an identified or approximate "
                f"ceiling, and a prior takes {LEAST_FOR_PRIOR}; leave out prior=, or give more finished runs"
            )
        priors.append(learn_prior(others))
    return priors


def _fits_at(trace: Trace, cutoffs: ArrayLike, options: dict[str, Any]) -> Iterator[tuple[float, SigmoidFit]]:
    """Yield the given cutoffs with their fits."""
    unit = unit_text(trace.compute_unit)
    for cutoff in sorted(set(as_floats(np.atleast_1d(cutoffs), "cutoffs").tolist())):
        last = float(trace.compute[-1])
        if not cutoff < last:
            raise FitError(
                f"cutoff {number(cutoff)}: the run ends at {number(last)} {unit}, so there are no later evaluations; "
                "give an earlier one"
            )
        try:
            yield cutoff, fit_beginning(trace, cutoff, **options)
        except RLScalingError as error:
            raise FitError(f"cutoff {number(cutoff)}: {error}") from error


def _default_fits(trace: Trace, options: dict[str, Any]) -> list[tuple[float, SigmoidFit]]:
    """Return the default cutoffs that leave enough points, with their fits, the earliest first."""
    fits: list[tuple[float, SigmoidFit]] = []
    error = ""
    for k in range(N_CUTOFFS):
        cutoff = float(trace.compute[-1]) * 0.5 * 2.0 ** (-k / PER_DOUBLING)
        if not np.any(trace.compute <= cutoff):
            break
        fit = fit_beginning(trace, cutoff, on_error="return", **options)
        if not isinstance(fit, SigmoidFit):
            error = getattr(fit, "error", "")
            break
        if not fits or fit.n_points < fits[-1][1].n_points:
            fits.append((cutoff, fit))
    if not fits:
        fit_trace(trace, **options)  # what is wrong with the whole run is wrong with its half
        raise FitError(
            f"the first half of the run cannot be fitted: {error or 'no evaluation lies in it; evaluate more often'}"
        )
    return fits[::-1]


def _origin(
    trace: Trace, fit: SigmoidFit, method: str, cutoff: float, prior: Prior | None, entropy: int, weights: Array | None
) -> ForecastOrigin:  # fmt: skip
    later = (trace.compute > cutoff) & (trace.compute <= HORIZONS[-1] * cutoff * (1.0 + 1e-9))
    C, y = trace.compute[later], trace.pass_rate[later]
    w = None if weights is None else weights[later]
    forecast, low, high = METHODS[method](fit, C, w, prior, entropy)
    columns = (C, C / cutoff, y, forecast, low, high, np.ones(len(C)) if w is None else w)
    return ForecastOrigin(method, cutoff, *(tuple(column.tolist()) for column in columns))


def _combined(fit: SigmoidFit, C: Array, w: Array | None, prior: Prior | None, entropy: int) -> Curve:
    return _extrapolated(COMBINED if fit.n_points >= MIN_POINTS_FOR_INTERVAL else AVERAGED, fit, C, w, prior, entropy)


def _sigmoid(fit: SigmoidFit, C: Array, w: Array | None, prior: Prior | None, entropy: int) -> Curve:
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        return _without_interval(fit.predict(C))
    return _extrapolated(SIGMOID, fit, C, w, None, entropy)


def _averaged(fit: SigmoidFit, C: Array, w: Array | None, prior: Prior | None, entropy: int) -> Curve:
    return _extrapolated(AVERAGED, fit, C, w, prior, entropy)


def _extrapolated(method: str, fit: SigmoidFit, C: Array, w: Array | None, prior: Prior | None, entropy: int) -> Curve:
    replicates = None if method == AVERAGED else bootstrap(fit, n_resamples=N_RESAMPLES, rng=entropy)
    forecast = extrapolate(
        fit, C, method=method, bootstrap=replicates, prior=prior, weight=w, rng=entropy, track_record=False
    )
    return forecast.pass_rate, *forecast.prediction_interval


def _damped_trend(fit: SigmoidFit, C: Array, w: Array | None, prior: Prior | None, entropy: int) -> Curve:
    return _without_interval(np.clip(damped_trend(fit, C), *forecast_limits(fit)))


def _power_law(fit: SigmoidFit, C: Array, w: Array | None, prior: Prior | None, entropy: int) -> Curve:
    o, used, given = fit.options, fit.data.used, fit.data.weights
    power_law = fit_power_law(
        fit.data.compute[used], fit.data.pass_rate[used], min_compute=0.0, compute_unit=o.compute_unit, A_max=o.A_max,
        weights=None if given is None else given[used],
    )  # fmt: skip
    return _without_interval(power_law.predict(C))


def _last_value(fit: SigmoidFit, C: Array, w: Array | None, prior: Prior | None, entropy: int) -> Curve:
    return _without_interval(np.full(len(C), last_value(fit)))


def _without_interval(forecast: Array) -> Curve:
    nothing = np.full(len(forecast), math.nan)
    return forecast, nothing, nothing


METHODS: Mapping[str, Callable[[SigmoidFit, Array, Array | None, Prior | None, int], Curve]] = {
    COMBINED: _combined,
    SIGMOID: _sigmoid,
    AVERAGED: _averaged,
    DAMPED_TREND: _damped_trend,
    "power-law": _power_law,
    BASELINE: _last_value,
}
"""The methods of `backtest`: what forecasts from a fit, at what compute, for what weights, with what prior and seed."""
