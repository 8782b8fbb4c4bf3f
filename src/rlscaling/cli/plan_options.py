"""The options of ``rlscaling backtest``, ``rlscaling plan`` and ``rlscaling watch``."""

from __future__ import annotations

import argparse
from typing import Any

from rlscaling.cli.parser import EXIT_CODES, add_fit_options, add_reader_options, add_seed, positive, subcommand

MODELS = ("sigmoid", "power_law", "last_value", "auto")
BACKTEST_EXAMPLES = f"""\
examples:
  rlscaling backtest run.csv --plot backtest.png
  rlscaling backtest "runs/*/trace.jsonl" --cutoffs 4000 8000 --json

{EXIT_CODES}"""
PLAN_EXAMPLES = f"""\
examples:
  rlscaling plan run.csv
  rlscaling plan run.csv --target 0.01 --at 100000 --next 10000 --json
  rlscaling plan a.csv b.csv c.csv --split 20000

{EXIT_CODES}"""
WATCH_EXAMPLES = f"""\
examples:
  rlscaling watch runs/scalerl
  rlscaling watch runs/scalerl --once --json

{EXIT_CODES}"""


def add_planning(commands: Any) -> None:
    """Add ``backtest``, ``plan`` and ``watch``."""
    _add_backtest(commands)
    plan = subcommand(commands, "plan", "say how much longer to run, and what it would buy", PLAN_EXAMPLES, _plan)
    plan.add_argument("paths", metavar="PATH", nargs="+", help="traces, folders, quoted globs, or fits saved by --save")
    group = plan.add_argument_group("plan")
    group.add_argument(
        "--target", metavar="X", type=positive, default=0.02, help="half-width of the interval, at 0.95 (default: 0.02)"
    )
    group.add_argument("--at", metavar="C", type=positive, help="of the curve at this compute (default: of A)")
    group.add_argument(
        "--next", metavar="C", type=positive,
        help="what the next C buy (default: a round number near half of the compute so far)",
    )  # fmt: skip
    group.add_argument(
        "--split", metavar="N", type=positive,
        help="also split N of compute over the runs, as candidate recipes: which to extend, which to drop, judged by "
        "the pass rate at --at (default: no split; at 100000 where compute is in GPU-hours)",
    )  # fmt: skip
    _add_shared(plan, group, plot=True)
    about = "watch a running log: the fit, and whether the run has left it"
    watch = subcommand(commands, "watch", about, WATCH_EXAMPLES, _watch)
    watch.add_argument("paths", metavar="PATH", nargs=1, help="a trace that grows, or a folder with trace.jsonl")
    group = watch.add_argument_group("watch")
    group.add_argument("--once", action="store_true", help="look once and end (default: until Ctrl-C)")
    group.add_argument(
        "--interval", metavar="S", type=positive, default=10.0, help="seconds between looks (default: 10)"
    )
    _add_shared(watch, group, plot=False)


def _add_backtest(commands: Any) -> None:
    about = "see how forecasts of a run from its beginnings have held"
    backtest = subcommand(commands, "backtest", about, BACKTEST_EXAMPLES, _backtest)
    backtest.add_argument("paths", metavar="PATH", nargs="+", help="traces, folders with trace.jsonl, quoted globs")
    group = backtest.add_argument_group("backtest")
    group.add_argument(
        "--cutoffs", metavar="C", nargs="+", type=positive,
        help="compute at which the beginnings end (default: a factor 1.4 apart, from half of the run downwards)",
    )  # fmt: skip
    group.add_argument(
        "--models", nargs="+", choices=MODELS, default=list(MODELS), help="what forecasts (default: all four)"
    )
    _add_shared(backtest, group, plot=True)


def _add_shared(parser: argparse.ArgumentParser, group: argparse._ArgumentGroup, *, plot: bool) -> None:
    add_seed(group)
    add_fit_options(parser.add_argument_group("fit"))
    add_reader_options(parser.add_argument_group("reading files"))
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON and nothing else (default: text)")
    if plot:
        output.add_argument("--plot", metavar="FILE", help="draw one run (.png, .svg, .pdf) (default: none)")
        output.add_argument("--overwrite", action="store_true", help="let --plot replace a file (default: no)")


def _backtest(args: argparse.Namespace) -> int:
    from rlscaling.cli.plan import backtest_runs

    return backtest_runs(args)


def _plan(args: argparse.Namespace) -> int:
    from rlscaling.cli.plan import plan_runs

    return plan_runs(args)


def _watch(args: argparse.Namespace) -> int:
    from rlscaling.cli.watch import watch

    return watch(args)
