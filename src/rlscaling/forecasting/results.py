"""`Forecast` and `Reach`: the results of `extrapolate` and `compute_to_reach`, their text and their dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rlscaling.arrays import Array, Mask
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import interval, number, percent, plus_minus, rough, unit_text
from rlscaling.solver.intervals import (
    ConfidenceInterval,
    containing,
    half_width_68,
    interval_of,
    order_interval,
    percentile_interval,
    union,
)
from rlscaling.validation import check_level, with_count_note

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PastForecast:
    """How a method would have forecast the end of this run from its first half.

    Attributes
    ----------
    cutoff, compute : float
        The compute that it would have seen, and that of the last evaluation.
    forecast, actual, last_value : float
        Of the mean of the evaluations in the last fifth: the forecast, what it came to, and what a forecast that the
        run stays where it is would have said.
    """

    cutoff: float
    compute: float
    forecast: float
    actual: float
    last_value: float

    @property
    def error(self) -> float:
        """The forecast minus what the run came to."""
        return self.forecast - self.actual

    @property
    def sentence(self) -> str:
        """How far off the forecast was, beside the last value."""
        return (
            f"from its first {number(self.cutoff)} this forecast of the run's end ({number(self.compute)}) is off by "
            f"{_signed(self.error)}, the last value by {_signed(self.last_value - self.actual)}"
        )


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{number(value, 2)}"


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Document):
    """The pass rate a run will reach, with intervals.

    Attributes
    ----------
    compute, pass_rate : arrays of shape (n,)
        Budgets and the forecast there.
    distribution, distribution_new_run : arrays of shape (n_resamples, n)
        The curve of each replicate there: for this run, and with the seed-to-seed spread of ``A`` added.
    supported : boolean array of shape (n,)
        False where the data do not support a number: beyond twice the data when the ceiling is not identified, and
        anywhere beyond the data when the run is flat, falling or a misfit. The interval is given either way.
    evaluations : array of shape (n_resamples, n)
        One evaluation at each budget: the draw with the noise of an evaluation, of a weighted fit with that of the
        weight given or of the last evaluations.
    method : str
        ``combined``, ``sigmoid`` or ``averaged``; with ``averaged`` the pass rate is the median of the draws.
    rng_seed : int
        Seed of the draws.
    members : dict of str to array of shape (n,)
        What each of the forecasts says that this one is made of.
    past : PastForecast or None
        How the method did on this run's own past; None where its first half cannot be fitted.
    """

    fit: SigmoidFit
    compute: Array
    pass_rate: Array
    distribution: Array
    distribution_new_run: Array
    supported: Mask
    confidence_level: float
    rng_seed: int
    evaluations: Array
    notes: tuple[str, ...] = ()
    method: str = "sigmoid"
    members: Mapping[str, Array] = field(default_factory=dict)
    past: PastForecast | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the fit."""
        return self.fit.verdict

    @property
    def beyond(self) -> Array:
        """Compute over the last fitted compute."""
        return self.compute / self.fit.compute_range[1]

    @cached_property
    def confidence_interval(self) -> ConfidenceInterval[Array]:
        """This-run interval at each budget: arrays of shape (n,)."""
        ends = percentile_interval(self.distribution, self.confidence_level)
        return interval_of(containing(ends, self.pass_rate))

    @cached_property
    def confidence_interval_new_run(self) -> ConfidenceInterval[Array]:
        """Interval for a new run of this recipe at each budget: arrays of shape (n,)."""
        this_run, new_run = (
            percentile_interval(draws, self.confidence_level)
            for draws in (self.distribution, self.distribution_new_run)
        )
        return interval_of(union(containing(this_run, self.pass_rate), new_run))

    @cached_property
    def prediction_interval(self) -> ConfidenceInterval[Array]:
        """Interval of one evaluation of this run at each budget: arrays of shape (n,).

        For a weighted fit it is that of the ``weight`` given to `extrapolate`.
        """
        return interval_of(percentile_interval(self.evaluations, self.confidence_level))

    def at_level(self, confidence_level: float) -> Self:
        """Return the same forecast at another confidence level, without resampling."""
        notes = with_count_note(self.notes, len(self.distribution), check_level(confidence_level))
        return replace(self, confidence_level=float(confidence_level), notes=notes)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per budget: pass rate and intervals."""
        import pandas as pd

        this, new, one = self.confidence_interval, self.confidence_interval_new_run, self.prediction_interval
        return pd.DataFrame(
            {
                "compute": self.compute,
                "beyond": self.beyond,
                "pass_rate": self.pass_rate,
                "ci_low": this.low,
                "ci_high": this.high,
                "ci_new_run_low": new.low,
                "ci_new_run_high": new.high,
                "prediction_low": one.low,
                "prediction_high": one.high,
                "supported": self.supported,
            }
        )

    def to_dict(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Return one JSON-ready object per budget."""
        return list(super().to_dict()["budgets"])

    def _record(self) -> dict[str, Any]:
        rows = [
            {
                "compute": self.compute[i],
                "pass_rate": self.pass_rate[i],
                "ci": self.confidence_interval.at(i),
                "ci_new_run": self.confidence_interval_new_run.at(i),
                "prediction": self.prediction_interval.at(i),
                "beyond": self.beyond[i],
                "supported": self.supported[i],
            }
            for i in range(len(self.compute))
        ]
        return {"budgets": rows}

    @property
    def headline(self) -> str:
        """The verdict of the fit, the run and the reason."""
        return self.fit.headline

    def tables(self) -> Sequence[Table]:
        """Return the table of the budgets."""
        level, unit = percent(self.confidence_level), unit_text(self.fit.compute_unit)
        header = (unit, "of data", "pass rate", f"{level} this run", f"{level} new run")
        return [Table.of(header, _budget_rows(self))]

    def footnotes(self) -> Sequence[str]:
        """Return how the method did on this run's past, and the notes."""
        past = [] if self.past is None else [self.past.sentence]
        return [*past, *(f"note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        low, high = self.confidence_interval.at(-1)
        return f"Forecast({self.verdict}, {self.compute[-1]:g}: {self.pass_rate[-1]:.4g} [{low:.4g}, {high:.4g}])"


@dataclass(frozen=True, eq=False, repr=False)
class Reach(Document):
    """The compute at which a run reaches a pass rate.

    Attributes
    ----------
    pass_rate : float
        The target.
    compute : float
        Where the fitted curve reaches it: inf when the target is A or above.
    draws : array of shape (n_resamples,)
        The same of each replicate.
    """

    fit: SigmoidFit
    pass_rate: float
    compute: float
    draws: Array
    confidence_level: float

    @property
    def verdict(self) -> Verdict:
        """The verdict of the fit."""
        return self.fit.verdict

    @cached_property
    def confidence_interval(self) -> ConfidenceInterval[float]:
        """This-run interval; inf where replicates never reach it."""
        return order_interval(self.draws, self.confidence_level)

    @property
    def probability(self) -> float:
        """Share of replicates that reach it at all."""
        return float(np.isfinite(self.draws).mean())

    def at_level(self, confidence_level: float) -> Self:
        """Return the same draws at another confidence level."""
        return replace(self, confidence_level=check_level(confidence_level))

    @property
    def headline(self) -> str:
        """The verdict of the fit, and the compute to reach the pass rate."""
        return f"{self.verdict}: {self.sentence}"

    @property
    def sentence(self) -> str:
        """The compute to reach the pass rate, without the verdict."""
        low, high = self.confidence_interval
        level, unit = percent(self.confidence_level), unit_text(self.fit.compute_unit)
        if self.compute == float("inf"):
            return (
                f"pass rate {self.pass_rate:g} is never reached by the curve (by {100 * self.probability:.0f} % of the "
                f"draws; {level}: from {number(low)} {unit})"
            )
        return (
            f"pass rate {self.pass_rate:g} at {number(self.compute)} {unit} ({level}: {number(low)} to {number(high)}; "
            f"reached at all with probability {self.probability:.2f})"
        )

    def _record(self) -> dict[str, Any]:
        return {
            "pass_rate": self.pass_rate,
            "compute": self.compute,
            "ci": self.confidence_interval,
            "probability": self.probability,
        }

    def __repr__(self) -> str:
        low, high = self.confidence_interval
        return f"Reach({self.verdict}, {self.pass_rate:g} at {self.compute:.4g} [{low:.4g}, {high:.4g}])"


def _budget_rows(forecast: Forecast) -> list[list[str]]:
    """Return one row per budget: compute, times the data, pass rate, this-run and new-run interval."""
    rows = []
    for i, compute in enumerate(forecast.compute):
        error = half_width_68(forecast.distribution[:, i])
        value = plus_minus(float(forecast.pass_rate[i]), error) if forecast.supported[i] else "not identified"
        this, new = forecast.confidence_interval.at(i), forecast.confidence_interval_new_run.at(i)
        beyond = f"{rough(float(forecast.beyond[i]), 3)}x"
        rows.append([number(float(compute)), beyond, value, interval(*this), interval(*new)])
    return rows
