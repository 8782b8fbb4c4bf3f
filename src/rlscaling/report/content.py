"""`RunReport` and `ReportContent`: the results in a report, without HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlscaling.comparing.compare import Comparison
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.forecasting.backtest_results import Backtest
from rlscaling.forecasting.plan import Plan
from rlscaling.forecasting.results import Forecast
from rlscaling.uncertainty.bootstrap import Bootstrap


@dataclass(frozen=True, eq=False)
class RunReport:
    """The results for one run.

    Attributes
    ----------
    bootstrap, forecast : optional
        None with fewer than 7 points; no forecast either without a budget, if compute is not in GPU-hours.
    backtest, plan : Backtest, Plan or str, optional
        A string says why there is none; None for runs beyond the first eight.
    receipt : dict
        What the reader used, assumed and left out; empty if the trace has none.
    detailed : bool
        Whether the run has a section of its own.
    """

    name: str
    fit: SigmoidFit
    bootstrap: Bootstrap | None
    forecast: Forecast | None
    backtest: Backtest | str | None
    plan: Plan | str | None
    receipt: Mapping[str, Any]
    detailed: bool


@dataclass(frozen=True, eq=False, repr=False)
class ReportContent:
    """The results in a report on several runs.

    Attributes
    ----------
    title : str
    runs : tuple of RunReport
        The most likely best first if they were compared.
    comparison : Comparison or None
    not_compared : str
        Why there is no comparison; empty if there is one, and for a single run.
    refused : tuple of (str, str)
        Runs that could not be read or fitted, with the error.
    compute : tuple of float
        Budgets.
    seed : int
    """

    title: str
    runs: tuple[RunReport, ...]
    comparison: Comparison | None
    not_compared: str
    refused: tuple[tuple[str, str], ...]
    compute: tuple[float, ...]
    seed: int

    @property
    def at(self) -> tuple[float, ...]:
        """The same as `compute`, under its old name until 1.0."""
        return self.compute
