"""How a file is to be read: every choice that ``read_trace`` and the command line offer, checked once."""

from __future__ import annotations

import dataclasses
import math

from rlscaling.errors import TraceError
from rlscaling.schema import COMPUTE_UNITS, SCALES

from .devices import device_factor

EVAL_TIMES = ("exclude", "include")
RESUMES = ("last", "first", "all")
STARTS = ("refuse", "estimate")
AXES = ("gpu-hours", "wall-hours", "tokens", "flops", "steps")
"""What the compute of a framework's log may be counted in."""


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
            if isinstance(number, str):
                continue
            if number is not None and not (isinstance(number, int | float) and 0 < number < math.inf):
                raise TraceError(f"{name}={number!r} is not a positive, finite number; correct it")
