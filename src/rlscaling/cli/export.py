"""``rlscaling export-recipe`` and ``rlscaling export-log``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.cli import options
from rlscaling.cli.arguments import UsageError
from rlscaling.cli.output import print_json
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.export.engines import ENGINES, export_recipe
from rlscaling.trainer.export.verl_log import export_log
from rlscaling.version import __version__

RECIPE_EXAMPLES = """\
examples:
  rlscaling export-recipe scalerl --to trl
  rlscaling export-recipe scalerl --to verl --json
"""
LOG_EXAMPLES = """\
examples:
  rlscaling export-log runs/scalerl/trace.jsonl -o runs/scalerl/verl.jsonl
"""


def add_recipe_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rlscaling export-recipe``."""
    parser.epilog = RECIPE_EXAMPLES
    parser.add_argument("recipe", metavar="NAME", help="name of a recipe; 'rlscaling recipes' lists them")
    parser.add_argument(
        "--to", metavar="ENGINE", required=True, help="trl (prints a GRPOConfig) or verl (prints hydra overrides)"
    )
    options.add_json(parser)


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rlscaling export-log``."""
    parser.epilog = LOG_EXAMPLES
    parser.add_argument("trace", metavar="TRACE", type=Path, help="trace.jsonl of a run, finished or not")
    parser.add_argument(
        "-o", "--out", metavar="FILE", type=Path, required=True,
        help="file to write (.jsonl), in the format of verl's file logger",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="let --out replace a file (default: no)")


def run_recipe(args: argparse.Namespace) -> int:
    """Print a recipe as the options of another engine and return the exit code."""
    try:
        exported = export_recipe(args.recipe, args.to)
    except TrainError as error:
        raise UsageError(str(error)) from None
    if args.json:
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        about = {"recipe": exported.recipe, "engine": exported.engine, "engine_version": ENGINES[exported.engine].about}
        print_json({**head, **about, "options": dict(exported.options), "not_reproduced": dict(exported.missing)})
    else:
        print(exported)
    return 0


def run_log(args: argparse.Namespace) -> int:
    """Write a trace as a log of verl and return the exit code."""
    try:
        n = export_log(args.trace, args.out, overwrite=args.overwrite)
    except TrainError as error:
        raise UsageError(str(error)) from None
    print(f"rlscaling: wrote {n:,} lines to {args.out}", file=sys.stderr)
    return 0
