"""`RunReport` and `ReportContent`: what a report says, without HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlscaling.comparing.compare import Comparison
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.forecasting.backtest import Backtest
from rlscaling.forecasting.plan import Plan
from rlscaling.forecasting.results import Forecast
from rlscaling.uncertainty.bootstrap import Bootstrap


@dataclass(frozen=True, eq=False)
class RunReport:
    """What the report says of one run.

    Attributes
    ----------
    bootstrap, forecast : optional
        None with fewer than 7 points; no forecast either where no budget was given and compute is not in GPU-hours.
    backtest, plan : Backtest, Plan or str, optional
        Or why there is none; None for runs beyond the first eight.
    receipt : dict
        What the reader took, assumed and left out; empty where the trace has none.
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
    """What a report on several runs says.

    Attributes
    ----------
    title : str
    runs : tuple of RunReport
        The likeliest best first where they were compared.
    comparison : Comparison or None
    not_compared : str
        Why there is no comparison; empty where there is one, and with a single run.
    refused : tuple of (str, str)
        Runs that could not be fitted, with the reason.
    """

    title: str
    runs: tuple[RunReport, ...]
    comparison: Comparison | None
    not_compared: str
    refused: tuple[tuple[str, str], ...]
    at: tuple[float, ...]
    seed: int
