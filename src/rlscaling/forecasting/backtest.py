"""Did forecasts of this run hold? Fit each beginning of it, predict the rest, and compare with what came."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array, as_floats
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fitting.curve_fit import fit_power_law
from rlscaling.fitting.fit import fit_trace
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.forecasting.extrapolate import extrapolate
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import number, unit_text
from rlscaling.serialization import finite
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.bootstrap import bootstrap
from rlscaling.validation import RngLike, entropy_of

if TYPE_CHECKING:
    import pandas as pd


HORIZONS = (2.0, 4.0)  # times the data
WINDOW = 0.8  # of a horizon: from here to it, evaluations are averaged
BASELINE = "last_value"
MODELS = ("sigmoid", "power_law", BASELINE, "auto")
LAST_SHARE = 20  # the last value is the mean of the last twentieth of the evaluations
N_CUTOFFS, PER_DOUBLING = 8, 2
N_RESAMPLES = 200
Curve = tuple[Array, Array, Array]  # forecast, lower and upper end of the 95 % interval of an evaluation


@dataclass(frozen=True)
class ForecastOrigin:
    """One forecast: a model fitted to the evaluations up to ``cutoff`` and held against the later ones.

    Attributes
    ----------
    compute, beyond, actual, forecast, low, high : tuple of float
        Later evaluations to four times the cutoff: compute, compute over the cutoff, pass rate, the forecast and its
        95 % interval for an evaluation; nan for a model without one.
    """

    model: str
    cutoff: float
    compute: tuple[float, ...]
    beyond: tuple[float, ...]
    actual: tuple[float, ...]
    forecast: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def error(self, horizon: float) -> float:
        """Return forecast less actual, averaged from 0.8 times ``horizon`` to it; nan where the run ends before."""
        beyond = np.array(self.beyond)
        inside = (beyond > WINDOW * horizon) & (beyond <= horizon * (1.0 + 1e-9))
        if not inside.any() or beyond[-1] < 0.95 * horizon:
            return math.nan
        return float(np.mean((np.array(self.forecast) - np.array(self.actual))[inside]))

    def held(self, horizon: float) -> tuple[int, int]:
        """Return how many evaluations to ``horizon`` lie in the interval, and of how many; (0, 0) without one."""
        beyond, low, high, y = (np.array(a) for a in (self.beyond, self.low, self.high, self.actual))
        inside = (beyond <= horizon * (1.0 + 1e-9)) & np.isfinite(low)
        return int(np.sum((low <= y) & (y <= high) & inside)), int(inside.sum())


@dataclass(frozen=True)
class HorizonScore:
    """How a model did at one horizon: errors over the cutoffs, wins over the last value, evaluations held."""

    model: str
    horizon: float
    n: int
    median_error: float
    mean_error: float
    wins: int
    held: int
    of: int


@dataclass(frozen=True, eq=False, repr=False)
class Backtest(Document):
    """Forecasts of one run from several cutoffs, held against what came.

    Attributes
    ----------
    trace : Trace
        The run.
    origins : tuple of ForecastOrigin
        One for each model and cutoff.
    """

    trace: Trace
    models: tuple[str, ...]
    cutoffs: tuple[float, ...]
    origins: tuple[ForecastOrigin, ...]
    seed: int

    @cached_property
    def scores(self) -> tuple[HorizonScore, ...]:
        """One score for each model and horizon that the run reaches."""
        return tuple(score for horizon in HORIZONS for model in self.models if (score := self.score(model, horizon)).n)

    def of(self, model: str) -> tuple[ForecastOrigin, ...]:
        """Return the forecasts of one model, by cutoff."""
        return tuple(origin for origin in self.origins if origin.model == model)

    def score(self, model: str, horizon: float) -> HorizonScore:
        """Return how ``model`` did at ``horizon`` times the data."""
        errors = np.abs([origin.error(horizon) for origin in self.of(model)])
        base = np.abs([origin.error(horizon) for origin in self.of(BASELINE)]) if BASELINE in self.models else errors
        known = np.isfinite(errors)
        held = [origin.held(horizon) for origin, use in zip(self.of(model), known, strict=True) if use]
        return HorizonScore(
            model, horizon, int(known.sum()),
            float(np.median(errors[known])) if known.any() else math.nan,
            float(np.mean(errors[known])) if known.any() else math.nan,
            int(np.sum(errors[known] < base[known])), sum(h for h, _ in held), sum(n for _, n in held),
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """What to expect of a forecast of this run, in a sentence."""
        model = next(m for m in ("auto", "sigmoid", *self.models) if m in self.models)
        score = self.score(model, HORIZONS[0])
        if not score.n:
            return "no cutoff leaves evaluations to twice its compute; run on, or give earlier cutoffs"
        text = f"on this run a forecast to 2x ({_name(model)}) has been off by {score.median_error:.2g}"
        text += f" (median of {score.n})" if score.n > 1 else ""
        if score.of:
            text += f"; the 95 % interval held {score.held} of {score.of} evaluations"
        if BASELINE in self.models and model != BASELINE:
            text += f"; nearer than the last value in {score.wins} of {score.n}"
        return text

    @property
    def advice(self) -> str:
        """Which model was nearest at 2x on this run; empty with one model or one cutoff."""
        scores = [s for s in self.scores if s.horizon == HORIZONS[0] and s.n > 1]
        if len(scores) < 2:
            return ""
        best = min(scores, key=lambda s: s.mean_error)
        return f"nearest at 2x: {_name(best.model)}, {best.mean_error:.2g} off in the mean of {best.n} cutoffs"

    def to_frame(self) -> pd.DataFrame:
        """Return one row a model, cutoff and later evaluation."""
        import pandas as pd

        names = ("compute", "beyond", "actual", "forecast", "low", "high")
        parts = [
            pd.DataFrame({"model": o.model, "cutoff": o.cutoff, **{n: np.array(getattr(o, n)) for n in names}})
            for o in self.origins
        ]
        return pd.concat(parts, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Return scores and forecasts as JSON-ready values."""
        scores = [
            {
                "model": s.model, "horizon": s.horizon, "n": s.n, "median_error": finite(s.median_error),
                "mean_error": finite(s.mean_error), "beats_last_value": s.wins, "held": s.held, "evaluations": s.of,
            }
            for s in self.scores
        ]  # fmt: skip
        forecasts = [
            {
                "model": o.model,
                "cutoff": o.cutoff,
                **{n: [finite(v) for v in getattr(o, n)] for n in ("compute", "actual", "forecast", "low", "high")},
            }
            for o in self.origins
        ]
        return {
            "verdict": self.headline, "advice": self.advice, "run": self.trace.name, "cutoffs": list(self.cutoffs),
            "compute_unit": self.trace.compute_unit, "scores": scores, "forecasts": forecasts, "seed": self.seed,
        }  # fmt: skip

    def tables(self) -> list[Table]:
        """Return the table."""
        return [
            Table.of(
                ("", "to", "cutoffs", "median error", "mean error", "beats last value", "interval held"), self._rows()
            )
        ]

    def _rows(self) -> list[list[str]]:
        """Return the table of scores as text."""
        return [
            [
                _name(s.model), f"{s.horizon:g}x", str(s.n), f"{s.median_error:.4f}", f"{s.mean_error:.4f}",
                "" if s.model == BASELINE else f"{s.wins} of {s.n}", f"{s.held} of {s.of}" if s.of else "",
            ]
            for s in self.scores
        ]  # fmt: skip

    def footnotes(self) -> list[str]:
        """Return the lines below the table."""
        unit = unit_text(self.trace.compute_unit)
        where = f"fitted to {', '.join(number(c) for c in self.cutoffs)} {unit}"
        return [*filter(None, [self.advice]), where]

    def __repr__(self) -> str:
        return f"Backtest({self.trace.name!r}, {len(self.cutoffs)} cutoffs, {', '.join(self.models)})"


def _name(model: str) -> str:
    return model.replace("_", " ")


def backtest(
    trace: Trace,
    *,
    cutoffs: ArrayLike | None = None,
    models: Sequence[str] = ("sigmoid", "power_law", BASELINE),
    rng: RngLike = None,
    **options: Any,
) -> Backtest:
    """Fit each beginning of a run, forecast the rest, and compare with the evaluations that came.

    Parameters
    ----------
    trace : Trace
        A run, finished or not.
    cutoffs : array-like, optional
        Compute at which the beginnings end. Default: up to 8, a factor of the square root of 2 apart, from half of the
        compute downwards, as far as a fit has 5 points.
    models : sequence of {"sigmoid", "power_law", "last_value", "auto"}
        ``last_value`` is the mean of the last twentieth of the evaluations; ``auto`` is
        ``extrapolate(..., method="auto")``.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.
    **options
        Options of `fit_sigmoid`.

    Returns
    -------
    Backtest

    Raises
    ------
    FitError
        For an unknown model, a cutoff without later evaluations or with too few before it, or a run that is too short.

    Notes
    -----
    Each error is that of the mean of the evaluations from 0.8 times the horizon to it. Intervals are for one
    evaluation, at 95 %.

    Examples
    --------
    >>> from rlscaling import backtest, datasets
    >>> found = backtest(datasets.load_demo()["scalerl"], rng=0)
    >>> found.score("sigmoid", 2.0).median_error < found.score("last_value", 2.0).median_error
    True
    """
    if not isinstance(trace, Trace):
        raise FitError(f"backtest takes a Trace, not {type(trace).__name__}; read one with read_trace")
    unknown = [model for model in models if model not in MODELS]
    if unknown or not models:
        raise FitError(f"models={tuple(models)!r}: choose from {', '.join(MODELS)}")
    entropy = entropy_of(rng)
    fits = list(_given(trace, cutoffs, options) if cutoffs is not None else _default(trace, options))
    origins = [_origin(trace, fit, model, cutoff, entropy) for model in dict.fromkeys(models) for cutoff, fit in fits]
    return Backtest(trace, tuple(dict.fromkeys(models)), tuple(cutoff for cutoff, _ in fits), tuple(origins), entropy)


def _given(trace: Trace, cutoffs: ArrayLike, options: dict[str, Any]) -> Iterator[tuple[float, SigmoidFit]]:
    """Yield the cutoffs of the caller with their fits."""
    unit = unit_text(trace.compute_unit)
    for cutoff in sorted(set(as_floats(np.atleast_1d(cutoffs), "cutoffs").tolist())):
        last = float(trace.compute[-1])
        if not cutoff < last:
            raise FitError(
                f"cutoff {number(cutoff)}: the run ends at {number(last)} {unit}, so there are no later evaluations; "
                "give an earlier one"
            )
        try:
            yield cutoff, fit_trace(trace.up_to(cutoff), **options)
        except RLScalingError as error:
            raise FitError(f"cutoff {number(cutoff)}: {error}") from error


def _default(trace: Trace, options: dict[str, Any]) -> list[tuple[float, SigmoidFit]]:
    """Return the default cutoffs that leave enough points, with their fits, the earliest first."""
    found: list[tuple[float, SigmoidFit]] = []
    error = ""
    for k in range(N_CUTOFFS):
        cutoff = float(trace.compute[-1]) * 0.5 * 2.0 ** (-k / PER_DOUBLING)
        if not np.any(trace.compute <= cutoff):
            break
        fit = fit_trace(trace.up_to(cutoff), on_failure="return", **options)
        if not isinstance(fit, SigmoidFit):
            error = str(fit)
            break
        if not found or fit.n_points < found[-1][1].n_points:
            found.append((cutoff, fit))
    if not found:
        fit_trace(trace, **options)  # what is wrong with the whole run is wrong with its half
        raise FitError(f"the first half of the run cannot be fitted ({error or 'no evaluation there'}); run on")
    return found[::-1]


def _origin(trace: Trace, fit: SigmoidFit, model: str, cutoff: float, entropy: int) -> ForecastOrigin:
    later = (trace.compute > cutoff) & (trace.compute <= HORIZONS[-1] * cutoff * (1.0 + 1e-9))
    C, y = trace.compute[later], trace.pass_rate[later]
    forecast, low, high = _FORECASTERS[model](fit, C, entropy)
    columns = (C, C / cutoff, y, forecast, low, high)
    return ForecastOrigin(model, cutoff, *(tuple(column.tolist()) for column in columns))


def _sigmoid(fit: SigmoidFit, C: Array, entropy: int) -> Curve:
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        return _without_interval(fit.predict(C))
    replicates = bootstrap(fit, n_resamples=N_RESAMPLES, rng=entropy)
    interval = extrapolate(fit, C, bootstrap=replicates).prediction_interval
    return fit.predict(C), interval[:, 0], interval[:, 1]


def _auto(fit: SigmoidFit, C: Array, entropy: int) -> Curve:
    forecast = extrapolate(fit, C, method="auto", rng=entropy)
    return forecast.pass_rate, forecast.prediction_interval[:, 0], forecast.prediction_interval[:, 1]


def _power_law(fit: SigmoidFit, C: Array, entropy: int) -> Curve:
    o, used = fit.options, fit.data.used
    found = fit_power_law(
        fit.data.compute[used], fit.data.pass_rate[used], min_compute=0.0, compute_unit=o.compute_unit, A_max=o.A_max
    )
    return _without_interval(found.predict(C))


def _last_value(fit: SigmoidFit, C: Array, entropy: int) -> Curve:
    y = fit.data.pass_rate
    return _without_interval(np.full(len(C), float(np.mean(y[-max(1, len(y) // LAST_SHARE) :]))))


def _without_interval(forecast: Array) -> Curve:
    nothing = np.full(len(forecast), math.nan)
    return forecast, nothing, nothing


_FORECASTERS: dict[str, Callable[[SigmoidFit, Array, int], Curve]] = {
    "sigmoid": _sigmoid,
    "power_law": _power_law,
    BASELINE: _last_value,
    "auto": _auto,
}
