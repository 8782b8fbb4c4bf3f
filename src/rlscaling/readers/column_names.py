"""Which column is compute and which pass rate, by name, the plainest names first."""

from __future__ import annotations

import re

from rlscaling.traces.schema import COMPUTE_UNITS

PLAIN_COMPUTE = {
    "compute": "gpu-hours",
    "gpu_hours": "gpu-hours",
    **{f"compute_{unit.replace('-', '_')}": unit for unit in COMPUTE_UNITS},
}
"""Names that contain the unit and are taken without a note."""

_GPU_HOURS = r"(gpu|[ahbl]\d{2,3}|gb200)s?[ _./-]*(h|hr|hrs|hours?)(?![a-z])"
_DEVICE_HOURS = r"(device|tpu|accelerator|chip|core)s?[ _./-]*(h|hr|hrs|hours?)(?![a-z])"
_WALL_HOURS = r"(^|[ _./-])(hours?|hrs)$|wall[ _-]*(clock)?[ _-]*(time)?[ _(-]*h(ours?)?\)?$"
_ROLLOUTS = r"rollouts?$|episodes?$|completions$"
_STEPS = r"(^|[ /._-])(global_?|train(ing)?_?|optimizer_?|env_?)?(steps?|iterations?|iters?|updates?|frames?)$"

COMPUTE_NAMES = (
    "^(" + "|".join(PLAIN_COMPUTE) + ")$",
    _GPU_HOURS,
    _DEVICE_HOURS,
    r"flop",
    r"token",
    _ROLLOUTS,
    _WALL_HOURS,
    r"^(?!_)" + f"(?=.*(?:{_STEPS}))",
    r"^_step$",  # a logger's own counter of calls: only when nothing else is there
)

NOT_COMPUTE = (
    r"[_/ ]per[_/ ]|throughput|__(min|max)$|/s$"
    r"|(^|[ _./-])(mean|avg|min|max|eval|lost|modelled|length)([ _./-]|$)"
)

PASS_RATE_NAMES = (
    r"^pass_?rate$",
    r"pass[ _-]?rate|success[ _-]?rate|solve[ _-]?rate|(mean|avg)(@|_at_|_)\d+$|pass(@|_at_|_)1$",
    r"^(val|eval|test|validation)[-_/ .].*acc|^acc(uracy)?$|^val-core/",
    r"acc(uracy)?$",
    r"^(val|eval|test|validation)[-_/ .].*(score|reward|return)",
    r"^(mean[ _-]?)?(score|reward|return)s?([ _-]?mean)?$",
    r"(score|reward|return)s?([_/ .-](mean|total))?$",
)
NOT_A_PASS_RATE = (
    r"__(min|max)$|(best|maj)(@|_at_|_)|^val-aux/"
    r"|(^|[ _./-])(std|se|sem|stderr|var|min|max|ci|low|high|count|time|seconds|length|weight|n)([ _./-]|$)"
)

_UNITS = (
    ("gpu-hours", _GPU_HOURS),
    ("device-hours", _DEVICE_HOURS),
    ("flops", r"flop"),
    ("tokens", r"token"),
    ("rollouts", _ROLLOUTS),
    ("wall-hours", _WALL_HOURS),
    ("steps", _STEPS),
)


def unit_of(column: str) -> str | None:
    """Return the unit of compute in a column's name, or None."""
    return next((unit for unit, pattern in _UNITS if re.search(pattern, column.lower().strip())), None)
