"""One self-contained HTML file on several runs: verdicts first, then the comparison, every run, receipts, method."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.comparing.compare import Comparison, compare
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fitting.budgets import check_budgets
from rlscaling.fitting.fit import fit_trace, refit
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.forecasting.backtest import Backtest, backtest
from rlscaling.forecasting.extrapolate import extrapolate
from rlscaling.forecasting.plan import plan
from rlscaling.report.content import ReportContent, RunReport
from rlscaling.report.page import render
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.bootstrap import bootstrap
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import RngLike, entropy_of

DETAILED = 8  # runs with a picture, a backtest and a plan of their own; the rest have their row in the tables
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
            For a file that exists, unless ``overwrite``, and a folder.
        """
        target = Path(path)
        if target.is_dir() or not target.parent.is_dir():
            what = "is a folder" if target.is_dir() else "lies in a folder that does not exist"
            raise FitError(f"{target} {what}; name a file in a folder that exists")
        if target.exists() and not overwrite:
            raise FitError(f"{target} exists and is not written over; choose another name, or give overwrite=True")
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.html)
            Path(name).chmod(0o644)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return target

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.runs)} runs, {len(self.refused)} refused)"


def make_report(
    runs: Mapping[str, Trace | SigmoidFit],
    *,
    at: ArrayLike | None = None,
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
    """Fit, forecast, backtest, plan and compare runs, and put it all on one page.

    Parameters
    ----------
    runs : mapping of str to Trace or SigmoidFit
        By name. A fit is taken as it is.
    at : float or array-like, optional
        Budgets, the one that decides first. Default 100,000 GPU-hours; other units have no default, and without one
        the report holds neither forecasts nor a comparison.
    recipes : mapping of str to str, optional
        Recipe of each run: runs of one recipe are its seeds. Default: every run for itself.
    refused : mapping of str to str, optional
        Runs that could not be read, with the reason, to be listed.
    title : str
    margin, shared_R0, device_factors, n_resamples, confidence_level, seed_sd
        As in `compare`.
    rng : int, Generator, SeedSequence or None
        Same seed, same page.
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
    strangers = [name for name in recipes or {} if name not in runs]
    if strangers or not runs:
        raise FitError(
            f"recipes= names {strangers[0]!r}, which is none of the runs" if strangers else "no runs were given"
        )
    entropy, bad = entropy_of(rng), dict(refused or {})
    fits = _fits(runs, options, bad)
    if not fits:
        raise FitError("no run could be fitted: " + "; ".join(f"{name}: {error}" for name, error in bad.items()))
    units = sorted({fit.compute_unit for fit in fits.values()})
    if len(units) > 1:
        raise FitError(f"compute is in {' and '.join(units)}; make a report for each unit")
    first = next(iter(fits.values()))
    budgets = () if at is None and first.compute_unit != "gpu-hours" else tuple(check_budgets(first, at).tolist())
    draws = {"n_resamples": n_resamples, "confidence_level": confidence_level, "seed_sd": seed_sd, "rng": entropy}
    rules = {"margin": margin, "shared_R0": shared_R0, "device_factors": device_factors}
    comparison, why = _compare(fits, recipes or {}, budgets, draws | rules)
    order = _order(fits, recipes or {}, comparison)
    found = []
    for k, name in enumerate(order):
        found.append(_run(name, fits[name], runs[name], budgets, k < DETAILED, draws, options))
        if on_progress is not None:
            on_progress(k + 1, len(order))
    return Report(title, tuple(found), comparison, why, tuple(bad.items()), budgets, entropy)


def _fits(
    runs: Mapping[str, Trace | SigmoidFit], options: Mapping[str, Any], bad: dict[str, str]
) -> dict[str, SigmoidFit]:
    fits = {}
    for name, run in runs.items():
        try:
            if isinstance(run, SigmoidFit):
                fit = refit(run, **options) if options else run
            else:
                fit = fit_trace(run, **options)
            fits[name] = replace(fit, name=name)
        except RLScalingError as error:
            bad[name] = str(error)
    return fits


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
        return compare(groups, at=budgets, **settings), ""
    except RLScalingError as error:
        return None, str(error)


def _order(fits: Mapping[str, SigmoidFit], recipes: Mapping[str, str], comparison: Comparison | None) -> list[str]:
    """Return the runs, those of the likeliest best recipe first, those outside the comparison last."""
    if comparison is None:
        return list(fits)
    best, at = comparison.best, comparison.at[0]

    def place(name: str) -> tuple[float, float]:
        p = best.get(recipes.get(name, name), -1.0)
        if math.isnan(p) or p < 0.0:  # no curve; not compared
            return (1.0 if math.isnan(p) else 2.0, 0.0)
        return -p, -float(comparison.recipe(recipes.get(name, name)).predict(at))

    return sorted(fits, key=place)


def _run(
    name: str, fit: SigmoidFit, run: Trace | SigmoidFit, budgets: tuple[float, ...], detailed: bool,
    draws: Mapping[str, Any], options: Mapping[str, Any],
) -> RunReport:  # fmt: skip
    boot = forecast = None
    if fit.n_points >= MIN_POINTS_FOR_INTERVAL:
        boot = bootstrap(fit, **draws)
        forecast = extrapolate(fit, np.array(budgets), bootstrap=boot) if budgets else None
    seed = draws["rng"]
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
