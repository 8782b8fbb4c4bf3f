"""``rlscaling plan``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rlscaling.batch.analysis import AnalysisOptions, FailedAnalysis, Progress, analyse, fit_run
from rlscaling.batch.sources import RunSource
from rlscaling.cli import options, output
from rlscaling.cli.arguments import add_renamed
from rlscaling.cli.exit_codes import EXIT_CODES, REFUSED
from rlscaling.cli.figures import save_wide
from rlscaling.cli.inputs import PlanRequest, check_one_figure, find_runs, plan_request
from rlscaling.errors import FitError
from rlscaling.fitting.verdict import TARGET
from rlscaling.forecasting.allocate import Allocation, allocate
from rlscaling.forecasting.gain import GAIN
from rlscaling.forecasting.plan import Plan, plan
from rlscaling.option_fields import positive
from rlscaling.plotting.plans import plot_plan

EXAMPLES = f"""\
examples:
  rlscaling plan run.csv
  rlscaling plan run.csv --target 0.01 --compute 100000 --next 10000 --json
  rlscaling plan a.csv b.csv c.csv --split 20000

{EXIT_CODES}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    options.add_paths(parser, "traces, folders, quoted globs, or fits saved with --save")
    group = parser.add_argument_group("plan")
    group.add_argument(
        "--target",
        metavar="X",
        type=positive,
        default=TARGET,
        help=f"half-width of the 95 %% interval to aim for (default: {TARGET:g})",
    )
    add_renamed(
        group, "--compute", ("--at",), dest="budget", metavar="C", type=positive,
        help="plan for the pass rate at this compute (default: for the ceiling A)",
    )  # fmt: skip
    group.add_argument(
        "--next", metavar="C", type=positive,
        help="show what this much more compute would bring (default: a round number near half of the compute so far)",
    )  # fmt: skip
    group.add_argument(
        "--gain", metavar="X", type=positive, default=GAIN,
        help=f"say how likely it is that this brings more than X of pass rate (default: {GAIN:g})",
    )  # fmt: skip
    group.add_argument(
        "--split", metavar="N", type=positive,
        help="also split this much compute over the runs, as candidate recipes: which to extend and which to drop, "
        "by their pass rate at --compute, else at 100000 GPU-hours (default: no split)",
    )  # fmt: skip
    options.add_seed(group)
    options.add_fit_options(parser)
    options.add_reading_options(parser, without=("compute_unit", "device_factor"))
    outputs = parser.add_argument_group("output")
    options.add_json(outputs)
    options.add_plot(outputs, "draw a figure of a single run (.png, .svg, .pdf)")


def run(args: argparse.Namespace) -> int:
    """Plan every run and return the exit code."""
    request = plan_request(args)
    runs = find_runs(request.inputs)
    check_one_figure(request.output, runs)

    def work(run: RunSource, analysis: AnalysisOptions, on_progress: Progress | None) -> Plan:
        return plan(
            fit_run(run, analysis), target_half_width=request.target, compute=request.budget,
            next_compute=request.next, gain=request.gain, rng=analysis.seed,
        )  # fmt: skip

    with output.progress(len(runs), 0) as bar:
        results = analyse(runs, request.analysis, work=work, on_progress=bar.reached)
    split = None if request.split is None else _split(request.split, results, request)
    named = [(run.name, result) for run, result in zip(runs, results, strict=True)]
    failed = output.write_documents(named, json=request.output.json, seed=request.analysis.seed, split=split)
    result = results[0]
    if request.output.plot is not None and isinstance(result, Plan):
        save_wide(request.output.plot, lambda ax: plot_plan(result, ax))
    return REFUSED if failed else 0


def _split(budget: float, results: Sequence[Plan | FailedAnalysis], request: PlanRequest) -> Allocation:
    fits = {result.fit.name: result.fit for result in results if isinstance(result, Plan)}
    if len(fits) < 2:
        raise FitError(f"--split {budget:g}: {len(fits)} of {len(results)} runs could be planned; give two or more")
    return allocate(fits, budget, compute=request.budget, rng=request.analysis.seed)
