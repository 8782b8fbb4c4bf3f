"""``rlscaling compare`` and ``rlscaling loo``: fit every run, group them into recipes, compare, print, draw."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION, AnalysisOptions, FailedAnalysis, Progress, analyse, fit_run
from rlscaling.batch.sources import RunSource
from rlscaling.cli import output
from rlscaling.cli.commands import REFUSED, check_plot
from rlscaling.cli.inputs import UsageError, find_runs, fit_options
from rlscaling.cli.pictures import save_wide
from rlscaling.comparing.compare import Comparison, compare
from rlscaling.comparing.leave_one_out import LeaveOneOut, leave_one_out
from rlscaling.errors import FitError, RLScalingWarning
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.plotting.comparisons import plot_comparison, plot_loo
from rlscaling.version import __version__

Recipes = dict[str, list[SigmoidFit]]


def compare_runs(args: argparse.Namespace) -> int:
    """Answer ``rlscaling compare`` and return the exit code."""

    def work(recipes: Recipes, shared: dict[str, Any]) -> Comparison:
        return compare(recipes, compute=args.budgets, **shared)

    found, refused = _run(args, work)
    _write(args, found.to_dict(), refused, lambda printer: print_comparison(printer, found))
    if args.plot is not None:
        save_wide(Path(args.plot), lambda ax: plot_comparison(found, ax))
    return REFUSED if refused else 0


def leave_one_out_runs(args: argparse.Namespace) -> int:
    """Answer ``rlscaling loo`` and return the exit code."""

    def work(recipes: Recipes, shared: dict[str, Any]) -> LeaveOneOut:
        return leave_one_out(recipes, reference=args.reference, **shared)

    found, refused = _run(args, work)
    _write(args, found.to_dict(), refused, lambda printer: print_leave_one_out(printer, found))
    if args.plot is not None:
        save_wide(Path(args.plot), lambda ax: plot_loo(found, ax))
    return REFUSED if refused else 0


def _run(args: argparse.Namespace, work: Any) -> tuple[Any, list[FailedAnalysis]]:
    """Fit the runs and do the work; a run that is refused leaves the others to be compared."""
    options = fit_options(args)
    check_plot(args.plot, args.overwrite)
    runs = find_runs(args)
    shared = comparison_options(args)
    with output.progress(len(runs), args.resamples) as bar:
        analysis = AnalysisOptions(options=options, compute_unit=args.compute_unit)
        results = analyse(runs, analysis, work=_fit, on_progress=bar.reached)
        fits = {fit.name: fit for fit in results if isinstance(fit, SigmoidFit)}
        refused = [failed for failed in results if isinstance(failed, FailedAnalysis)]
        for one in refused:
            print(f"rlscaling: error: {one.name}: {one.error}", file=sys.stderr)
        if len(fits) < 2 and refused:
            raise FitError(f"{len(fits)} of {len(runs)} runs could be fitted; a comparison needs two")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RLScalingWarning)  # they stand among the notes
            return work(group(fits, args.by), shared | {"on_progress": bar.replicates("comparing")}), refused


def comparison_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return how recipes are to be compared, as `compare` takes it."""
    return {
        "margin": args.margin,
        "shared_R0": not args.own_R0,
        "rng": args.seed,
        "n_resamples": args.resamples,
        "confidence_level": args.confidence_level,
        "seed_sd": args.seed_sd,
        "device_factors": dict(args.device_factor) if args.device_factor else None,
    }


def _fit(run: RunSource, options: AnalysisOptions, on_progress: Progress | None) -> SigmoidFit:
    fit = fit_run(run, options)
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        raise FitError(
            f"{fit.n_points} fitted points are too few for an interval ({MIN_POINTS_FOR_INTERVAL} needed); evaluate "
            "more often, run on, or lower --min-compute"
        )
    return fit


def group(fits: dict[str, SigmoidFit], by: str) -> Recipes:
    """Return the fits of each recipe."""
    names = recipe_names({name: fit.metadata for name, fit in fits.items()}, by)
    recipes: Recipes = {}
    for name, fit in fits.items():
        recipes.setdefault(names[name], []).append(fit)
    return recipes


def recipe_names(headers: Mapping[str, Mapping[str, Any]], by: str) -> dict[str, str]:
    """Return the recipe of each run: its own, or that which its header names.

    Raises
    ------
    UsageError
        When two runs name the same recipe and the same seed: they would count as two seeds.
    """
    if by == "run":
        return {name: name for name in headers}
    recipes: dict[str, str] = {}
    seeds: dict[tuple[str, str], str] = {}
    for name, header in headers.items():
        recipe, seed = str(header.get("recipe") or name), header.get("seed")
        if seed is not None and (recipe, str(seed)) in seeds:
            raise UsageError(
                f"{seeds[recipe, str(seed)]} and {name} both say recipe {recipe!r}, seed {seed}: leave one of them "
                "out, or take every run as a recipe with --by run"
            )
        seeds[recipe, str(seed)] = name
        recipes[name] = recipe
    return recipes


def _write(args: argparse.Namespace, answer: dict[str, Any], refused: Sequence[FailedAnalysis], show: Any) -> None:
    if args.json:
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        output.print_json(head | answer | {"refused": [{"run": one.name, "error": one.error} for one in refused]})
    else:
        show(output.Printer(sys.stdout))


def print_comparison(printer: output.Printer, comparison: Comparison) -> None:
    """Write a comparison: who leads, then the tables."""
    printer.line(comparison.headline, "bold green" if comparison.decided else "bold yellow")
    for table in comparison.tables():
        printer.line()
        if table.title:
            printer.line(f"  {table.title}")
        printer.table(table.header, table.rows)
    printer.line()
    for text in comparison.footnotes():
        printer.line(f"  {text}")


def print_leave_one_out(printer: output.Printer, loo: LeaveOneOut) -> None:
    """Write a leave-one-out: what the variants lose, then the table."""
    printer.line(loo.headline, "bold")
    for table in loo.tables():
        printer.table(table.header, table.rows)
    for text in loo.footnotes():
        printer.line(f"  {text}")
