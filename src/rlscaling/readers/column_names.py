"""Which column is compute and which pass rate, by name, the plainest names first."""

from __future__ import annotations

import re
from dataclasses import replace

from rlscaling.arrays import FloatArray
from rlscaling.readers.column_scale import HOUR, scale_of
from rlscaling.traces.schema import COMPUTE_UNITS

PLAIN_COMPUTE = {
    "compute": "gpu-hours",
    "gpu_hours": "gpu-hours",
    **{f"compute_{unit.replace('-', '_')}": unit for unit in COMPUTE_UNITS},
}
"""Names that contain the unit and are taken without a note."""

_GPU_HOURS = rf"(gpu|[ahbl]\d{{2,3}}|g[bh]200|v100|p100|mi\d{{3}}[ax]?)s?[ _./-]*{HOUR}"
_DEVICE_HOURS = rf"(device|[hnt]pu|xpu|accelerator|chip|core)s?[ _./-]*{HOUR}"
_WALL_HOURS = r"(^|[ _./-])(hours?|hrs)$|wall[ _-]*(clock)?[ _-]*(time)?[ _(-]*h(ours?)?\)?$"
_TOKENS = r"token|(^|[ _./-])toks?($|[ _./-])"
_ROLLOUTS = r"rollouts?$|episodes?$|completions$"
_STEPS = r"(^|[ /._-])(global_?|train(ing)?_?|optimizer_?|env_?)?(steps?|iterations?|iters?|updates?|frames?)$"

COMPUTE_NAMES = (  # the first as it is, the others without size and logarithm
    "^(" + "|".join(PLAIN_COMPUTE) + ")$",
    "^(" + "|".join(PLAIN_COMPUTE) + ")$",  # without a size: compute_k
    _GPU_HOURS,
    _DEVICE_HOURS,
    r"flop",
    _TOKENS,
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
    ("tokens", _TOKENS),
    ("rollouts", _ROLLOUTS),
    ("wall-hours", _WALL_HOURS),
    ("steps", _STEPS),
)


def plain_name(column: str) -> str:
    """Return a column's name in lower case."""
    return column.lower().strip()


def core_of(column: str) -> str:
    """Return the same without what the name says of size and logarithm."""
    return scale_of(column).core


def unit_of(column: str) -> str | None:
    """Return the unit of compute in a column's name, or None."""
    core = core_of(column)
    return PLAIN_COMPUTE.get(core) or next((unit for unit, pattern in _UNITS if re.search(pattern, core)), None)


def compute_of(column: str, numbers: FloatArray, unit: str, notes: list[str]) -> FloatArray:
    """Return the numbers of a column in ``unit``: a logarithm undone, and multiplied as its name says.

    A size in the name counts only if ``unit`` is the one in the name.
    """
    scale = scale_of(column)
    if unit_of(column) not in (unit, None):
        scale = replace(scale, factor=1.0)
    return scale.values(column, numbers, notes)
