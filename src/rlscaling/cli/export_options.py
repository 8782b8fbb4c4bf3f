"""The options of ``rlscaling export-recipe`` and ``rlscaling export-log``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlscaling.cli.parser import Parser, subcommand

EXPORT_EXAMPLES = """\
examples:
  rlscaling export-recipe scalerl --to trl
  rlscaling export-recipe scalerl --to verl --json
"""


LOG_EXAMPLES = """\
examples:
  rlscaling export-log runs/scalerl/trace.jsonl -o runs/scalerl/verl.jsonl
"""


def add_export(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the commands."""
    export = subcommand(
        commands, "export-recipe", "print a recipe as the options of TRL or verl", EXPORT_EXAMPLES, _run_export
    )
    export.add_argument("recipe", metavar="NAME", help="recipe, as 'rlscaling recipes' lists them")
    export.add_argument("--to", metavar="ENGINE", required=True, help="trl (a GRPOConfig) or verl (hydra overrides)")
    export.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")
    log = subcommand(
        commands, "export-log", "write a trace of the trainer as a log of verl", LOG_EXAMPLES, _run_export_log
    )
    log.add_argument("trace", metavar="TRACE", type=Path, help="trace.jsonl of a run, finished or not")
    log.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        type=Path,
        required=True,
        help="file to write, .jsonl, as verl's file logger does",
    )
    log.add_argument("--overwrite", action="store_true", help="replace what is there (default: refuse)")


def _run_export(args: argparse.Namespace) -> int:
    from rlscaling.cli.export_recipe import export

    return export(args)


def _run_export_log(args: argparse.Namespace) -> int:
    from rlscaling.cli.export_recipe import write_log

    return write_log(args)
