"""``rlscaling compare`` and ``rlscaling loo``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rlscaling.batch.analysis import SCHEMA_VERSION, AnalysisOptions, FailedAnalysis, Progress, analyse, fit_run
from rlscaling.batch.sources import RunSource
from rlscaling.cli import options, output
from rlscaling.cli.arguments import add_renamed
from rlscaling.cli.exit_codes import EXIT_CODES, REFUSED
from rlscaling.cli.figures import save_wide
from rlscaling.cli.inputs import ComparisonRequest, comparison_request, find_runs, recipe_names
from rlscaling.comparing.compare import Comparison, compare
from rlscaling.comparing.leave_one_out import LeaveOneOut, leave_one_out
from rlscaling.errors import FitError, RLScalingWarning
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.option_fields import positive
from rlscaling.plotting.comparisons import plot_comparison, plot_loo
from rlscaling.version import __version__

EXAMPLES = f"""\
examples:
  rlscaling compare a.csv b.csv c.csv --compute 100000 --plot compare.png
  rlscaling compare "runs/*/trace.jsonl" --by recipe --compute 50000 100000 --json

{EXIT_CODES}"""
LEAVE_ONE_OUT_EXAMPLES = f"""\
examples:
  rlscaling loo "runs/*/trace.jsonl" --plot loo.png
  rlscaling loo base.csv no-filter.csv no-clip.csv --by run --reference base --json

{EXIT_CODES}"""

Result = TypeVar("Result", Comparison, LeaveOneOut)
Recipes = dict[str, list[SigmoidFit]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rlscaling compare``."""
    parser.epilog = EXAMPLES
    _add_paths(parser)
    group = parser.add_argument_group("comparison")
    add_renamed(
        group, "--compute", ("--at",), dest="budgets", metavar="C", nargs="+", type=positive,
        help="budgets at which to compare; the first decides (default: 100000 for GPU-hours, none for other units)",
    )  # fmt: skip
    _add_shared(parser, group, by="run")


def add_leave_one_out_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rlscaling loo``."""
    parser.epilog = LEAVE_ONE_OUT_EXAMPLES
    _add_paths(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--reference",
        metavar="NAME",
        default="scalerl",
        help="recipe that the others are variants of (default: scalerl)",
    )
    _add_shared(parser, group, by="recipe")


def _add_paths(parser: argparse.ArgumentParser) -> None:
    options.add_paths(
        parser, "traces, folders with a trace.jsonl, quoted globs, or fits saved with --save; two recipes or more"
    )


def _add_shared(parser: argparse.ArgumentParser, group: argparse._ArgumentGroup, *, by: str) -> None:
    options.add_comparison_options(group, by=by)
    options.add_fit_options(parser)
    options.add_reading_options(parser, without=("compute_unit", "device_factor"))
    outputs = parser.add_argument_group("output")
    options.add_json(outputs)
    options.add_plot(outputs, "draw a figure (.png, .svg, .pdf)")


def run(args: argparse.Namespace) -> int:
    """Run ``rlscaling compare`` and return the exit code."""
    request = comparison_request(args)
    comparison, failures = _compare(
        request, lambda recipes, shared: compare(recipes, compute=request.budgets, **shared)
    )
    return _write(comparison, failures, request, plot_comparison)


def run_leave_one_out(args: argparse.Namespace) -> int:
    """Run ``rlscaling loo`` and return the exit code."""
    request = comparison_request(args)
    result, failures = _compare(
        request, lambda recipes, shared: leave_one_out(recipes, reference=request.reference, **shared)
    )
    return _write(result, failures, request, plot_loo)


def _compare(
    request: ComparisonRequest, work: Callable[[Recipes, dict[str, Any]], Result]
) -> tuple[Result, list[FailedAnalysis]]:
    """Fit the runs and compare them; a run that cannot be fitted leaves the others to be compared."""
    runs, comparison = find_runs(request.inputs), request.comparison
    with output.progress(len(runs), comparison.n_resamples) as bar:
        results = analyse(runs, request.analysis, work=_fit, on_progress=bar.reached)
        failures = [result for result in results if isinstance(result, FailedAnalysis)]
        for failure in failures:
            print(f"rlscaling: error: {failure.name}: {failure.error}", file=sys.stderr)
        fits = [result for result in results if isinstance(result, SigmoidFit)]
        if len(fits) < 2 and failures:
            raise FitError(f"{len(fits)} of {len(runs)} runs could be fitted; a comparison needs two")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RLScalingWarning)  # they stand among the notes
            shared = comparison.arguments() | {"on_progress": bar.replicates("comparing")}
            return work(_by_recipe(fits, request.by), shared), failures


def _fit(run: RunSource, analysis: AnalysisOptions, on_progress: Progress | None) -> SigmoidFit:
    fit = fit_run(run, analysis)
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        raise FitError(
            f"{fit.n_points} fitted points are too few for an interval ({MIN_POINTS_FOR_INTERVAL} needed); evaluate "
            "more often, run on, or lower --min-compute"
        )
    return fit


def _by_recipe(fits: Sequence[SigmoidFit], by: str) -> Recipes:
    """Return the fits of each recipe."""
    names = recipe_names({fit.name: fit.metadata for fit in fits}, by)
    recipes: Recipes = {}
    for fit in fits:
        recipes.setdefault(names[fit.name], []).append(fit)
    return recipes


def _write(
    result: Result, failures: Sequence[FailedAnalysis], request: ComparisonRequest, plot: Callable[..., object]
) -> int:  # fmt: skip
    if request.output.json:
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        refused = [{"run": failure.name, "error": failure.error} for failure in failures]
        output.print_json(head | result.to_dict() | {"refused": refused})
    else:
        output.Printer(sys.stdout).document(result)
    if request.output.plot is not None:
        save_wide(request.output.plot, lambda ax: plot(result, ax))
    return REFUSED if failures else 0
