"""``rlscaling backtest``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rlscaling.batch.analysis import AnalysisOptions, Progress, analyse
from rlscaling.batch.sources import RunSource
from rlscaling.cli import options, output
from rlscaling.cli.arguments import UsageError, add_renamed
from rlscaling.cli.exit_codes import EXIT_CODES, REFUSED
from rlscaling.cli.figures import save_wide
from rlscaling.cli.inputs import BacktestRequest, backtest_request, check_one_figure, find_runs
from rlscaling.forecasting.backtest import LEAVE_ONE_OUT, METHODS, backtest
from rlscaling.forecasting.backtest_results import Backtest
from rlscaling.forecasting.extrapolate import method_of
from rlscaling.option_fields import positive
from rlscaling.plotting.plans import plot_backtest

EXAMPLES = f"""\
examples:
  rlscaling backtest run.csv --plot backtest.png
  rlscaling backtest "runs/*/trace.jsonl" --cutoffs 4000 8000 --json

{EXIT_CODES}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    options.add_paths(parser, "traces, folders with a trace.jsonl, or quoted globs")
    group = parser.add_argument_group("backtest")
    group.add_argument(
        "--cutoffs", dest="beginnings", metavar="C", nargs="+", type=positive,
        help="forecast from the evaluations up to each of these compute values (default: a factor 1.4 apart, from half "
        "of the run down)",
    )  # fmt: skip
    add_renamed(
        group, "--methods", ("--models",), dest="methods", nargs="+", type=method_of, choices=tuple(METHODS),
        default=tuple(METHODS), help="forecasting methods to test (default: all)",
    )  # fmt: skip
    group.add_argument(
        "--pool", action="store_true",
        help="one answer for all runs, which are of one family: how forecasts of them have held (default: each run)",
    )  # fmt: skip
    group.add_argument(
        "--leave-one-out", action="store_true",
        help="pool, and forecast each run with a prior learned from the others",
    )  # fmt: skip
    options.add_seed(group)
    options.add_fit_options(parser)
    options.add_reading_options(parser, without=("compute_unit", "device_factor"))
    outputs = parser.add_argument_group("output")
    options.add_json(outputs)
    options.add_plot(outputs, "draw a figure of a single run (.png, .svg, .pdf)")


def run(args: argparse.Namespace) -> int:
    """Backtest every run and return the exit code."""
    request = backtest_request(args)
    runs = find_runs(request.inputs)
    check_one_figure(request.output, runs)
    if request.pool:
        if request.output.plot is not None:
            raise UsageError("--plot draws the forecasts of a single run; leave out --pool and --leave-one-out")
        return _pooled(request, runs)

    def work(run: RunSource, analysis: AnalysisOptions, on_progress: Progress | None) -> Backtest:
        return backtest(
            run.trace(), cutoffs=request.cutoffs, methods=request.methods, rng=analysis.seed, **analysis.options
        )

    with output.progress(len(runs), 0) as bar:
        results = analyse(runs, request.analysis, work=work, on_progress=bar.reached)
    named = [(run.name, result) for run, result in zip(runs, results, strict=True)]
    failed = output.write_documents(named, json=request.output.json, seed=request.analysis.seed)
    result = results[0]
    if request.output.plot is not None and isinstance(result, Backtest):
        save_wide(request.output.plot, lambda ax: plot_backtest(result, ax))
    return REFUSED if failed else 0


def _pooled(request: BacktestRequest, runs: Sequence[RunSource]) -> int:
    """Backtest the runs as one family."""
    prior = LEAVE_ONE_OUT if request.leave_one_out else None
    with output.progress(len(runs), 0) as bar:
        found = backtest(
            [run.trace() for run in runs], cutoffs=request.cutoffs, methods=request.methods, prior=prior,
            rng=request.analysis.seed, on_progress=bar.reached, **request.analysis.options,
        )  # fmt: skip
    output.write_documents([(f"{len(runs)} runs", found)], json=request.output.json, seed=request.analysis.seed)
    return REFUSED if found.refused else 0
