"""`make_report` and its result, `Report`: the analyses of several runs on one page."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.batch.analysis import AnalysisOptions, FailedAnalysis, analyse, fit_run
from rlscaling.batch.sources import RunSource
from rlscaling.comparing.compare import Comparison, compare
from rlscaling.errors import FitError, RLScalingError
from rlscaling.files import check_not_there, replace_file
from rlscaling.fitting.budgets import check_budgets
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.forecasting.backtest import backtest
from rlscaling.forecasting.backtest_results import Backtest
from rlscaling.forecasting.extrapolate import extrapolate
from rlscaling.forecasting.plan import plan
from rlscaling.report.content import ReportContent, RunReport
from rlscaling.report.page import render
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.bootstrap import bootstrap
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import RngLike, entropy_of, renamed

DETAILED = 8  # runs with a figure, a backtest and a plan; the others have only a row in the tables
BACKTEST_MODELS = ("sigmoid", "last-value")
Progress = Callable[[int, int], None]
T = TypeVar("T")


class Report(ReportContent):
    """A report on several runs, ready to be written; its attributes are those of `ReportContent`."""

    @cached_property
    def html(self) -> str:
        """The page: one self-contained document, the same for the same numbers."""
        return render(self)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the page, whole or not at all, and return its path.

        Raises
        ------
        FitError
            If the file exists and ``overwrite`` is false, or ``path`` is a folder or lies in none.
        """
        target = Path(path)
        if target.is_dir() or not target.parent.is_dir():
            what = "is a folder" if target.is_dir() else "lies in a folder that does not exist"
            raise FitError(f"{target} {what}; name a file in a folder that exists")
        check_not_there(target, overwrite, error=FitError)
        replace_file(target, self.html.encode(), error=FitError)
        return target

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.runs)} runs, {len(self.refused)} refused)"


@renamed(at="compute")
def make_report(
    runs: Mapping[str, Trace | SigmoidFit],
    *,
    compute: ArrayLike | None = None,
    recipes: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
    title: str = "RL compute scaling",
    margin: float = 0.02,
    shared_R0: bool = True,
    device_factors: Mapping[str, float] | None = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed_sd: float = SEED_SD,
    rng: RngLike = None,
    on_progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Fit, forecast, backtest, plan and compare runs, and report the results on one page.

    Parameters
    ----------
    runs : mapping of str to Trace or SigmoidFit
        By name. A fit is taken as it is.
    compute : float or array-like, optional
        Budgets; the first decides. Default 100,000 GPU-hours; other units have no default, and without a budget the
        report holds neither forecasts nor a comparison.
    recipes : mapping of str to str, optional
        Recipe of each run: runs of one recipe differ by their seed only. Default: every run is a recipe.
    refused : mapping of str to str, optional
        Runs that could not be read, with the error, to be listed.
    title : str
    margin, shared_R0, device_factors, n_resamples, confidence_level, seed_sd
        As in `compare`.
    rng : int, Generator, SeedSequence or None
        The same seed gives the same page.
    on_progress : callable, optional
        Called with (runs done, runs in all).
    **options
        Options of `fit_sigmoid`.

    Returns
    -------
    Report

    Raises
    ------
    FitError
        When no run can be fitted, or for runs in different units.

    Examples
    --------
    >>> from rlscaling import datasets, make_report
    >>> report = make_report({"scalerl": datasets.load_demo()["scalerl"]}, rng=0)
    >>> "identified" in report.html
    True
    """
    if not isinstance(runs, Mapping) or not all(isinstance(name, str) for name in runs):
        raise FitError("make_report takes runs by name: {'a': trace_a, 'b': trace_b}")
    if "weights" in options:
        raise FitError("weights= is an option of one fit; give make_report the fits of weighted runs")
    unknown = [name for name in recipes or {} if name not in runs]
    if unknown or not runs:
        raise FitError(f"recipes= names {unknown[0]!r}, which is none of the runs" if unknown else "no runs were given")
    entropy, failed = entropy_of(rng), dict(refused or {})
    results = analyse([RunSource(*run) for run in runs.items()], AnalysisOptions(options=options), work=fit_run)
    fits = {fit.name: fit for fit in results if isinstance(fit, SigmoidFit)}
    failed |= {result.name: result.error for result in results if isinstance(result, FailedAnalysis)}
    if not fits:
        raise FitError("no run could be fitted: " + "; ".join(f"{name}: {error}" for name, error in failed.items()))
    units = sorted({fit.compute_unit for fit in fits.values()})
    if len(units) > 1:
        raise FitError(f"compute is in {' and '.join(units)}; make a report for each unit")
    first = next(iter(fits.values()))
    budgets: tuple[float, ...] = ()
    if compute is not None or first.compute_unit == "gpu-hours":
        budgets = tuple(check_budgets(first, compute, option="compute= (--compute)").tolist())
    settings = {"n_resamples": n_resamples, "confidence_level": confidence_level, "seed_sd": seed_sd, "rng": entropy}
    rules = {"margin": margin, "shared_R0": shared_R0, "device_factors": device_factors}
    comparison, why = _compare(fits, recipes or {}, budgets, settings | rules)
    order = _order(fits, recipes or {}, comparison)
    reports = []
    for k, name in enumerate(order):
        reports.append(_run(name, fits[name], runs[name], budgets, k < DETAILED, settings, options))
        if on_progress is not None:
            on_progress(k + 1, len(order))
    return Report(title, tuple(reports), comparison, why, tuple(failed.items()), budgets, entropy)


def _compare(
    fits: Mapping[str, SigmoidFit], recipes: Mapping[str, str], budgets: tuple[float, ...], settings: dict[str, Any]
) -> tuple[Comparison | None, str]:
    """Return the comparison of the runs that have intervals, or why there is none."""
    groups: dict[str, list[SigmoidFit]] = {}
    for name, fit in fits.items():
        if fit.n_points >= MIN_POINTS_FOR_INTERVAL:
            groups.setdefault(recipes.get(name, name), []).append(fit)
    if len(fits) < 2:
        return None, ""
    if len(groups) < 2:
        return (
            None,
            f"{len(groups)} recipe with the {MIN_POINTS_FOR_INTERVAL} points an interval needs; two are compared",
        )
    if not budgets:
        return None, "compute is not in GPU-hours and no budget was given"
    try:
        return compare(groups, compute=budgets, **settings), ""
    except RLScalingError as error:
        return None, str(error)


def _order(fits: Mapping[str, SigmoidFit], recipes: Mapping[str, str], comparison: Comparison | None) -> list[str]:
    """Return the runs, those of the most likely best recipe first, those outside the comparison last."""
    if comparison is None:
        return list(fits)
    best, budget = comparison.best, comparison.compute[0]

    def place(name: str) -> tuple[float, float]:
        p = best.get(recipes.get(name, name), -1.0)
        if math.isnan(p) or p < 0.0:  # without a rising sigmoid; not compared
            return (1.0 if math.isnan(p) else 2.0, 0.0)
        return -p, -float(comparison.recipe(recipes.get(name, name)).predict(budget))

    return sorted(fits, key=place)


def _run(
    name: str, fit: SigmoidFit, run: Trace | SigmoidFit, budgets: tuple[float, ...], detailed: bool,
    settings: Mapping[str, Any], options: Mapping[str, Any],
) -> RunReport:  # fmt: skip
    boot = forecast = None
    if fit.n_points >= MIN_POINTS_FOR_INTERVAL:
        boot = bootstrap(fit, **settings)
        forecast = extrapolate(fit, np.array(budgets), bootstrap=boot) if budgets else None
    seed = settings["rng"]
    return RunReport(
        name, fit, boot, forecast,
        _or_why(lambda: _backtest(run, seed, options)) if detailed else None,
        _or_why(lambda: plan(fit, rng=seed)) if detailed else None,
        fit.metadata.get("receipt") or {}, detailed,
    )  # fmt: skip


def _backtest(run: Trace | SigmoidFit, seed: int, options: Mapping[str, Any]) -> Backtest:
    if isinstance(run, SigmoidFit):
        raise FitError("a saved fit holds no trace")
    return backtest(run, methods=BACKTEST_MODELS, rng=seed, **options)


def _or_why(work: Callable[[], T]) -> T | str:
    try:
        return work()
    except RLScalingError as error:
        return str(error)
