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
    from rlscaling.batch.fit_many import fit_many as fit_many
    from rlscaling.batch.fit_table import FitTable as FitTable
    from rlscaling.comparing.common_ceiling import CommonCeiling as CommonCeiling
    from rlscaling.comparing.compare import Comparison as Comparison
    from rlscaling.comparing.compare import compare as compare
    from rlscaling.comparing.compare import decompose as decompose
    from rlscaling.comparing.crossover import Crossover as Crossover
    from rlscaling.comparing.crossover import Multiplier as Multiplier
    from rlscaling.comparing.decomposition import Decomposition as Decomposition
    from rlscaling.comparing.leave_one_out import LeaveOneOut as LeaveOneOut
    from rlscaling.comparing.leave_one_out import leave_one_out as leave_one_out
    from rlscaling.comparing.pairwise import PairVerdict as PairVerdict
    from rlscaling.comparing.two_recipes import PairComparison as PairComparison
    from rlscaling.curves.sigmoid import SigmoidParams as SigmoidParams
    from rlscaling.datasets import simulate as simulate
    from rlscaling.errors import FitError as FitError
    from rlscaling.errors import RLScalingError as RLScalingError
    from rlscaling.errors import RLScalingWarning as RLScalingWarning
    from rlscaling.errors import TraceError as TraceError
    from rlscaling.errors import WorkersError as WorkersError
    from rlscaling.fitting.curve_fit import CurveFit as CurveFit
    from rlscaling.fitting.curve_fit import PowerLawFit as PowerLawFit
    from rlscaling.fitting.curve_fit import fit_curve as fit_curve
    from rlscaling.fitting.curve_fit import fit_power_law as fit_power_law
    from rlscaling.fitting.fit import fit_sigmoid as fit_sigmoid
    from rlscaling.fitting.fit import fit_trace as fit_trace
    from rlscaling.fitting.fit import refit as refit
    from rlscaling.fitting.lmfit_model import SigmoidModel as SigmoidModel
    from rlscaling.fitting.model_selection import ModelSelection as ModelSelection
    from rlscaling.fitting.model_selection import select_model as select_model
    from rlscaling.fitting.options import FitOptions as FitOptions
    from rlscaling.fitting.saved import load_fit as load_fit
    from rlscaling.fitting.saved import save_fit as save_fit
    from rlscaling.fitting.sigmoid_fit import FailedFit as FailedFit
    from rlscaling.fitting.sigmoid_fit import SigmoidFit as SigmoidFit
    from rlscaling.fitting.verdict import ComputeNeeded as ComputeNeeded
    from rlscaling.fitting.verdict import Verdict as Verdict
    from rlscaling.forecasting.allocate import Allocation as Allocation
    from rlscaling.forecasting.allocate import allocate as allocate
    from rlscaling.forecasting.backtest import backtest as backtest
    from rlscaling.forecasting.backtest_results import Backtest as Backtest
    from rlscaling.forecasting.backtest_results import FamilyBacktest as FamilyBacktest
    from rlscaling.forecasting.cutoffs import CutoffSensitivity as CutoffSensitivity
    from rlscaling.forecasting.cutoffs import cutoff_sensitivity as cutoff_sensitivity
    from rlscaling.forecasting.extrapolate import compute_to_reach as compute_to_reach
    from rlscaling.forecasting.extrapolate import extrapolate as extrapolate
    from rlscaling.forecasting.gain import Gain as Gain
    from rlscaling.forecasting.gain import expected_gain as expected_gain
    from rlscaling.forecasting.monitor import Alarm as Alarm
    from rlscaling.forecasting.monitor import MonitorReport as MonitorReport
    from rlscaling.forecasting.monitor import monitor as monitor
    from rlscaling.forecasting.plan import Plan as Plan
    from rlscaling.forecasting.plan import plan as plan
    from rlscaling.forecasting.results import Forecast as Forecast
    from rlscaling.forecasting.results import PastForecast as PastForecast
    from rlscaling.forecasting.results import Reach as Reach
    from rlscaling.plotting.comparisons import plot_comparison as plot_comparison
    from rlscaling.plotting.comparisons import plot_crossover as plot_crossover
    from rlscaling.plotting.comparisons import plot_loo as plot_loo
    from rlscaling.plotting.plans import plot_backtest as plot_backtest
    from rlscaling.plotting.plans import plot_plan as plot_plan
    from rlscaling.plotting.runs import plot_fit as plot_fit
    from rlscaling.plotting.runs import plot_forecast as plot_forecast
    from rlscaling.plotting.runs import plot_runs as plot_runs
    from rlscaling.plotting.runs import plot_trace as plot_trace
    from rlscaling.readers.options import ReadOptions as ReadOptions
    from rlscaling.readers.read import read_trace as read_trace
    from rlscaling.readers.read import read_traces as read_traces
    from rlscaling.report.content import RunReport as RunReport
    from rlscaling.report.make import Report as Report
    from rlscaling.report.make import make_report as make_report
    from rlscaling.traces.prompt_counts import PromptCounts as PromptCounts
    from rlscaling.traces.prompt_counts import read_counts as read_counts
    from rlscaling.traces.trace import Trace as Trace
    from rlscaling.traces.trace_files import write_trace as write_trace
    from rlscaling.traces.trace_files import write_traces as write_traces
    from rlscaling.traces.trainer_callback import trace_callback as trace_callback
    from rlscaling.traces.writer import TraceWriter as TraceWriter
    from rlscaling.uncertainty.bootstrap import Bootstrap as Bootstrap
    from rlscaling.uncertainty.bootstrap import bootstrap as bootstrap
    from rlscaling.uncertainty.pass_at_k import PairedDifference as PairedDifference
    from rlscaling.uncertainty.pass_at_k import PassAtK as PassAtK
    from rlscaling.uncertainty.pass_at_k import first_k_no_better as first_k_no_better
    from rlscaling.uncertainty.pass_at_k import paired_difference as paired_difference
    from rlscaling.uncertainty.pass_at_k import pass_at_k as pass_at_k
    from rlscaling.uncertainty.prior import Prior as Prior
    from rlscaling.uncertainty.prior import learn_prior as learn_prior
    from rlscaling.uncertainty.seed_spread import SeedSpread as SeedSpread
    from rlscaling.uncertainty.seed_spread import seed_spread as seed_spread

_PUBLIC = {
    "batch.fit_many": ("fit_many",),
    "batch.fit_table": ("FitTable",),
    "comparing.common_ceiling": ("CommonCeiling",),
    "comparing.compare": ("Comparison", "compare", "decompose"),
    "comparing.crossover": ("Crossover", "Multiplier"),
    "comparing.decomposition": ("Decomposition",),
    "comparing.leave_one_out": ("LeaveOneOut", "leave_one_out"),
    "comparing.pairwise": ("PairVerdict",),
    "comparing.two_recipes": ("PairComparison",),
    "curves.sigmoid": ("SigmoidParams",),
    "datasets": ("simulate",),
    "errors": ("FitError", "RLScalingError", "RLScalingWarning", "TraceError", "WorkersError"),
    "fitting.curve_fit": ("CurveFit", "PowerLawFit", "fit_curve", "fit_power_law"),
    "fitting.fit": ("fit_sigmoid", "fit_trace", "refit"),
    "fitting.lmfit_model": ("SigmoidModel",),
    "fitting.model_selection": ("ModelSelection", "select_model"),
    "fitting.options": ("FitOptions",),
    "fitting.saved": ("load_fit", "save_fit"),
    "fitting.sigmoid_fit": ("FailedFit", "SigmoidFit"),
    "fitting.verdict": ("ComputeNeeded", "Verdict"),
    "forecasting.allocate": ("Allocation", "allocate"),
    "forecasting.backtest": ("backtest",),
    "forecasting.backtest_results": ("Backtest", "FamilyBacktest"),
    "forecasting.cutoffs": ("CutoffSensitivity", "cutoff_sensitivity"),
    "forecasting.extrapolate": ("compute_to_reach", "extrapolate"),
    "forecasting.gain": ("Gain", "expected_gain"),
    "forecasting.monitor": ("Alarm", "MonitorReport", "monitor"),
    "forecasting.plan": ("Plan", "plan"),
    "forecasting.results": ("Forecast", "PastForecast", "Reach"),
    "plotting.comparisons": ("plot_comparison", "plot_crossover", "plot_loo"),
    "plotting.plans": ("plot_backtest", "plot_plan"),
    "plotting.runs": ("plot_fit", "plot_forecast", "plot_runs", "plot_trace"),
    "readers.options": ("ReadOptions",),
    "readers.read": ("read_trace", "read_traces"),
    "report.content": ("RunReport",),
    "report.make": ("Report", "make_report"),
    "traces.prompt_counts": ("PromptCounts", "read_counts"),
    "traces.trace": ("Trace",),
    "traces.trace_files": ("write_trace", "write_traces"),
    "traces.trainer_callback": ("trace_callback",),
    "traces.writer": ("TraceWriter",),
    "uncertainty.bootstrap": ("Bootstrap", "bootstrap"),
    "uncertainty.pass_at_k": ("PairedDifference", "PassAtK", "first_k_no_better", "paired_difference", "pass_at_k"),
    "uncertainty.prior": ("Prior", "learn_prior"),
    "uncertainty.seed_spread": ("SeedSpread", "seed_spread"),
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
