"""`Backtest` and `FamilyBacktest`: forecasts of one run, or of several, compared with the evaluations observed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.forecasting.extrapolate import COMBINED, method_of
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import number, rough, unit_text
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.combined import AVERAGED, SIGMOID
from rlscaling.uncertainty.combined import LAST_VALUE as BASELINE

if TYPE_CHECKING:
    import pandas as pd


HORIZONS = (2.0, 4.0)  # times the data
WINDOW = 0.8  # of a horizon: from here to it, evaluations are averaged


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

    def above(self, horizon: float) -> tuple[int, int]:
        """Return how many evaluations up to ``horizon`` lie above the forecast, and how many there are."""
        inside = np.array(self.beyond) <= horizon * (1.0 + 1e-9)
        return int(np.sum((np.array(self.actual) > np.array(self.forecast)) & inside)), int(inside.sum())

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

    @property
    def how_it_held(self) -> str:
        """How many intervals held, and how often it was nearer than the last value: the end of a sentence."""
        text = ""
        if self.n_intervals:
            text += f"; the 95 % interval held {self.n_covered} of {self.n_intervals} evaluations"
        if self.n_better is not None and self.method != BASELINE:
            text += f"; nearer than the last value in {self.n_better} of {self.n}"
        return text

    @property
    def record(self) -> dict[str, Any]:
        """The numbers by name, for `to_dict`."""
        return {
            "method": self.method, "horizon": self.horizon, "n": self.n, "median_error": self.median_error,
            "mean_error": self.mean_error, "beats_last_value": self.n_better, "held": self.n_covered,
            "evaluations": self.n_intervals,
        }  # fmt: skip


def score_table(scores: Sequence[HorizonScore], counted: str = "cutoffs") -> Table:
    """Return a table of scores, with what their number counts."""
    header = ("", "to", counted, "median error", "mean error", "beats last value", "interval held")
    rows = [
        [
            _name(s.method), f"{s.horizon:g}x", str(s.n), f"{s.median_error:.4f}", f"{s.mean_error:.4f}",
            "" if s.method == BASELINE or s.n_better is None else f"{s.n_better} of {s.n}",
            f"{s.n_covered} of {s.n_intervals}" if s.n_intervals else "",
        ]
        for s in scores
    ]  # fmt: skip
    return Table.of(header, rows)


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

    def errors(self, method: str, horizon: float) -> Array:
        """Return the errors of ``method`` at the cutoffs from which the run reaches ``horizon`` times the data."""
        errors = np.array([origin.error(horizon) for origin in self.forecasts_of(method)])
        return np.asarray(errors[np.isfinite(errors)])

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
        return text + score.how_it_held

    @property
    def main_method(self) -> str:
        """The method of the headline: ``combined``, ``averaged``, ``sigmoid``, or else the first."""
        return next(name for name in (COMBINED, AVERAGED, SIGMOID, *self.methods) if name in self.methods)

    @property
    def advice(self) -> str:
        """Which method was the most accurate at 2x on this run; empty with one method or one cutoff."""
        scores = [s for s in self.scores if s.horizon == HORIZONS[0] and s.n > 1]
        if len(scores) < 2:
            return ""
        best = min(scores, key=lambda s: s.mean_error)
        return f"nearest at 2x: {_name(best.method)}, {rough(best.mean_error)} off in the mean of {best.n} cutoffs"

    @property
    def direction(self) -> str:
        """On which side of the main method's forecasts the run came out, in a sentence."""
        method, horizon = self.main_method, HORIZONS[0]
        errors = self.errors(method, horizon)
        if not len(errors):
            return ""
        by = -float(errors.mean())
        if len(errors) == 1:
            n_above, n = self.forecasts_of(method)[0].above(horizon)
            what = f"{_of_all(n_above, n)} later evaluations lie above the forecast"
        else:
            n_above, n = int(np.sum(errors < 0.0)), len(errors)
            what = f"the run came out above {_of_all(n_above, n)} forecasts to {horizon:g}x"
        return f"{what}, on average {rough(abs(by))} {'higher' if by >= 0.0 else 'lower'}"

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
        columns = ("method", "cutoff", "compute", "actual", "forecast", "low", "high")
        return {
            "headline": self.headline, "direction": self.direction, "advice": self.advice,
            "run": self.trace.name, "cutoffs": self.cutoffs, "compute_unit": self.trace.compute_unit,
            "scores": [score.record for score in self.scores],
            "forecasts": [{name: getattr(origin, name) for name in columns} for origin in self.origins],
            "rng_seed": self.rng_seed,
        }  # fmt: skip

    def tables(self) -> list[Table]:
        """Return the table of the scores."""
        return [score_table(self.scores)]

    def footnotes(self) -> list[str]:
        """Return the lines below the table."""
        unit = unit_text(self.trace.compute_unit)
        where = f"fitted to {', '.join(number(c) for c in self.cutoffs)} {unit}"
        return [*filter(None, [self.direction, self.advice]), where]

    def __repr__(self) -> str:
        return f"Backtest({self.trace.name!r}, {len(self.cutoffs)} cutoffs, {', '.join(self.methods)})"


def _of_all(k: int, n: int) -> str:
    return f"all {n}" if k == n else f"none of {n}" if k == 0 else f"{k} of {n}"


def _name(method: str) -> str:
    return method.replace("-", " ")


@dataclass(frozen=True, eq=False, repr=False)
class FamilyBacktest(Document):
    """Forecasts of several runs from several cutoffs, compared with the evaluations observed.

    Attributes
    ----------
    backtests : tuple of Backtest
        One for each run that could be backtested.
    refused : dict of str to str
        Runs that could not be, with the reason.
    learned : bool
        Whether each run was forecast with a prior learned from the others.
    """

    backtests: tuple[Backtest, ...]
    refused: dict[str, str]
    learned: bool
    rng_seed: int

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in order."""
        return self.backtests[0].methods

    @cached_property
    def scores(self) -> tuple[HorizonScore, ...]:
        """One score for each method and horizon that a run reaches, over the cutoffs of all runs."""
        return tuple(score for horizon in HORIZONS for name in self.methods if (score := self.score(name, horizon)).n)

    def score(self, method: str, horizon: float) -> HorizonScore:
        """Return the accuracy of ``method`` at ``horizon`` times the data, over the cutoffs of all runs."""
        parts = [one.score(method, horizon) for one in self.backtests]
        errors = np.concatenate([one.errors(method, horizon) for one in self.backtests])
        return HorizonScore(
            parts[0].method, horizon, len(errors), *_middle_and_mean(np.abs(errors)),
            sum(part.n_better or 0 for part in parts) if BASELINE in self.methods else None,
            sum(part.n_covered for part in parts), sum(part.n_intervals for part in parts),
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """What to expect of a forecast of such a run, in a sentence."""
        method, runs = self.backtests[0].main_method, len(self.backtests)
        score = self.score(method, HORIZONS[0])
        if not score.n:
            return f"no cutoff of these {runs} runs leaves evaluations to twice its compute; run on"
        text = (
            f"on these {runs} runs forecasts to 2x ({_name(method)}) have been off by {rough(score.median_error)} "
            f"(median of {score.n})"
        )
        return text + score.how_it_held

    @property
    def direction(self) -> str:
        """On which side of the main method's forecasts the runs came out, in a sentence."""
        method = self.backtests[0].main_method
        errors = np.concatenate([one.errors(method, HORIZONS[0]) for one in self.backtests])
        if not len(errors):
            return ""
        by = -float(errors.mean())
        return (
            f"the runs came out above {int(np.sum(errors < 0.0))} of {len(errors)} forecasts to {HORIZONS[0]:g}x, on "
            f"average {rough(abs(by))} {'higher' if by >= 0.0 else 'lower'}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per run, method, cutoff and later evaluation."""
        import pandas as pd

        parts = [one.to_frame().assign(run=one.trace.name) for one in self.backtests]
        return pd.concat(parts, ignore_index=True)

    def tables(self) -> list[Table]:
        """Return the pooled scores, and one row per run."""
        return [score_table(self.scores, "cutoffs of all runs"), self._by_run()]

    def _by_run(self) -> Table:
        method, rows = self.backtests[0].main_method, []
        for one in self.backtests:
            score, errors = one.score(method, HORIZONS[0]), one.errors(method, HORIZONS[0])
            bias = f"{-errors.mean():+.4f}" if len(errors) else ""
            error = f"{score.median_error:.4f}" if score.n else ""
            held = f"{score.n_covered} of {score.n_intervals}" if score.n_intervals else ""
            rows.append([one.trace.name, str(score.n), error, bias, held])
        header = (f"{_name(method)}, to {HORIZONS[0]:g}x", "cutoffs", "median error", "run above", "interval held")
        return Table.of(header, rows)

    def footnotes(self) -> list[str]:
        """Return the direction, where the prior comes from, and the runs that were refused."""
        prior = ["each run was forecast with a prior learned from the others"] if self.learned else []
        return [
            *filter(None, [self.direction]),
            *prior,
            *(f"not backtested: {name}: {why}" for name, why in self.refused.items()),
        ]

    def _record(self) -> dict[str, Any]:
        return {
            "headline": self.headline, "direction": self.direction, "learned_prior": self.learned,
            "scores": [score.record for score in self.scores],
            "runs": [one.to_dict() for one in self.backtests], "refused": self.refused, "rng_seed": self.rng_seed,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"FamilyBacktest({len(self.backtests)} runs, {', '.join(self.methods)})"


def _middle_and_mean(errors: Array) -> tuple[float, float]:
    return (float(np.median(errors)), float(errors.mean())) if len(errors) else (math.nan, math.nan)
