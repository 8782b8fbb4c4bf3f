"""`ReadOptions`: every option of reading, with its help, its choices and its checks."""

from __future__ import annotations

import argparse
import dataclasses
import math
import numbers
from collections.abc import Iterable
from typing import TypeGuard

from rlscaling.errors import TraceError
from rlscaling.option_fields import check_options, option, positive
from rlscaling.readers.devices import device_factor
from rlscaling.traces.schema import COMPUTE_UNITS, SCALES

COMPUTE_SOURCES = ("gpu-hours", "wall-hours", "tokens", "flops", "steps")
"""What the compute of a framework's log may be counted in."""

FOR_LOGS = ("n_gpus", "device_factor", "eval_time", "eval_before_update", "gap", "resume", "missing_start")
"""Options that say how a log's compute is counted; a table or trace has it in a column."""

FOR_HOURS = ("n_gpus", "device_factor", "eval_time", "gap", "missing_start")
"""Those of them that only hours depend on."""


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
        "auto", "scale of the scores; auto: fractions, or rewards where the values show it", choices=("auto", *SCALES)
    )
    run: str | int | None = option(
        None, "name of the run to read from a file of several", metavar="NAME", default_help="all"
    )
    run_column: str | None = option(
        None, "column that names the run of each row", metavar="NAME", default_help="found by its name"
    )
    domain: str | None = option(
        None, "name of the domain to read from a file of several", metavar="NAME", default_help="all"
    )
    drop_missing: bool = option(False, "leave out rows without compute or pass rate", default_help="they are an error")
    metric: str | None = option(
        None, "name of the metric that is the pass rate in a log", metavar="GLOB", default_help="the only candidate"
    )
    compute_from: str | None = option(
        None, "what the compute of a log is measured in", choices=COMPUTE_SOURCES, default_help="gpu-hours"
    )
    n_gpus: float | None = option(
        None, "number of GPUs of the run, generators and trainers together", metavar="N", parse=positive,
        default_help="taken from the log if it can be",
    )  # fmt: skip
    eval_time: str = option("exclude", "whether evaluations count as compute", choices=("exclude", "include"))
    eval_before_update: bool | None = option(
        None, "the evaluation logged in a row was made before the update of that row",
        default_help="as the framework does it",
        argparse={"action": argparse.BooleanOptionalAction},
    )  # fmt: skip
    gap: float | None = option(
        None, "time without a row that counts as a pause", metavar="SECONDS", parse=positive,
        default_help="3600, or 5 times the usual time if that is longer",
    )  # fmt: skip
    resume: str = option(
        "last", "which rows count where a resumed run repeats steps; all: every executed step counts as compute",
        choices=("last", "first", "all"),
    )  # fmt: skip
    stitch: bool = option(False, "the paths are parts of one run", default_help="no")
    missing_start: str = option(
        "refuse", "what to do with a log whose first steps are missing", choices=("refuse", "estimate")
    )
    device_factor: float | str | None = option(
        None, "convert hours to those of another device: a factor, a ratio of peak rates such as A100:H100, or of "
        "prices such as price:A100:H100", metavar="X|FROM:TO", default_help="1",
    )  # fmt: skip
    compute_unit: str | None = option(
        None, "unit of the compute column of a table", metavar="U", choices=COMPUTE_UNITS, default_help="by its name"
    )
    receipt: bool = False  # tables keep a receipt too, as logs always do
    compute: dataclasses.InitVar[str | None] = None  # former name of compute_from, taken until 1.0

    def __post_init__(self, compute: str | None) -> None:
        if compute is not None and self.compute_from is not None:
            raise TraceError(f"compute={compute!r} is the former name of compute_from={self.compute_from!r}; give one")
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
