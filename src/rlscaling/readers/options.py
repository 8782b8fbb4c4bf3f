"""How a file is to be read: every choice that ``read_trace`` and the command line offer, checked once."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterable
from typing import TypeGuard

from rlscaling.errors import TraceError
from rlscaling.readers.devices import device_factor
from rlscaling.traces.schema import COMPUTE_UNITS, SCALES

EVAL_TIMES = ("exclude", "include")
RESUMES = ("last", "first", "all")
STARTS = ("refuse", "estimate")
AXES = ("gpu-hours", "wall-hours", "tokens", "flops", "steps")
"""What the compute of a framework's log may be counted in."""

FOR_LOGS = ("n_gpus", "device_factor", "eval_time", "eval_before_update", "gap", "resume", "missing_start")
"""Options that say how a log's compute is counted; a table or trace has it in a column."""

FOR_HOURS = ("n_gpus", "device_factor", "eval_time", "gap", "missing_start")
"""Those of them that only hours depend on."""


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read; ``read_trace`` documents the fields."""

    compute_column: str | None = None
    pass_rate_column: str | None = None
    compute_unit: str | None = None
    scale: str = "fraction"
    run: str | int | None = None
    run_column: str | None = None
    domain: str | None = None
    drop_missing: bool = False
    metric: str | None = None
    compute: str | None = None
    n_gpus: float | None = None
    device_factor: float | str | None = None
    eval_time: str = "exclude"
    eval_before_update: bool | None = None
    gap: float | None = None
    resume: str = "last"
    missing_start: str = "refuse"
    stitch: bool = False
    receipt: bool = False  # tables keep a receipt too, as logs always do

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("scale", self.scale, (*SCALES, "auto")),
            ("compute_unit", self.compute_unit, (None, *COMPUTE_UNITS)),
            ("compute", self.compute, (None, *AXES)),
            ("eval_time", self.eval_time, EVAL_TIMES),
            ("resume", self.resume, RESUMES),
            ("missing_start", self.missing_start, STARTS),
        ):
            if value not in allowed:
                choices = ", ".join(filter(None, allowed))
                raise TraceError(f"{name}={value!r} is unknown; choose one of {choices}")
        if isinstance(self.device_factor, str):
            device_factor(self.device_factor)
        for name, number in (("n_gpus", self.n_gpus), ("device_factor", self.device_factor), ("gap", self.gap)):
            if number is None or (name == "device_factor" and isinstance(number, str)):
                continue
            if not _is_number(number) or not 0 < number < math.inf:
                raise TraceError(f"{name}={number!r} is not a positive, finite number; correct it")

    def idle(self, names: Iterable[str]) -> list[str]:
        """Return those of some options that were given, as both interfaces spell them."""
        standard = {field.name: field.default for field in dataclasses.fields(self)}
        return [f"{name}= / --{name.replace('_', '-')}" for name in names if getattr(self, name) != standard[name]]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
