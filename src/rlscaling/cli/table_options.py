"""The options of a table of fits and of workers. Nothing heavy is imported here."""

from __future__ import annotations

import argparse


def add_table_options(group: argparse._ArgumentGroup) -> None:
    """Add where the table goes, and whether to go on with one that is there."""
    group.add_argument(
        "--out", metavar="FILE",
        help="write a table of all runs (.parquet), row by row as they finish, and print a summary instead of every "
        "answer (default: no table)",
    )  # fmt: skip
    group.add_argument(
        "--continue", dest="go_on", action="store_true",
        help="go on with a table of --out that was begun, with the same runs, options and seed (default: no)",
    )  # fmt: skip


def add_workers(group: argparse._ActionsContainer) -> None:
    """Add the number of workers; ``--jobs`` is its older name."""
    group.add_argument(
        "--n-jobs", "--jobs", dest="n_jobs", metavar="N", type=_workers, default=1,
        help="workers, -1: all cores; the numbers do not depend on it (default: 1)",
    )  # fmt: skip


def _workers(text: str) -> int:
    if text == "-1":
        return -1
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more, nor -1 for all cores")
    return int(text)
