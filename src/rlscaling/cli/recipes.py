"""``rlscaling recipes``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.cli import options
from rlscaling.cli.arguments import UsageError
from rlscaling.cli.output import Printer, print_json
from rlscaling.trainer.command.arguments import spell
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.make import check_recipe, recipe_table
from rlscaling.trainer.settings.recipes import RECIPES
from rlscaling.version import __version__

AXES = {
    "loss": "loss",
    "aggregation": "average",
    "advantage_norm": "norm",
    "zero_variance": "all alike",
    "curriculum": "curriculum",
    "length_control": "length",
    "head_dtype": "head",
}
"""Fields of the overview beside the schedule, and the headings of their columns."""


EXAMPLES = """\
examples:
  rlscaling recipes
  rlscaling recipes scalerl dapo --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("names", metavar="NAME", nargs="*", help="recipes to show in full (default: all, in short)")
    parser.add_argument(
        "--all", action="store_true", help="show every setting, not only those that the paper varies (default: no)"
    )
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the named recipes, or an overview of all, and return the exit code."""
    try:
        for name in args.names:
            check_recipe(name)
    except TrainError as error:
        raise UsageError(str(error)) from None
    names = args.names or list(RECIPES)
    rows = recipe_table(names, every=args.all)
    if args.json:
        print_json({"schema_version": SCHEMA_VERSION, "version": __version__, "recipes": _records(names, rows)})
        return 0
    printer = Printer(sys.stdout)
    _overview(printer, names)
    everything = bool(args.names)  # every field of a recipe that is named, else those that it sets
    if not everything:
        first = names[0]
        shared = [row for row in rows if row["recipe"] == first and row["field"] not in RECIPES[first].fields]
        _section(printer, "The same in every recipe that does not say otherwise", shared)
    for name in names:
        recipe = RECIPES[name]
        own = [row for row in rows if row["recipe"] == name and (everything or row["field"] in recipe.fields)]
        _section(printer, f"{name}: {recipe.summary}", own)
    if not everything:
        printer.line()
        printer.line(
            "[ScaleRL] is arXiv 2510.13786; 'rlscaling train --recipe NAME --FIELD VALUE' overrides any field."
        )
    return 0


def _records(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "recipe": name,
            "summary": RECIPES[name].summary,
            "fields": {r["field"]: {"value": r["value"], "source": r["source"]} for r in rows if r["recipe"] == name},
        }
        for name in names
    ]


def _overview(printer: Printer, names: Sequence[str]) -> None:
    table = {(row["recipe"], row["field"]): row["value"] for row in recipe_table(names)}
    rows = []
    for name in names:
        clips = f"{table[name, 'clip_low']:g}/{table[name, 'clip_high']:g}"
        schedule = f"{table[name, 'schedule']}-{table[name, 'k']}"
        loss, *others = (str(table[name, axis]) for axis in AXES)
        rows.append([name, schedule, loss, clips, *others])
    loss_heading, *headings = AXES.values()
    printer.table(["recipe", "schedule", loss_heading, "clips", *headings], rows)


def _section(printer: Printer, heading: str, rows: Sequence[Mapping[str, Any]]) -> None:
    printer.line()
    printer.heading(heading)
    width = max(len(row["field"]) for row in rows)
    values = max(len(spell(row["value"])) for row in rows)
    for row in rows:
        printer.line(f"  {row['field']:<{width}}  {spell(row['value']):<{values}}  {row['source']}")
