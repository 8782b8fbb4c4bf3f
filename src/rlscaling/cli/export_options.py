"""The options of ``rlscaling export-recipe``."""

from __future__ import annotations

import argparse

from .parser import Parser, subcommand

EXPORT_EXAMPLES = """\
examples:
  rlscaling export-recipe scalerl --to trl
  rlscaling export-recipe scalerl --to verl --json
"""


def add_export(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    export = subcommand(
        commands, "export-recipe", "print a recipe as the options of TRL or verl", EXPORT_EXAMPLES, _run_export
    )
    export.add_argument("recipe", metavar="NAME", help="recipe, as 'rlscaling recipes' lists them")
    export.add_argument("--to", metavar="ENGINE", required=True, help="trl (a GRPOConfig) or verl (hydra overrides)")
    export.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")


def _run_export(args: argparse.Namespace) -> int:
    from .export_recipe import export

    return export(args)
