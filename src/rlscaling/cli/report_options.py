"""The options of ``rlscaling report``."""

from __future__ import annotations

import argparse
from typing import Any

from rlscaling.cli.compare_options import add_comparison
from rlscaling.cli.parser import EXIT_CODES, add_fit_options, add_reader_options, positive, subcommand

EXAMPLES = f"""\
examples:
  rlscaling report "runs/*/trace.jsonl" -o report.html
  rlscaling report wandb/ --by recipe --at 50000 100000 -o report.html --title "Recipes, week 48"

{EXIT_CODES}"""


def add_report(commands: Any) -> None:
    """Add ``report``."""
    about = "write one HTML file: verdicts, comparison, forecasts, backtests, plans, receipts"
    parser = subcommand(commands, "report", about, EXAMPLES, _report)
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="traces, folders, logs, quoted globs, or fits saved with --save"
    )
    group = parser.add_argument_group("report")
    group.add_argument("-o", "--out", metavar="FILE", required=True, help="HTML file to write")
    group.add_argument("--overwrite", action="store_true", help="let --out replace a file (default: no)")
    group.add_argument("--title", default="RL compute scaling", help="title of the page (default: RL compute scaling)")
    group.add_argument("--json", action="store_true", help="print one JSON object about it (default: text)")
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--at", dest="budgets", metavar="C", nargs="+", type=positive,
        help="budgets, the one that decides first (default: 100000 where compute is in GPU-hours, else no forecasts)",
    )  # fmt: skip
    add_comparison(group, by="run")
    add_fit_options(parser.add_argument_group("fit"))
    add_reader_options(parser.add_argument_group("reading files"))


def _report(args: argparse.Namespace) -> int:
    from rlscaling.cli.report import report_runs

    return report_runs(args)
