"""The options of ``rlscaling compare`` and ``rlscaling loo``."""

from __future__ import annotations

import argparse
from typing import Any

from rlscaling.cli.parser import (
    EXIT_CODES,
    add_fit_options,
    add_reader_options,
    add_seed,
    count_from,
    level,
    not_negative,
    positive,
    subcommand,
)

COMPARE_EXAMPLES = f"""\
examples:
  rlscaling compare a.csv b.csv c.csv --at 100000 --plot compare.png
  rlscaling compare "runs/*/trace.jsonl" --by recipe --at 50000 100000 --json

{EXIT_CODES}"""
LOO_EXAMPLES = f"""\
examples:
  rlscaling loo "runs/*/trace.jsonl" --plot loo.png
  rlscaling loo base.csv no-filter.csv no-clip.csv --by run --reference base --json

{EXIT_CODES}"""


def add_compare(commands: Any) -> None:
    """Add ``compare``."""
    parser = subcommand(
        commands, "compare", "say which recipe to bet on at a budget, and how sure that is", COMPARE_EXAMPLES, _compare
    )
    _add_paths(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--at", dest="budgets", metavar="C", nargs="+", type=positive,
        help="budgets, the one that decides first (default: 100000 where compute is in GPU-hours, else there is none)",
    )  # fmt: skip
    _add_shared(parser, group, by="run")


def add_loo(commands: Any) -> None:
    """Add ``loo``."""
    parser = subcommand(
        commands, "loo", "compare variants of a recipe with it: leave one out", LOO_EXAMPLES, _leave_one_out
    )
    _add_paths(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--reference", metavar="NAME", default="scalerl", help="what the others are variants of (default: scalerl)"
    )
    _add_shared(parser, group, by="recipe")


def _compare(args: argparse.Namespace) -> int:
    from rlscaling.cli.compare import compare_runs

    return compare_runs(args)


def _leave_one_out(args: argparse.Namespace) -> int:
    from rlscaling.cli.compare import leave_one_out_runs

    return leave_one_out_runs(args)


def _add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="+",
        help="traces, folders with trace.jsonl, quoted globs, or fits saved with --save: two recipes or more",
    )  # fmt: skip


def add_comparison(group: argparse._ArgumentGroup, *, by: str) -> None:
    """Add how recipes are compared, of ``compare``, ``loo`` and ``report``."""
    group.add_argument(
        "--by", choices=("run", "recipe"), default=by,
        help="run: every run is a recipe; recipe: runs whose header names the same recipe are its seeds "
        f"(default: {by})",
    )  # fmt: skip
    group.add_argument(
        "--margin", metavar="X", type=positive, default=0.02, help="ceilings closer than this are equal (default: 0.02)"
    )
    group.add_argument(
        "--own-R0", action="store_true", help="each run keeps its own R0: other base models (default: one is shared)"
    )
    group.add_argument(
        "--device-factor", metavar="NAME=X", action="append", type=_factor,
        help="price or speed of an hour on a device, as the header names it; may be given again (default: none)",
    )  # fmt: skip
    group.add_argument(
        "--resamples", metavar="N", type=count_from(100), default=1000, help="draws, at least 100 (default: 1000)"
    )
    group.add_argument(
        "--confidence-level", metavar="P", type=level, default=0.95,
        help="level of the intervals; 1 - P is the family-wise error of the verdicts (default: 0.95)",
    )  # fmt: skip
    group.add_argument(
        "--seed-sd", metavar="X", type=not_negative, default=0.015,
        help="spread of A between seeds of one recipe, where none has several (default: 0.015)",
    )  # fmt: skip
    add_seed(group)


def _add_shared(parser: argparse.ArgumentParser, group: argparse._ArgumentGroup, *, by: str) -> None:
    add_comparison(group, by=by)
    add_fit_options(parser.add_argument_group("fit"))
    add_reader_options(parser.add_argument_group("reading files"))
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON object and nothing else (default: text)")
    output.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg, .pdf) (default: none)")
    output.add_argument("--overwrite", action="store_true", help="let --plot replace a file (default: no)")


def _factor(text: str) -> tuple[str, float]:
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=X, e.g. H100=0.45")
    return name, positive(value)
