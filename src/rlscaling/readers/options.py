"""`ReadOptions`: every option of reading, with its help, its choices and its checks."""

from __future__ import annotations

import argparse
import dataclasses
import math
import numbers
from collections.abc import Iterable
from typing import TypeGuard

from rlscaling.errors import TraceError
from rlscaling.option_fields import check_options, option
from rlscaling.readers.devices import device_factor
from rlscaling.traces.schema import COMPUTE_UNITS, SCALES

COMPUTE_SOURCES = ("gpu-hours", "wall-hours", "tokens", "flops", "steps")
"""What the compute of a framework's log may be counted in."""

FOR_LOGS = ("n_gpus", "device_factor", "eval_time", "eval_before_update", "gap", "resume", "missing_start")
"""Options that say how a log's compute is counted; a table or trace has it in a column."""

FOR_HOURS = ("n_gpus", "device_factor", "eval_time", "gap", "missing_start")
"""Those of them that only hours depend on."""


def _positive(text: str) -> float:
    """Return a positive, finite number written on the command line."""
    try:
        value = float(text)
    except ValueError:
        hint = "; files go before this option" if "." in text or "/" in text else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a number{hint}") from None
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive, finite number")
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a file is to be read; ``read_trace`` documents the fields.

    Raises
    ------
    TraceError
        When a value is none of its choices, or not a positive number where one is needed.
    """

    compute_column: str | None = option(None, "column of compute", metavar="NAME", default_help="found by its name")
    pass_rate_column: str | None = option(
        None, "column of the pass rate", metavar="NAME", default_help="found by its name"
    )
    scale: str = option(
        "auto", "what the scores are; auto: fractions, or rewards where values say so", choices=("auto", *SCALES)
    )
    run: str | int | None = option(None, "the run to take from a file of several", metavar="NAME", default_help="all")
    run_column: str | None = option(
        None, "column that tells runs apart", metavar="NAME", default_help="found by its name"
    )
    domain: str | None = option(None, "the domain to take from a file of several", metavar="NAME", default_help="all")
    drop_missing: bool = option(False, "leave rows without compute or pass rate out", default_help="refuse them")
    metric: str | None = option(
        None, "metric of a log that is the pass rate", metavar="GLOB", default_help="the one plainly meant"
    )
    compute_from: str | None = option(
        None, "what the compute of a log is counted in", choices=COMPUTE_SOURCES, default_help="gpu-hours"
    )
    n_gpus: float | None = option(
        None, "GPUs of the run, generators and trainers together", metavar="N", parse=_positive,
        default_help="from the log, where it tells",
    )  # fmt: skip
    eval_time: str = option("exclude", "whether evaluations count as compute", choices=("exclude", "include"))
    eval_before_update: bool | None = option(
        None, "the evaluation in a row was made before its update", default_help="what the framework does",
        argparse={"action": argparse.BooleanOptionalAction},
    )  # fmt: skip
    gap: float | None = option(
        None, "time without a row that counts as a pause", metavar="SECONDS", parse=_positive,
        default_help="3600, or 5 times the usual time if that is longer",
    )  # fmt: skip
    resume: str = option(
        "last", "which rows count where a resumed run did steps again; all: executed compute",
        choices=("last", "first", "all"),
    )  # fmt: skip
    stitch: bool = option(False, "the paths are pieces of one run", default_help="no")
    missing_start: str = option(
        "refuse", "what to do with a log whose first steps are missing", choices=("refuse", "estimate")
    )
    device_factor: float | str | None = option(
        None, "multiply hours, to tell them in another device's: a number, a ratio of peak rates such as A100:H100, or "
        "of prices such as price:A100:H100", metavar="X|FROM:TO", default_help="1",
    )  # fmt: skip
    compute_unit: str | None = option(
        None, "unit of the compute column of a table", metavar="U", choices=COMPUTE_UNITS, default_help="by its name"
    )
    receipt: bool = False  # tables keep a receipt too, as logs always do
    compute: dataclasses.InitVar[str | None] = None  # former name of compute_from, taken until 1.0

    def __post_init__(self, compute: str | None) -> None:
        if compute is not None:
            object.__setattr__(self, "compute_from", compute)
        for name in ("n_gpus", "gap", "device_factor"):
            value = getattr(self, name)
            if isinstance(value, str) and name == "device_factor":
                device_factor(value)
            elif value is not None and not (_is_number(value) and 0 < value < math.inf):
                raise TraceError(f"{name}={value!r} is not a positive, finite number; correct it")
        check_options(self, TraceError)

    def without_effect(self, names: Iterable[str]) -> list[str]:
        """Return those of some options that differ from their defaults, as spelt in Python and in the command."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return [f"{name}= / --{name.replace('_', '-')}" for name in names if getattr(self, name) != defaults[name]]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
