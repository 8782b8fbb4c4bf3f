"""``rlscaling backtest``."""

from __future__ import annotations

import argparse

from rlscaling.batch.analysis import FailedAnalysis
from rlscaling.batch.sources import RunSource
from rlscaling.cli import options, output
from rlscaling.cli.arguments import add_renamed, forecast_method
from rlscaling.cli.exit_codes import EXIT_CODES, REFUSED
from rlscaling.cli.figures import save_wide
from rlscaling.cli.inputs import analyse_each, backtest_request, check_one_figure, find_runs
from rlscaling.forecasting.backtest import Backtest, backtest
from rlscaling.option_fields import positive
from rlscaling.plotting.plans import plot_backtest

METHODS = ("sigmoid", "power-law", "last-value", "averaged")
EXAMPLES = f"""\
examples:
  rlscaling backtest run.csv --plot backtest.png
  rlscaling backtest "runs/*/trace.jsonl" --cutoffs 4000 8000 --json

{EXIT_CODES}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    options.add_paths(parser, "traces, folders with trace.jsonl, quoted globs")
    group = parser.add_argument_group("backtest")
    group.add_argument(
        "--cutoffs", metavar="C", nargs="+", type=positive,
        help="compute at which the beginnings end (default: a factor 1.4 apart, from half of the run downwards)",
    )  # fmt: skip
    add_renamed(
        group, "--methods", ("--models",), dest="methods", nargs="+", type=forecast_method, choices=METHODS,
        default=METHODS, help="forecasting methods (default: all four)",
    )  # fmt: skip
    options.add_seed(group)
    options.add_fit_options(parser)
    options.add_reading_options(parser, without=("compute_unit", "device_factor"))
    outputs = parser.add_argument_group("output")
    options.add_json(outputs, "print JSON and nothing else")
    options.add_plot(outputs, "draw one run (.png, .svg, .pdf)")


def run(args: argparse.Namespace) -> int:
    """Backtest every run and return the exit code."""
    request = backtest_request(args)
    runs = find_runs(request.inputs)
    check_one_figure(request.output, runs)

    def work(run: RunSource) -> Backtest:
        return backtest(run.trace(), cutoffs=request.cutoffs, methods=request.methods, rng=request.seed, **request.fit)

    with output.progress(len(runs), 0) as bar:
        results: list[Backtest | FailedAnalysis] = analyse_each(runs, work, bar.run_done)
    named = [(run.name, result) for run, result in zip(runs, results, strict=True)]
    failed = output.write_documents(named, json=request.output.json, seed=request.seed)
    result = results[0]
    if request.output.plot is not None and isinstance(result, Backtest):
        save_wide(request.output.plot, lambda ax: plot_backtest(result, ax))
    return REFUSED if failed else 0
