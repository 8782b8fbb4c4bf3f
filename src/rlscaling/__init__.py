"""Scaling-law fits and extrapolation of RL compute, with intervals that mean what they say.

``R_C = R0 + (A - R0) / (1 + (C_mid / C)**B)`` from "The Art of Scaling Reinforcement Learning Compute for LLMs",
fitted to held-out pass rate against GPU-hours.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlscaling.version import __version__


if TYPE_CHECKING:
    from rlscaling import datasets as datasets
    from rlscaling.allocation import Allocation as Allocation
    from rlscaling.allocation import allocate as allocate
    from rlscaling.backtesting import Backtest as Backtest
    from rlscaling.backtesting import backtest as backtest
    from rlscaling.batch import FitTable as FitTable
    from rlscaling.batch import fit_many as fit_many
    from rlscaling.bootstrapping import bootstrap as bootstrap
    from rlscaling.callbacks import trace_callback as trace_callback
    from rlscaling.comparison import Comparison as Comparison
    from rlscaling.comparison import compare as compare
    from rlscaling.datasets import simulate as simulate
    from rlscaling.errors import FitError as FitError
    from rlscaling.errors import RLScalingError as RLScalingError
    from rlscaling.errors import RLScalingWarning as RLScalingWarning
    from rlscaling.errors import TraceError as TraceError
    from rlscaling.errors import WorkersError as WorkersError
    from rlscaling.fit import fit_sigmoid as fit_sigmoid
    from rlscaling.fit import fit_trace as fit_trace
    from rlscaling.fit import refit as refit
    from rlscaling.forecast import compute_to_reach as compute_to_reach
    from rlscaling.forecast import cutoff_sensitivity as cutoff_sensitivity
    from rlscaling.forecast import extrapolate as extrapolate
    from rlscaling.forms import CurveFit as CurveFit
    from rlscaling.forms import PowerLawFit as PowerLawFit
    from rlscaling.forms import fit_curve as fit_curve
    from rlscaling.forms import fit_power_law as fit_power_law
    from rlscaling.intervals import Bootstrap as Bootstrap
    from rlscaling.intervals import Forecast as Forecast
    from rlscaling.intervals import Reach as Reach
    from rlscaling.leaveout import LeaveOneOut as LeaveOneOut
    from rlscaling.leaveout import leave_one_out as leave_one_out
    from rlscaling.models import ModelSelection as ModelSelection
    from rlscaling.models import select_model as select_model
    from rlscaling.monitoring import Alarm as Alarm
    from rlscaling.monitoring import MonitorReport as MonitorReport
    from rlscaling.monitoring import monitor as monitor
    from rlscaling.planning import Plan as Plan
    from rlscaling.planning import plan as plan
    from rlscaling.plot import plot_backtest as plot_backtest
    from rlscaling.plot import plot_comparison as plot_comparison
    from rlscaling.plot import plot_crossover as plot_crossover
    from rlscaling.plot import plot_fit as plot_fit
    from rlscaling.plot import plot_forecast as plot_forecast
    from rlscaling.plot import plot_loo as plot_loo
    from rlscaling.plot import plot_plan as plot_plan
    from rlscaling.plot import plot_runs as plot_runs
    from rlscaling.plot import plot_trace as plot_trace
    from rlscaling.priors import Prior as Prior
    from rlscaling.priors import learn_prior as learn_prior
    from rlscaling.readers import read_trace as read_trace
    from rlscaling.readers import read_traces as read_traces
    from rlscaling.readers import write_traces as write_traces
    from rlscaling.report import Report as Report
    from rlscaling.report import RunReport as RunReport
    from rlscaling.report import make_report as make_report
    from rlscaling.results import FailedFit as FailedFit
    from rlscaling.results import SigmoidFit as SigmoidFit
    from rlscaling.results import SigmoidParams as SigmoidParams
    from rlscaling.results import Verdict as Verdict
    from rlscaling.saved import load_fit as load_fit
    from rlscaling.saved import save_fit as save_fit
    from rlscaling.seeds import SeedSpread as SeedSpread
    from rlscaling.seeds import seed_spread as seed_spread
    from rlscaling.trace import Trace as Trace
    from rlscaling.trace import TraceWriter as TraceWriter
    from rlscaling.trace import write_trace as write_trace

_PUBLIC = {
    "allocation": ("Allocation", "allocate"),
    "backtesting": ("Backtest", "backtest"),
    "batch": ("FitTable", "fit_many"),
    "bootstrapping": ("bootstrap",),
    "callbacks": ("trace_callback",),
    "comparison": ("Comparison", "compare"),
    "datasets": ("simulate",),
    "errors": ("FitError", "RLScalingError", "RLScalingWarning", "TraceError", "WorkersError"),
    "fit": ("fit_sigmoid", "fit_trace", "refit"),
    "forecast": ("compute_to_reach", "cutoff_sensitivity", "extrapolate"),
    "forms": ("CurveFit", "PowerLawFit", "fit_curve", "fit_power_law"),
    "intervals": ("Bootstrap", "Forecast", "Reach"),
    "leaveout": ("LeaveOneOut", "leave_one_out"),
    "models": ("ModelSelection", "select_model"),
    "monitoring": ("Alarm", "MonitorReport", "monitor"),
    "planning": ("Plan", "plan"),
    "plot": (
        "plot_backtest",
        "plot_comparison",
        "plot_crossover",
        "plot_fit",
        "plot_forecast",
        "plot_loo",
        "plot_plan",
        "plot_runs",
        "plot_trace",
    ),
    "priors": ("Prior", "learn_prior"),
    "readers": ("read_trace", "read_traces", "write_traces"),
    "report": ("Report", "RunReport", "make_report"),
    "results": ("FailedFit", "SigmoidFit", "SigmoidParams", "Verdict"),
    "saved": ("load_fit", "save_fit"),
    "seeds": ("SeedSpread", "seed_spread"),
    "trace": ("Trace", "TraceWriter", "write_trace"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = ["__version__", "datasets", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    """Import a public name at first use, so that ``import rlscaling`` costs nothing."""
    if name == "datasets":
        return import_module("rlscaling.datasets")
    if name not in _HOME:
        raise AttributeError(f"module 'rlscaling' has no attribute {name!r}")
    value = getattr(import_module(f"rlscaling.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
