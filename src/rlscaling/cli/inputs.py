"""From a command line to runs and options, checked before any file is read."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlscaling.batch.sources import RunSource
from rlscaling.batch.sources import find_runs as runs_at
from rlscaling.errors import RLScalingError
from rlscaling.fitting.options import EPOCH, resolve_options
from rlscaling.readers.options import ReadOptions

READING = (
    "compute_column", "pass_rate_column", "scale", "run", "run_column", "domain", "drop_missing", "metric", "compute",
    "n_gpus", "eval_time", "eval_before_update", "gap", "resume", "missing_start", "stitch",
)  # fmt: skip
FITTING = ("min_compute", "max_compute", "exclude", "R0", "R0_se", "A", "B", "A_max", "B_bounds", "method")


class UsageError(Exception):
    """The command line cannot be carried out as it is written."""


def fit_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a fit that were given, checked for contradictions before any file is read.

    Raises
    ------
    UsageError
        When two options contradict each other, or a value is out of range.
    """
    given = {name: getattr(args, name) for name in FITTING if getattr(args, name) is not None}
    try:
        checkable = {name: value for name, value in given.items() if (name, value) != ("min_compute", EPOCH)}
        resolve_options({"A_max": math.inf, "min_compute": 0.0} | checkable)
    except RLScalingError as error:
        raise UsageError(str(error)) from None
    return given


def find_runs(args: argparse.Namespace, *, receipts: bool = False, leave_out: Iterable[Path] = ()) -> list[RunSource]:
    """Return every run that the paths stand for, in order, the refused ones with their reason."""
    reading, given = reading_options(args)
    found = runs_at(args.paths, dataclasses.replace(reading, receipt=receipts), tuple(given), leave_out)
    for run in found:
        for text in run.messages:
            print(f"rlscaling: {text}", file=sys.stderr)
    return found


def reading_options(args: argparse.Namespace) -> tuple[ReadOptions, dict[str, Any]]:
    """Return how files are to be read, and which of it was given on the command line.

    Raises
    ------
    UsageError
        When a value cannot be used.
    """
    given = {name: getattr(args, name) for name in READING if getattr(args, name) is not None}
    if getattr(args, "hours_factor", None) is not None:  # compare has a --device-factor of its own, by device
        given["device_factor"] = args.hours_factor
    try:
        return ReadOptions(**({"scale": "auto", "compute_unit": args.compute_unit} | given)), given
    except RLScalingError as error:
        raise UsageError(str(error)) from None
