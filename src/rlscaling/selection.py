"""Which evaluations a fit uses: the cutoff, excluded ranges and the anchor for R0; and the options, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.curves import Array
from rlscaling.errors import FitError
from rlscaling.format import number
from rlscaling.printing import unit_text
from rlscaling.results import FitData, FitOptions
from rlscaling.trace import COMPUTE_UNITS, as_floats

MIN_POINTS = 5
DEFAULT_MIN_COMPUTE = 1500.0  # GPU-hours [ScaleRL, A.5]
EPOCH = "epoch"  # min_compute: where the trace says that its first epoch ends
METHODS = ("varpro", "paper-grid")
SMALLEST = 1e-100
DEFAULT_B_BOUNDS = (0.1, 10.0)
MAX_WEIGHT_RATIO = 1e12


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


def with_epoch(
    options: Mapping[str, Any], compute: Array, step: Array | None, metadata: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the options with ``min_compute="epoch"`` replaced by the compute at which the first epoch has ended.

    Raises
    ------
    FitError
        When the trace does not say where its first epoch ends, or has not come to it.
    """
    if not isinstance(options.get("min_compute"), str) or options["min_compute"] != EPOCH:
        return options
    end = metadata.get("first_epoch_end")
    if not isinstance(end, int | float) or not math.isfinite(end):
        raise FitError(
            f"min_compute={EPOCH!r} needs a trace whose header has first_epoch_end, in steps, as the trainer writes "
            "it; give a number (--min-compute)"
        )
    steps = compute if options.get("compute_unit") == "steps" else step
    if steps is None:
        raise FitError(f"min_compute={EPOCH!r} needs the column step, which the trace has not; give a number")
    after = compute[steps >= end]
    if not len(after):
        raise FitError(
            f"the first epoch ends at step {number(end)}, and the last evaluation is at step {number(steps[-1])}: "
            "wait for more, or give a number (--min-compute)"
        )
    return {**options, "min_compute": float(after[0])}


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


def select(
    C: Array, y: Array, weights: ArrayLike | None, o: FitOptions, columns: Mapping[str, Any]
) -> tuple[FitData, tuple[str, ...]]:
    """Return the data with what is used of them and the anchor, and notes on both.

    Raises
    ------
    FitError
        When fewer than 5 points are left: with the range of the data and the option to add.
    """
    w = None if weights is None else _checked_weights(weights, len(C))
    dropped = np.zeros(len(C), dtype=bool)
    for low, high in o.exclude:
        dropped |= (low <= C) & (high >= C)
    used = (o.min_compute <= C) & (o.max_compute >= C) & ~dropped
    kept = np.flatnonzero(~dropped)
    anchor = None
    if o.R0 is None and len(kept) and (C[kept[0]] < o.min_compute or C[kept[0]] == 0):
        anchor = int(kept[0])
        used[anchor] = False
    notes: list[str] = []
    if o.method == "paper-grid":
        _check_paper_R0(o, C, anchor)
    elif o.R0 is None and anchor is None:
        notes.append("no evaluation before the cutoff: R0 is free; B and C_mid depend on it (R0= fixes it)")
    if o.exclude:
        notes.append(f"{int(dropped.sum())} evaluations left out by exclude")
    if int(used.sum()) < MIN_POINTS:
        _too_few(C, int(used.sum()), o)
    if not np.any(C[used] > 0):
        raise FitError("every fitted evaluation is at compute 0; the curve needs positive compute")
    return FitData(C, y, used, anchor, w, **columns), tuple(notes)


def _checked_weights(weights: ArrayLike, n: int) -> Array:
    w = as_floats(weights, "weights")
    if len(w) != n:
        raise FitError(f"weights has {len(w)} values for {n} evaluations; give one per evaluation")
    if np.all(np.isfinite(w) & (w > 0)) and w.max() > MAX_WEIGHT_RATIO * w.min():
        raise FitError(
            f"weights span {w.min():g} to {w.max():g}, more than a factor {MAX_WEIGHT_RATIO:g}; "
            "use exclude= to drop points"
        )
    bad = np.flatnonzero(~(np.isfinite(w) & (w > 0)))
    if len(bad):
        raise FitError(
            f"weights[{bad[0]}] is {w[bad[0]]:g}: weights are positive and finite (inverse variances); "
            "to leave an evaluation out use exclude="
        )
    return w


def _check_paper_R0(o: FitOptions, C: Array, anchor: int | None) -> None:
    if isinstance(o.R0, float) and o.R0_se is None:
        return
    if o.R0 is None and o.R0_se is None and anchor is not None and C[anchor] == 0:
        return
    raise FitError(
        'method="paper-grid" needs a fixed R0: give R0= (without R0_se), or an evaluation at compute 0; '
        "the paper's grid has no axis for it"
    )


def _too_few(C: Array, n: int, o: FitOptions) -> None:
    """Raise with the range of the data and the option that would help, if one would."""
    unit = unit_text(o.compute_unit)
    start = "" if o.R0 is not None else " besides the one at compute 0, which anchors R0,"
    usable = C[C > 0] if o.R0 is None else C
    if len(usable) < MIN_POINTS:
        raise FitError(
            f"{len(usable)} evaluations{start if len(usable) < len(C) else ''} are too few: a fit needs {MIN_POINTS}; "
            "evaluate more often or run on"
        )
    inside = f"the data run from {number(float(C[0]))} to {number(float(C[-1]))} {unit} ({len(C)} evaluations)"
    hint = "widen min_compute, max_compute or exclude"
    if o.min_compute > 0 and math.isinf(o.max_compute) and not o.exclude:
        hint = "add min_compute=0 (--min-compute 0) to use them all"
        if usable[-MIN_POINTS] > C[0]:
            hint += f", or a cutoff up to {float(usable[-MIN_POINTS]):.10g}"
    raise FitError(f"{n} points {_window(o, unit)} are too few for a fit ({MIN_POINTS} needed); {inside}; {hint}")


def _window(o: FitOptions, unit: str) -> str:
    if math.isinf(o.max_compute):
        return f"from {number(o.min_compute)} {unit} on"
    return f"between {number(o.min_compute)} and {number(o.max_compute)} {unit}"


def check_size(C: Array, y: Array) -> None:
    """Refuse values so large or small that their squares leave the range of numbers.

    Raises
    ------
    FitError
        Naming the value and what to do.
    """
    for what, values in (("compute", C), ("pass_rate", y)):
        size = np.abs(values[values != 0])
        for value in (size.max(initial=1.0), size.min(initial=1.0)):
            if not SMALLEST <= value <= 1.0 / SMALLEST and (what == "compute" or value > 1.0):
                raise FitError(
                    f"{what} holds {value:g}, outside {SMALLEST:g} to {1.0 / SMALLEST:g}; divide it by a constant first"
                )
