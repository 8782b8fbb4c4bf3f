"""`backtest`: fit each beginning of a run, forecast the rest, and compare with the evaluations observed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array, as_floats
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fitting.curve_fit import fit_power_law
from rlscaling.fitting.fit import fit_beginning, fit_trace
from rlscaling.fitting.selection import checked_weights
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.forecasting.extrapolate import AVERAGED, extrapolate, method_of
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import number, rough, unit_text
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.bootstrap import bootstrap
from rlscaling.validation import RngLike, entropy_of, renamed

if TYPE_CHECKING:
    import pandas as pd


HORIZONS = (2.0, 4.0)  # times the data
WINDOW = 0.8  # of a horizon: from here to it, evaluations are averaged
BASELINE = "last-value"
LAST_SHARE = 20  # the last value is the mean of the last twentieth of the evaluations
N_CUTOFFS, PER_DOUBLING = 8, 2
N_RESAMPLES = 200
Curve = tuple[Array, Array, Array]  # forecast, lower and upper end of the 95 % interval of an evaluation


@dataclass(frozen=True)
class ForecastOrigin:
    """One forecast: a method applied to the evaluations up to ``cutoff`` and compared with the later ones.

    Attributes
    ----------
    method : str
        One of the methods of `backtest`.
    compute, beyond, actual, forecast, low, high : tuple of float
        Later evaluations to four times the cutoff: compute, compute over the cutoff, pass rate, the forecast and its
        95 % interval for an evaluation; nan for a method without one.
    weight : tuple of float
        Of the later evaluations, ones without weights.
    """

    method: str
    cutoff: float
    compute: tuple[float, ...]
    beyond: tuple[float, ...]
    actual: tuple[float, ...]
    forecast: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    weight: tuple[float, ...]

    def error(self, horizon: float) -> float:
        """Return forecast less actual, averaged from 0.8 times ``horizon`` to it; nan where the run ends before."""
        beyond = np.array(self.beyond)
        inside = (beyond > WINDOW * horizon) & (beyond <= horizon * (1.0 + 1e-9))
        if not inside.any() or beyond[-1] < 0.95 * horizon:
            return math.nan
        errors = np.array(self.forecast) - np.array(self.actual)
        return float(np.average(errors[inside], weights=np.array(self.weight)[inside]))

    def coverage(self, horizon: float) -> tuple[int, int]:
        """Return how many evaluations up to ``horizon`` their interval covers, and how many have one."""
        beyond, low, high, y = (np.array(a) for a in (self.beyond, self.low, self.high, self.actual))
        inside = (beyond <= horizon * (1.0 + 1e-9)) & np.isfinite(low)
        return int(np.sum((low <= y) & (y <= high) & inside)), int(inside.sum())


@dataclass(frozen=True)
class HorizonScore:
    """Accuracy of a method at one horizon.

    Attributes
    ----------
    method : str
    horizon : float
        Compute over the cutoff.
    n : int
        Cutoffs from which the run reaches it.
    median_error, mean_error : float
        Of the absolute errors over the cutoffs.
    n_better : int or None
        Cutoffs from which it was more accurate than the last value; None where that was not among the methods.
    n_covered, n_intervals : int
        Evaluations inside their 95 % interval, and evaluations with one.
    """

    method: str
    horizon: float
    n: int
    median_error: float
    mean_error: float
    n_better: int | None
    n_covered: int
    n_intervals: int


@dataclass(frozen=True, eq=False, repr=False)
class Backtest(Document):
    """Forecasts of one run from several cutoffs, compared with the evaluations observed.

    Attributes
    ----------
    trace : Trace
        The run.
    origins : tuple of ForecastOrigin
        One for each method and cutoff.
    """

    trace: Trace
    methods: tuple[str, ...]
    cutoffs: tuple[float, ...]
    origins: tuple[ForecastOrigin, ...]
    rng_seed: int

    @cached_property
    def scores(self) -> tuple[HorizonScore, ...]:
        """One score for each method and horizon that the run reaches."""
        return tuple(score for horizon in HORIZONS for name in self.methods if (score := self.score(name, horizon)).n)

    def forecasts_of(self, method: str) -> tuple[ForecastOrigin, ...]:
        """Return the forecasts of one method, by cutoff."""
        return tuple(origin for origin in self.origins if origin.method == method_of(method))

    def score(self, method: str, horizon: float) -> HorizonScore:
        """Return the accuracy of ``method`` at ``horizon`` times the data."""
        method = method_of(method)
        forecasts = self.forecasts_of(method)
        errors = np.abs([origin.error(horizon) for origin in forecasts])
        base = np.abs([origin.error(horizon) for origin in self.forecasts_of(BASELINE)])
        reached = np.isfinite(errors)
        n_better = int(np.sum(errors[reached] < base[reached])) if BASELINE in self.methods else None
        coverage = [origin.coverage(horizon) for origin, use in zip(forecasts, reached, strict=True) if use]
        return HorizonScore(
            method, horizon, int(reached.sum()),
            float(np.median(errors[reached])) if reached.any() else math.nan,
            float(np.mean(errors[reached])) if reached.any() else math.nan,
            n_better, sum(n for n, _ in coverage), sum(n for _, n in coverage),
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """What to expect of a forecast of this run, in a sentence."""
        method = self.main_method
        score = self.score(method, HORIZONS[0])
        if not score.n:
            return "no cutoff leaves evaluations to twice its compute; run on, or give earlier cutoffs"
        text = f"on this run a forecast to 2x ({_name(method)}) has been off by {rough(score.median_error)}"
        text += f" (median of {score.n})" if score.n > 1 else ""
        if score.n_intervals:
            text += f"; the 95 % interval held {score.n_covered} of {score.n_intervals} evaluations"
        if BASELINE in self.methods and method != BASELINE:
            text += f"; nearer than the last value in {score.n_better} of {score.n}"
        return text

    @property
    def main_method(self) -> str:
        """The method of the headline: ``averaged``, else ``sigmoid``, else the first."""
        return next(name for name in (AVERAGED, "sigmoid", *self.methods) if name in self.methods)

    @property
    def advice(self) -> str:
        """Which method was the most accurate at 2x on this run; empty with one method or one cutoff."""
        scores = [s for s in self.scores if s.horizon == HORIZONS[0] and s.n > 1]
        if len(scores) < 2:
            return ""
        best = min(scores, key=lambda s: s.mean_error)
        return f"nearest at 2x: {_name(best.method)}, {rough(best.mean_error)} off in the mean of {best.n} cutoffs"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per method, cutoff and later evaluation."""
        import pandas as pd

        names = ("compute", "beyond", "actual", "forecast", "low", "high")
        parts = [
            pd.DataFrame({"method": o.method, "cutoff": o.cutoff, **{n: np.array(getattr(o, n)) for n in names}})
            for o in self.origins
        ]
        return pd.concat(parts, ignore_index=True)

    def _record(self) -> dict[str, Any]:
        scores = [
            {
                "method": s.method, "horizon": s.horizon, "n": s.n, "median_error": s.median_error,
                "mean_error": s.mean_error, "beats_last_value": s.n_better, "held": s.n_covered,
                "evaluations": s.n_intervals,
            }
            for s in self.scores
        ]  # fmt: skip
        columns = ("method", "cutoff", "compute", "actual", "forecast", "low", "high")
        return {
            "headline": self.headline, "advice": self.advice, "run": self.trace.name, "cutoffs": self.cutoffs,
            "compute_unit": self.trace.compute_unit, "scores": scores,
            "forecasts": [{name: getattr(origin, name) for name in columns} for origin in self.origins],
            "rng_seed": self.rng_seed,
        }  # fmt: skip

    def tables(self) -> list[Table]:
        """Return the table of the scores."""
        header = ("", "to", "cutoffs", "median error", "mean error", "beats last value", "interval held")
        return [Table.of(header, self._rows())]

    def _rows(self) -> list[list[str]]:
        """Return the table of scores as text."""
        return [
            [
                _name(s.method), f"{s.horizon:g}x", str(s.n), f"{s.median_error:.4f}", f"{s.mean_error:.4f}",
                "" if s.method == BASELINE or s.n_better is None else f"{s.n_better} of {s.n}",
                f"{s.n_covered} of {s.n_intervals}" if s.n_intervals else "",
            ]
            for s in self.scores
        ]  # fmt: skip

    def footnotes(self) -> list[str]:
        """Return the lines below the table."""
        unit = unit_text(self.trace.compute_unit)
        where = f"fitted to {', '.join(number(c) for c in self.cutoffs)} {unit}"
        return [*filter(None, [self.advice]), where]

    def __repr__(self) -> str:
        return f"Backtest({self.trace.name!r}, {len(self.cutoffs)} cutoffs, {', '.join(self.methods)})"


def _name(method: str) -> str:
    return method.replace("-", " ")


@renamed(models="methods")
def backtest(
    trace: Trace,
    *,
    cutoffs: ArrayLike | None = None,
    methods: Sequence[str] = ("sigmoid", "power-law", BASELINE),
    rng: RngLike = None,
    weights: ArrayLike | None = None,
    **options: Any,
) -> Backtest:
    """Fit each beginning of a run, forecast the rest, and compare with the evaluations observed.

    Parameters
    ----------
    trace : Trace
        A run, finished or not.
    cutoffs : array-like, optional
        Compute at which the beginnings end. Default: up to 8, a factor of the square root of 2 apart, from half of the
        compute downwards, as far as a fit has 5 points.
    methods : sequence of {"sigmoid", "power-law", "last-value", "averaged"}
        ``last-value`` is the mean of the last twentieth of the evaluations; ``sigmoid`` and ``averaged`` are the
        methods of `extrapolate`.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.
    weights : array-like of shape (n,), optional
        Relative inverse variances of all evaluations of the run: each beginning is fitted with its own, and each later
        evaluation has the interval of its own.
    **options
        Other options of `fit_sigmoid`.

    Returns
    -------
    Backtest

    Raises
    ------
    FitError
        For an unknown method, a cutoff without later evaluations or with too few before it, or a run that is too short.

    Notes
    -----
    Each error is that of the (weighted) mean of the evaluations from 0.8 times the horizon to it. Intervals are for one
    evaluation, at 95 %.

    Examples
    --------
    >>> from rlscaling import backtest, datasets
    >>> result = backtest(datasets.load_demo()["scalerl"], rng=0)
    >>> result.score("sigmoid", 2.0).median_error < result.score("last-value", 2.0).median_error
    True
    """
    if not isinstance(trace, Trace):
        raise FitError(f"backtest takes a Trace, not {type(trace).__name__}; read one with read_trace")
    names = tuple(dict.fromkeys(method_of(name) for name in methods))
    if not names or set(names) - set(METHODS):
        raise FitError(f"methods={tuple(methods)!r}: choose from {', '.join(METHODS)}")
    entropy, w = entropy_of(rng), None
    if weights is not None:
        w = options["weights"] = checked_weights(weights, len(trace))
    fits = list(_fits_at(trace, cutoffs, options) if cutoffs is not None else _default_fits(trace, options))
    origins = tuple(_origin(trace, fit, name, cutoff, entropy, w) for name in names for cutoff, fit in fits)
    return Backtest(trace, names, tuple(cutoff for cutoff, _ in fits), origins, entropy)


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
    trace: Trace, fit: SigmoidFit, method: str, cutoff: float, entropy: int, weights: Array | None
) -> ForecastOrigin:  # fmt: skip
    later = (trace.compute > cutoff) & (trace.compute <= HORIZONS[-1] * cutoff * (1.0 + 1e-9))
    C, y = trace.compute[later], trace.pass_rate[later]
    w = None if weights is None else weights[later]
    forecast, low, high = METHODS[method](fit, C, w, entropy)
    columns = (C, C / cutoff, y, forecast, low, high, np.ones(len(C)) if w is None else w)
    return ForecastOrigin(method, cutoff, *(tuple(column.tolist()) for column in columns))


def _sigmoid(fit: SigmoidFit, C: Array, w: Array | None, entropy: int) -> Curve:
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        return _without_interval(fit.predict(C))
    replicates = bootstrap(fit, n_resamples=N_RESAMPLES, rng=entropy)
    interval = extrapolate(fit, C, bootstrap=replicates, weight=w).prediction_interval
    return fit.predict(C), *interval


def _averaged(fit: SigmoidFit, C: Array, w: Array | None, entropy: int) -> Curve:
    forecast = extrapolate(fit, C, method=AVERAGED, weight=w, rng=entropy)
    return forecast.pass_rate, *forecast.prediction_interval


def _power_law(fit: SigmoidFit, C: Array, w: Array | None, entropy: int) -> Curve:
    o, used, given = fit.options, fit.data.used, fit.data.weights
    power_law = fit_power_law(
        fit.data.compute[used], fit.data.pass_rate[used], min_compute=0.0, compute_unit=o.compute_unit, A_max=o.A_max,
        weights=None if given is None else given[used],
    )  # fmt: skip
    return _without_interval(power_law.predict(C))


def _last_value(fit: SigmoidFit, C: Array, w: Array | None, entropy: int) -> Curve:
    last = slice(-max(1, len(fit.data) // LAST_SHARE), None)
    given = None if fit.data.weights is None else fit.data.weights[last]
    return _without_interval(np.full(len(C), float(np.average(fit.data.pass_rate[last], weights=given))))


def _without_interval(forecast: Array) -> Curve:
    nothing = np.full(len(forecast), math.nan)
    return forecast, nothing, nothing


METHODS: Mapping[str, Callable[[SigmoidFit, Array, Array | None, int], Curve]] = {
    "sigmoid": _sigmoid,
    "power-law": _power_law,
    BASELINE: _last_value,
    AVERAGED: _averaged,
}
"""The methods of `backtest`: what forecasts from a fit, at what compute, for what weights, from a seed."""
