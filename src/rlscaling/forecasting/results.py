"""The results `Forecast` and `Reach`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rlscaling.arrays import Array, Mask
from rlscaling.fitting.sigmoid_fit import SigmoidFit, headline
from rlscaling.fitting.verdict import Verdict
from rlscaling.printing.document import html_table, text_table
from rlscaling.printing.numbers import _level, interval, number, plus_minus, unit_text
from rlscaling.serialization import finite
from rlscaling.solver.intervals import _hull, half_width_68, order_interval, percentile_interval
from rlscaling.validation import check_level

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """The pass rate a run will reach, with intervals.

    Attributes
    ----------
    compute, pass_rate : arrays of shape (n,)
        Budgets and the fitted curve there.
    distribution, distribution_new_run : arrays of shape (n_resamples, n)
        The curve of each replicate there: for this run, and with the seed-to-seed spread of ``A`` added.
    supported : boolean array of shape (n,)
        False where the data cannot carry a number: beyond twice the data when the ceiling is not identified, and
        anywhere beyond the data when the run is flat, falling or a misfit. The interval stands either way.
    evaluations : array of shape (n_resamples, n)
        One evaluation at each budget: the draw with the noise of an evaluation.
    method : str
        ``sigmoid`` or ``auto``; with ``auto`` the pass rate is the median of the draws.
    """

    fit: SigmoidFit
    compute: Array
    pass_rate: Array
    distribution: Array
    distribution_new_run: Array
    supported: Mask
    confidence_level: float
    seed: int
    evaluations: Array
    notes: tuple[str, ...] = ()
    method: str = "sigmoid"

    @property
    def verdict(self) -> Verdict:
        """The verdict of the fit."""
        return self.fit.verdict

    @property
    def beyond(self) -> Array:
        """Compute over the last fitted compute."""
        return self.compute / self.fit.compute_range[1]

    @cached_property
    def confidence_interval(self) -> Array:
        """This-run interval at each budget, shape (n, 2)."""
        return percentile_interval(self.distribution, self.confidence_level)

    @cached_property
    def confidence_interval_new_run(self) -> Array:
        """Interval for a new run of this recipe at each budget, shape (n, 2)."""
        wider = percentile_interval(self.distribution_new_run, self.confidence_level)
        return _hull(self.confidence_interval, wider)

    @cached_property
    def prediction_interval(self) -> Array:
        """Interval of one evaluation of this run at each budget, shape (n, 2): where a point of the log will lie."""
        return percentile_interval(self.evaluations, self.confidence_level)

    def at_level(self, confidence_level: float) -> Self:
        """Return the same forecast at another confidence level, without resampling."""
        return replace(self, confidence_level=check_level(confidence_level))

    def to_frame(self) -> pd.DataFrame:
        """Return one row a budget: pass rate and both intervals."""
        import pandas as pd

        new = self.confidence_interval_new_run
        return pd.DataFrame(
            {
                "compute": self.compute,
                "beyond": self.beyond,
                "pass_rate": self.pass_rate,
                "ci_low": self.confidence_interval[:, 0],
                "ci_high": self.confidence_interval[:, 1],
                "ci_new_run_low": new[:, 0],
                "ci_new_run_high": new[:, 1],
                "prediction_low": self.prediction_interval[:, 0],
                "prediction_high": self.prediction_interval[:, 1],
                "supported": self.supported,
            }
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """Return one JSON-ready object a budget."""
        return [
            {
                "compute": finite(self.compute[i]),
                "pass_rate": finite(self.pass_rate[i]),
                "ci": [finite(v) for v in self.confidence_interval[i]],
                "ci_new_run": [finite(v) for v in self.confidence_interval_new_run[i]],
                "prediction": [finite(v) for v in self.prediction_interval[i]],
                "beyond": finite(self.beyond[i]),
                "supported": bool(self.supported[i]),
            }
            for i in range(len(self.compute))
        ]

    def __str__(self) -> str:
        return forecast_text(self)

    def __repr__(self) -> str:
        low, high = self.confidence_interval[-1]
        return f"Forecast({self.verdict}, {self.compute[-1]:g}: {self.pass_rate[-1]:.4g} [{low:.4g}, {high:.4g}])"

    def _repr_html_(self) -> str:
        return forecast_html(self)


@dataclass(frozen=True, eq=False, repr=False)
class Reach:
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
    def confidence_interval(self) -> tuple[float, float]:
        """This-run interval; inf where replicates never reach it."""
        return order_interval(self.draws, self.confidence_level)

    @property
    def probability(self) -> float:
        """Share of replicates that reach it at all."""
        return float(np.isfinite(self.draws).mean())

    def at_level(self, confidence_level: float) -> Self:
        """Return the same draws at another confidence level."""
        return replace(self, confidence_level=check_level(confidence_level))

    def __str__(self) -> str:
        return f"{self.verdict}: {reach_text(self)}"

    def __repr__(self) -> str:
        low, high = self.confidence_interval
        return f"Reach({self.verdict}, {self.pass_rate:g} at {self.compute:.4g} [{low:.4g}, {high:.4g}])"


def forecast_rows(forecast: Forecast) -> list[list[str]]:
    """Return one row a budget: compute, times the data, pass rate, this-run and new-run interval."""
    rows = []
    for i, compute in enumerate(forecast.compute):
        error = half_width_68(forecast.distribution[:, i])
        value = plus_minus(float(forecast.pass_rate[i]), error) if forecast.supported[i] else "not identified"
        low, high = forecast.confidence_interval[i]
        new_low, new_high = forecast.confidence_interval_new_run[i]
        rows.append(
            [
                number(float(compute)),
                f"{forecast.beyond[i]:.3g}x",
                value,
                interval(low, high),
                interval(new_low, new_high),
            ]
        )
    return rows


def forecast_text(forecast: Forecast) -> str:
    """Return the plain-text form of a forecast."""
    level = _level(forecast.confidence_level)
    header = [
        unit_text(forecast.fit.compute_unit),
        "of data",
        "pass rate",
        f"{level} this run",
        f"{level} new run",
    ]
    lines = [headline(forecast.fit), text_table(forecast_rows(forecast), header)]
    lines += [f"  note: {note}" for note in forecast.notes]
    return "\n".join(lines)


def forecast_html(forecast: Forecast) -> str:
    """Return the HTML form of a forecast, for notebooks."""
    level = _level(forecast.confidence_level)
    header = [
        unit_text(forecast.fit.compute_unit),
        "of data",
        "pass rate",
        f"{level} this run",
        f"{level} new run",
    ]
    return html_table(forecast_rows(forecast), header, headline(forecast.fit), forecast.notes)


def reach_text(reach: Reach) -> str:
    """Return one sentence on the compute to reach a pass rate."""
    low, high = reach.confidence_interval
    level, unit = _level(reach.confidence_level), unit_text(reach.fit.compute_unit)
    if reach.compute == float("inf"):
        return (
            f"pass rate {reach.pass_rate:g} is never reached by the curve (by {100 * reach.probability:.0f} % of the "
            f"draws; {level}: from {number(low)} {unit})"
        )
    return (
        f"pass rate {reach.pass_rate:g} at {number(reach.compute)} {unit} ({level}: {number(low)} to {number(high)}; "
        f"reached at all with probability {reach.probability:.2f})"
    )
