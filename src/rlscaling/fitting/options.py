"""What goes into a fit and stays with it: options, data, and their JSON-ready forms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlscaling.arrays import as_floats
from rlscaling.errors import FitError
from rlscaling.printing.numbers import unit_text
from rlscaling.traces.schema import COMPUTE_UNITS


@dataclass(frozen=True)
class FitOptions:
    """How a fit was asked for: enough to repeat it on other data."""

    compute_unit: str = "gpu-hours"
    R0: float | str | None = None
    R0_se: float | None = None
    A: float | None = None
    B: float | None = None
    A_max: float = 1.0
    B_bounds: tuple[float, float] = (0.1, 10.0)
    min_compute: float = 0.0
    max_compute: float = math.inf
    exclude: tuple[tuple[float, float], ...] = ()
    method: str = "varpro"
    grid: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # A values, C_mid values of the paper's grid


DEFAULT_MIN_COMPUTE = 1500.0  # GPU-hours [ScaleRL, A.5]
EPOCH = "epoch"  # min_compute: where the trace says that its first epoch ends
METHODS = ("varpro", "paper-grid")
SMALLEST = 1e-100
DEFAULT_B_BOUNDS = (0.1, 10.0)


def resolve_options(given: Mapping[str, Any]) -> FitOptions:
    """Return checked options with defaults filled in.

    Raises
    ------
    FitError
        For an unknown option, a value outside its range, or two that contradict each other.
    """
    unknown = set(given) - set(FitOptions.__dataclass_fields__)
    if unknown:
        known = ", ".join(FitOptions.__dataclass_fields__)
        raise FitError(f"unknown option {sorted(unknown)[0]!r}; the options of a fit are {known}, weights, on_failure")
    o = dict(given)
    unit = o.setdefault("compute_unit", "gpu-hours")
    if unit not in COMPUTE_UNITS:
        raise FitError(f"compute_unit={unit!r} is unknown; choose one of {', '.join(COMPUTE_UNITS)}")
    if o.get("min_compute") is None:
        if unit != "gpu-hours":
            raise FitError(
                f"compute is in {unit_text(unit)}, for which there is no default cutoff; give min_compute= "
                f"(--min-compute), the end of the first epoch ({EPOCH!r} where the trace records it); "
                "0 keeps everything"
            )
        o["min_compute"] = DEFAULT_MIN_COMPUTE
    if isinstance(o["min_compute"], str) and o["min_compute"] == EPOCH:
        raise FitError(f"min_compute={EPOCH!r} is for a Trace that records it; for two columns give a number")
    for name in ("R0_se", "A", "B", "A_max", "min_compute", "max_compute"):
        if name in ("A_max", "max_compute") and name in o and o[name] is None:
            raise FitError(f"{name}=None is not a number; leave it out, or give inf for no bound")
        if o.get(name) is not None:
            o[name] = _real(o[name], name, allow_infinite=name in ("A_max", "max_compute"))
    o["B_bounds"] = _pair(o.get("B_bounds", (0.1, 10.0)), "B_bounds")
    o["exclude"] = tuple(_pair(r, "exclude") for r in _ranges(o.get("exclude", ())))
    o["R0"] = _checked_R0(o.get("R0"))
    o["grid"] = _checked_grid(o.get("grid"))
    options = FitOptions(**o)
    _check_consistent(options)
    return options


def _real(value: Any, name: str, *, allow_infinite: bool = False) -> float:
    try:
        number_ = float(value)
    except (TypeError, ValueError):
        raise FitError(f"{name}={value!r} is not a number") from None
    except OverflowError:
        raise FitError(f"{name} is too large for a number; give a finite value") from None
    if math.isnan(number_) or (math.isinf(number_) and not (allow_infinite and number_ > 0)):
        raise FitError(f"{name}={value!r} is not a finite number; give a finite value or leave it out")
    return number_


def _ranges(value: Any) -> list[Any]:
    try:
        return list(value)
    except TypeError:
        raise FitError(f"exclude={value!r} is not a list of (low, high) ranges, e.g. exclude=[(3000, 3500)]") from None


def _pair(value: Any, name: str) -> tuple[float, float]:
    try:
        low, high = value
    except (TypeError, ValueError):
        raise FitError(f"{name}={value!r} is not a pair (low, high)") from None
    low, high = _real(low, name), _real(high, name, allow_infinite=name == "exclude")
    if low > high:
        raise FitError(f"{name}=({low:g}, {high:g}): the lower end is above the upper one; swap them")
    return low, high


def _checked_R0(R0: Any) -> float | str | None:
    if R0 is None or (isinstance(R0, str) and R0 == "free"):
        return R0
    if isinstance(R0, str):
        raise FitError(f'R0={R0!r} is unknown; give a number, "free", or None (anchor on the earliest evaluation)')
    return _real(R0, "R0")


def _checked_grid(grid: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if grid is None:
        return None
    if not isinstance(grid, Mapping) or set(grid) != {"A", "C_mid"}:
        raise FitError('grid must be a mapping with the values of "A" and "C_mid", e.g. {"A": [...], "C_mid": [...]}')
    axes = tuple(tuple(as_floats(grid[name], f"grid[{name!r}]").tolist()) for name in ("A", "C_mid"))
    for name, axis in zip(("A", "C_mid"), axes, strict=True):
        if not axis or not all(math.isfinite(v) and v > 0 for v in axis):
            raise FitError(f"grid[{name!r}] must hold finite positive values; it holds {axis[:5]}")
    return axes[0], axes[1]


def _check_consistent(o: FitOptions) -> None:
    """Refuse options that contradict each other."""
    if o.method not in METHODS:
        raise FitError(f"method={o.method!r} is unknown; choose one of {', '.join(METHODS)}")
    if o.grid is not None and o.method != "paper-grid":
        raise FitError('grid= is used with method="paper-grid" only; drop it or set the method')
    if o.method == "paper-grid" and (o.A is not None or o.B is not None):
        raise FitError('method="paper-grid" searches A and B itself; drop A= and B=, or use method="varpro"')
    if o.R0_se is not None and not SMALLEST <= o.R0_se <= 1.0 / SMALLEST:
        raise FitError(
            f"R0_se={o.R0_se:g} must be positive and of sensible size; to fix R0 exactly give R0= without R0_se, "
            'to let it go R0="free"'
        )
    if o.R0 == "free" and o.R0_se is not None:
        raise FitError('R0="free" has no anchor, so R0_se says nothing; drop one of them')
    if o.B_bounds[0] <= 0 or (o.B is not None and o.B <= 0):
        raise FitError(f"B must be positive: B={o.B}, B_bounds={o.B_bounds}")
    if o.min_compute < 0 or o.max_compute <= o.min_compute:
        raise FitError(
            f"min_compute={o.min_compute:g} and max_compute={o.max_compute:g} leave no range; "
            "min_compute is 0 or more and below max_compute"
        )
    if o.B is not None and not o.B_bounds[0] <= o.B <= o.B_bounds[1] and o.B_bounds != DEFAULT_B_BOUNDS:
        raise FitError(f"B={o.B:g} lies outside B_bounds={o.B_bounds}; drop one of them")
    for name, value in (("A", o.A), ("R0", o.R0)):
        if isinstance(value, float) and abs(value) > 1.0 / SMALLEST:
            raise FitError(f"{name}={value:g} is too large; divide the scores by a constant first")
    if math.isfinite(o.A_max):
        _check_bounded(o)


def _fraction(value: float) -> str:
    meant = f", {value / 100:g} for {value:g} %" if 2.0 <= value <= 100.0 else ""
    return f"pass rates are fractions{meant}; for unbounded scores give A_max=inf"


def _check_bounded(o: FitOptions) -> None:
    R0 = o.R0 if isinstance(o.R0, float) else 0.0
    if not 0.0 < o.A_max <= 1.0:
        raise FitError(f"A_max={o.A_max:g}: a pass rate has a bound in (0, 1]; for unbounded scores give A_max=inf")
    if not 0.0 <= R0 < o.A_max:
        raise FitError(f"R0={R0:g} is outside [0, A_max={o.A_max:g}): {_fraction(R0)}")
    if o.A is not None and not R0 < o.A <= o.A_max:
        raise FitError(f"A={o.A:g} is outside (R0={R0:g}, A_max={o.A_max:g}]: {_fraction(o.A)}")
