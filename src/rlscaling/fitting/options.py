"""`FitOptions`: how a run is fitted, one field per option, checked and with its defaults filled in."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlscaling.arrays import as_floats
from rlscaling.errors import FitError
from rlscaling.option_fields import check_options, number, option
from rlscaling.printing.numbers import unit_text
from rlscaling.traces.schema import COMPUTE_UNITS

DEFAULT_MIN_COMPUTE = 1500.0  # GPU-hours [ScaleRL, A.5]
EPOCH = "epoch"  # min_compute: where the trace says that its first epoch ends
METHODS = ("varpro", "paper-grid")
SMALLEST = 1e-100
DEFAULT_B_BOUNDS = (0.1, 10.0)


def _number_or(word: str) -> Any:
    """Return the reader of a number or a word on the command line."""
    return lambda text: text if text == word else number(text)


def _range_of(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not LOW:HIGH, e.g. 3000:3500")
    return (number(low) if low else 0.0), (number(high) if high else math.inf)


@dataclass(frozen=True)
class FitOptions:
    """How a run is fitted: enough to repeat the fit on other data.

    The fields are the keyword arguments of `fit_sigmoid`, which documents them. They are checked and completed when
    the object is made: ``min_compute=None`` becomes the default cutoff of the unit.

    Raises
    ------
    FitError
        For a value outside its range, or two options that contradict each other.
    """

    compute_unit: str = option(
        "gpu-hours", f"unit of compute: {', '.join(COMPUTE_UNITS)}", choices=COMPUTE_UNITS, metavar="U",
        default_help="that of the file, else gpu-hours",
    )  # fmt: skip
    R0: float | str | None = option(
        None, "pass rate before training", metavar="VALUE|free", parse=_number_or("free"),
        default_help="observed at the earliest evaluation if that is before the cutoff, else free",
    )  # fmt: skip
    R0_se: float | None = option(
        None, "standard error of the observation of R0", metavar="X", parse=number, default_help="0.015"
    )
    A: float | None = option(None, "fix the ceiling A", metavar="X", parse=number, default_help="fitted")
    B: float | None = option(None, "fix the exponent B", metavar="X", parse=number, default_help="fitted")
    A_max: float = option(
        1.0, "upper bound of A; inf for unbounded scores", metavar="X", default_help="1; inf for rewards"
    )
    B_bounds: tuple[float, float] = option(
        DEFAULT_B_BOUNDS, "bounds of the exponent B", metavar=("LO", "HI"), parse=number, default_help="0.1 10",
        argparse={"nargs": 2},
    )  # fmt: skip
    min_compute: float = option(
        None, "leave out earlier evaluations; epoch: those of the first epoch, if the trace records its end",
        metavar="X", parse=_number_or(EPOCH),
        default_help="1500 for GPU-hours, none for other units; 0 keeps everything",
    )  # fmt: skip
    max_compute: float = option(math.inf, "leave out later evaluations", metavar="X")
    exclude: tuple[tuple[float, float], ...] = option(
        (), "leave out a range of compute; may be repeated", metavar="LOW:HIGH", parse=_range_of,
        default_help="none", argparse={"action": "append"},
    )  # fmt: skip
    method: str = option("varpro", "solver; paper-grid reproduces the procedure of the ScaleRL paper", choices=METHODS)
    grid: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # A values, C_mid values of the paper's grid

    def __post_init__(self) -> None:
        check_options(self, FitError)
        checked: dict[str, Any] = {"min_compute": _checked_cutoff(self.min_compute, self.compute_unit)}
        for name in ("R0_se", "A", "B"):
            value = getattr(self, name)
            checked[name] = None if value is None else _real(value, name)
        for name in ("A_max", "max_compute"):
            if getattr(self, name) is None:
                raise FitError(f"{name}=None is not a number; leave it out, or give inf for no bound")
            checked[name] = _real(getattr(self, name), name, allow_infinite=True)
        checked["B_bounds"] = _pair(self.B_bounds, "B_bounds")
        checked["exclude"] = tuple(_pair(r, "exclude") for r in _ranges(self.exclude))
        checked["R0"] = _checked_R0(self.R0)
        checked["grid"] = _checked_grid(self.grid)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        _check_consistent(self)

    @property
    def bounded(self) -> bool:
        """Whether the scores are pass rates, which have a bound; otherwise they are any real numbers."""
        return math.isfinite(self.A_max)


def resolve_options(given: Mapping[str, Any]) -> FitOptions:
    """Return the options of a fit, from a mapping of their names.

    Raises
    ------
    FitError
        For an unknown option, a value outside its range, or two that contradict each other.
    """
    known = [field.name for field in dataclasses.fields(FitOptions)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise FitError(f"unknown option {unknown[0]!r}; the options of a fit are {', '.join(known)}")
    return FitOptions(**given)


def _checked_cutoff(value: Any, unit: str) -> float:
    if value is None:
        if unit != "gpu-hours":
            raise FitError(
                f"compute is in {unit_text(unit)}, for which there is no default cutoff; give min_compute= "
                f"(--min-compute), the end of the first epoch ({EPOCH!r} where the trace records it); "
                "0 keeps everything"
            )
        return DEFAULT_MIN_COMPUTE
    if isinstance(value, str) and value == EPOCH:
        raise FitError(f"min_compute={EPOCH!r} is for a Trace that records it; for two columns give a number")
    return _real(value, "min_compute")


def _real(value: Any, name: str, *, allow_infinite: bool = False) -> float:
    try:
        converted = float(value)
    except (TypeError, ValueError):
        raise FitError(f"{name}={value!r} is not a number") from None
    except OverflowError:
        raise FitError(f"{name} is too large for a number; give a finite value") from None
    if math.isnan(converted) or (math.isinf(converted) and not (allow_infinite and converted > 0)):
        raise FitError(f"{name}={value!r} is not a finite number; give a finite value or leave it out")
    return converted


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
    if isinstance(grid, tuple) and len(grid) == 2:  # of options that were checked before
        grid = {"A": grid[0], "C_mid": grid[1]}
    if not isinstance(grid, Mapping) or set(grid) != {"A", "C_mid"}:
        raise FitError('grid must be a mapping with the values of "A" and "C_mid", e.g. {"A": [...], "C_mid": [...]}')
    axes = tuple(tuple(as_floats(grid[name], f"grid[{name!r}]").tolist()) for name in ("A", "C_mid"))
    for name, axis in zip(("A", "C_mid"), axes, strict=True):
        if not axis or not all(math.isfinite(v) and v > 0 for v in axis):
            raise FitError(f"grid[{name!r}] must hold finite positive values; it holds {axis[:5]}")
    return axes[0], axes[1]


def _check_consistent(o: FitOptions) -> None:
    """Refuse options that contradict each other."""
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
    if o.bounded:
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


def restored_options(saved: Mapping[str, Any]) -> FitOptions:
    """Return the options that a saved fit holds."""
    options = dict(saved)
    options["A_max"], options["max_compute"] = infinite(options["A_max"]), infinite(options["max_compute"])
    options["B_bounds"] = tuple(options["B_bounds"])
    options["exclude"] = tuple((low, infinite(high)) for low, high in options["exclude"])
    if options["grid"] is not None:
        options["grid"] = tuple(tuple(axis) for axis in options["grid"])
    return FitOptions(**options)


def infinite(value: float | None) -> float:
    """Return a number of a saved fit: None stands for infinity."""
    return math.inf if value is None else value
