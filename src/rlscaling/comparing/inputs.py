"""`ComparisonInputs`, and the check that runs can be compared: names, units, devices, compute in common."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from rlscaling.arrays import Array
from rlscaling.errors import FitError, RLScalingWarning
from rlscaling.fitting.fit import refit
from rlscaling.fitting.sigmoid_fit import FailedFit, SigmoidFit
from rlscaling.fitting.strays import without_strays
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL, Verdict
from rlscaling.printing.numbers import number, unit_text

HOUR_UNITS = ("gpu-hours", "device-hours", "wall-hours")
DEVICE_KEYS = ("device", "device_name", "gpu", "gpu_name", "hardware")
R0_OFF, P_R0_OFF = 0.04, 1e-3  # a run this far from the shared R0, and that improbably, may have another base model
LEAST_OTHERS = 3  # seeds of a recipe to each that is a misfit, for it to be left out
COUNT_KEYS = ("device_count", "n_devices", "n_gpus", "num_gpus", "world_size")


@dataclass(frozen=True, eq=False)
class ComparisonInputs:
    """Recipes that can be compared, each with the fits of its training runs, and remarks on them."""

    recipes: dict[str, tuple[SigmoidFit, ...]]
    notes: tuple[str, ...] = ()

    @property
    def compute_unit(self) -> str:
        """Unit of compute of all runs."""
        return next(iter(self.recipes.values()))[0].compute_unit

    @property
    def common_compute(self) -> tuple[float, float]:
        """First and last compute between which every run has evaluations."""
        spans = [_span(fit) for fits in self.recipes.values() for fit in fits]
        return max(low for low, _ in spans), min(high for _, high in spans)


def check_comparable(
    fits: Mapping[str, SigmoidFit | Sequence[SigmoidFit]],
    *,
    device_factors: Mapping[str, float] | None = None,
    caller: str = "compare",
) -> ComparisonInputs:
    """Check that fits can be compared, and convert compute on different devices to one measure.

    Raises
    ------
    FitError
        Naming the run, what is wrong with it and what to do.
    """
    recipes = _recipes(fits, caller)
    runs = [(_label(name, j, seeds), fit) for name, seeds in recipes.items() for j, fit in enumerate(seeds)]
    for label, fit in runs:
        _check_run(label, fit)
    _check_distinct(runs)
    _check_scale(runs)
    notes = _check_devices(runs, device_factors)
    if device_factors:
        recipes = {name: tuple(_priced(fit, device_factors) for fit in seeds) for name, seeds in recipes.items()}
        runs = [(_label(name, j, seeds), fit) for name, seeds in recipes.items() for j, fit in enumerate(seeds)]
    _check_overlap(runs)
    for note in notes:
        _warn(note)
    recipes, left_out = _fit_to_compare(recipes)
    return ComparisonInputs(recipes, (*notes, *left_out))


def _fit_to_compare(
    recipes: dict[str, tuple[SigmoidFit, ...]],
) -> tuple[dict[str, tuple[SigmoidFit, ...]], list[str]]:
    """Leave out stray evaluations of misfits, and misfits that are few among the seeds of a recipe; say what."""
    kept, notes = {}, []
    for name, seeds in recipes.items():
        better = []
        for j, fit in enumerate(seeds):
            found = without_strays(fit)
            if found is not None:
                notes.append(f"{_label(name, j, seeds)} takes part {found.sentence}")
            better.append(fit if found is None else found.fit)
        misfits = [j for j, fit in enumerate(better) if fit.verdict is Verdict.MISFIT]
        if misfits and len(better) - len(misfits) >= LEAST_OTHERS * len(misfits):
            labels = ", ".join(_label(name, j, seeds) for j in misfits)
            notes.append(f"{labels} {'are no sigmoids' if len(misfits) > 1 else 'is no sigmoid'}: left out of {name}")
            better = [fit for j, fit in enumerate(better) if j not in misfits]
        kept[name] = tuple(better)
    return kept, notes


def _label(name: str, j: int, seeds: Sequence[SigmoidFit]) -> str:
    return f"{name}, seed {j + 1}" if len(seeds) > 1 else name


def _recipes(fits: Mapping[str, SigmoidFit | Sequence[SigmoidFit]], caller: str) -> dict[str, tuple[SigmoidFit, ...]]:
    if not isinstance(fits, Mapping):
        raise FitError(
            f'{caller} takes a mapping of names to fits, e.g. {{"scalerl": fit, "dapo": fit}}, not a '
            f"{type(fits).__name__}"
        )
    recipes: dict[str, tuple[SigmoidFit, ...]] = {}
    for key, value in fits.items():
        name = str(key).strip()
        if name in recipes or not name:
            raise FitError(
                f"the name {key!r} stands for two recipes; give each a name of its own (several seeds of one recipe go "
                "into a list under one name)"
            )
        seeds = tuple(value) if isinstance(value, list | tuple) else (value,)
        if not seeds:
            raise FitError(f"{name} has no fits; give one, or leave the name out")
        recipes[name] = seeds
    if len(recipes) < 2:
        what = f"only {next(iter(recipes))} was given" if recipes else "no recipe was given"
        raise FitError(f"{what}; {caller} needs two or more, each under a name of its own")
    return recipes


def _check_run(label: str, fit: Any) -> None:
    if isinstance(fit, FailedFit):
        raise FitError(f"{label} has no fit: {fit.error}; leave it out, or repair it")
    if not isinstance(fit, SigmoidFit):
        raise FitError(f"{label} is a {type(fit).__name__}, not a fit; fit it first with fit_trace or fit_sigmoid")
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        raise FitError(
            f"{label}: {fit.n_points} fitted points are too few for an interval ({MIN_POINTS_FOR_INTERVAL} needed); "
            "leave it out, evaluate more often, or lower min_compute"
        )


def _check_distinct(runs: Sequence[tuple[str, SigmoidFit]]) -> None:
    seen: dict[tuple[bytes, bytes], str] = {}
    for label, fit in runs:
        key = (fit.data.compute.tobytes(), fit.data.pass_rate.tobytes())
        if key in seen:
            raise FitError(
                f"{seen[key]} and {label} are the same run: equal compute and pass rates; leave one of them out"
            )
        seen[key] = label


def _check_scale(runs: Sequence[tuple[str, SigmoidFit]]) -> None:
    first_label, first = runs[0]
    for label, fit in runs[1:]:
        if fit.compute_unit != first.compute_unit:
            raise FitError(
                f"compute of {first_label} is in {unit_text(first.compute_unit)}, that of {label} in "
                f"{unit_text(fit.compute_unit)}; convert one of them and fit again with compute_unit="
            )
        if fit.options.A_max != first.options.A_max:
            raise FitError(
                f"{first_label} was fitted with A_max={first.options.A_max:g}, {label} with "
                f"A_max={fit.options.A_max:g}; pass rates and scores cannot be compared: fit all with one A_max"
            )


def _check_overlap(runs: Sequence[tuple[str, SigmoidFit]]) -> None:
    late_label, late = max(runs, key=lambda run: _span(run[1])[0])
    early_label, early = min(runs, key=lambda run: _span(run[1])[1])
    start, end, unit = _span(late)[0], _span(early)[1], unit_text(late.compute_unit)
    if start > end:
        raise FitError(
            f"no common compute: {early_label} ends at {number(end)} {unit}, {late_label} begins at {number(start)}; "
            "run the first one on, take the second from its beginning, or check that both count the same unit"
        )


def _span(fit: SigmoidFit) -> tuple[float, float]:
    """Return the first and last positive compute of a run's evaluations, left-out ones included."""
    compute = fit.data.compute[fit.data.compute > 0]
    return float(compute[0]), float(compute[-1])


def device_of(fit: SigmoidFit) -> str | None:
    """Return the name of the device in a run's header, or None."""
    device = next((fit.metadata[key] for key in DEVICE_KEYS if fit.metadata.get(key)), None)
    return None if device is None else str(device)


def _count_of(fit: SigmoidFit) -> float | None:
    count = next((fit.metadata[key] for key in COUNT_KEYS if fit.metadata.get(key)), None)
    try:
        return None if count is None else float(count)
    except (TypeError, ValueError):
        return None


def _check_devices(runs: Sequence[tuple[str, SigmoidFit]], factors: Mapping[str, float] | None) -> list[str]:
    """Return warnings about devices.

    Hours of different devices without factors, and wall hours of different numbers of devices, are errors.
    """
    unit = runs[0][1].compute_unit
    devices = {label: device_of(fit) for label, fit in runs}
    counts = {label: _count_of(fit) for label, fit in runs}
    if factors is not None:
        _check_factors(devices, factors)
    if unit not in HOUR_UNITS:
        return []
    notes = []
    other = _first_difference(devices)
    if other is not None and factors is None:
        (a, x), (b, y) = other
        raise FitError(
            f"{a} ran on {x}, {b} on {y}: their {unit_text(unit)} are not the same compute; give device_factors= "
            f'(--device-factors), the price or speed of an hour of each, e.g. {{"{x}": 1.0, "{y}": 0.5}}'
        )
    other = _first_difference(counts)
    if other is not None:
        (a, x), (b, y) = other
        what = f"{a} ran on {number(float(x))} devices, {b} on {number(float(y))}"
        if unit == "wall-hours":
            raise FitError(f"{what}: their wall hours are not the same compute; multiply by the number of devices")
        notes.append(f"{what}: an hour of one device may do less work in the larger run")
    if None in devices.values() and any(devices.values()):
        unknown = next(label for label, device in devices.items() if device is None)
        notes.append(f"{unknown} does not name its device; its {unit_text(unit)} are used as they are")
    return notes


def _first_difference(values: Mapping[str, Any]) -> tuple[tuple[str, Any], tuple[str, Any]] | None:
    """Return the first two runs whose values differ, of those that have one."""
    named = [(label, value) for label, value in values.items() if value is not None]
    return next(((named[0], other) for other in named[1:] if other[1] != named[0][1]), None)


def _check_factors(devices: Mapping[str, str | None], factors: Mapping[str, float]) -> None:
    for device, factor in factors.items():
        if isinstance(factor, bool) or not isinstance(factor, int | float | np.number) or not 0 < factor < math.inf:
            raise FitError(f"device_factors[{device!r}] is {factor!r}: a factor is a positive, finite number")
    for label, name in devices.items():
        if name not in factors:
            what = f"ran on {name}" if name else "does not name its device (metadata 'device')"
            raise FitError(f"{label} {what}, and device_factors= names only {', '.join(factors)}; add it")


def _priced(fit: SigmoidFit, factors: Mapping[str, float]) -> SigmoidFit:
    """Return the fit with its compute multiplied by the factor of its device."""
    factor = float(factors[device_of(fit) or ""])
    if factor == 1.0:
        return fit
    o = fit.options
    data = replace(fit.data, compute=fit.data.compute * factor)
    grid = None if o.grid is None else {"A": o.grid[0], "C_mid": tuple(c * factor for c in o.grid[1])}
    return refit(
        replace(fit, data=data),
        min_compute=o.min_compute * factor,
        max_compute=o.max_compute * factor,
        exclude=tuple((low * factor, high * factor) for low, high in o.exclude),
        **({} if grid is None else {"grid": grid}),
    )


def _warn(note: str) -> None:
    """Warn at the line outside this package from which it was called."""
    level = 1
    while str(sys._getframe(level).f_globals.get("__name__")).startswith("rlscaling."):
        level += 1
    warnings.warn(note, RLScalingWarning, stacklevel=level + 1)


def check_fixed_R0(runs: ComparisonInputs) -> None:
    """Raise for runs whose R0 is fixed at different values: they cannot share one."""
    fixed = {
        name: float(fit.options.R0)
        for name, seeds in runs.recipes.items()
        for fit in seeds
        if isinstance(fit.options.R0, int | float) and fit.R0_source == "fixed"
    }
    low, high = min(fixed, key=fixed.__getitem__, default=""), max(fixed, key=fixed.__getitem__, default="")
    if fixed and fixed[low] != fixed[high]:
        raise FitError(
            f"R0 is fixed at {fixed[low]:g} in {low} and at {fixed[high]:g} in {high}; B and C_mid can be compared at "
            "one R0 only: fix it at one value, or give shared_R0=False (--own-R0)"
        )


def R0_notes(runs: ComparisonInputs, R0: float | None, own: Array, error: Array, scale: float) -> list[str]:
    """Return remarks on R0: that it is not shared, or which runs do not seem to start at the shared one."""
    if R0 is None:
        return ["each run has its own R0: B, C_mid and C90 of different recipes cannot be compared"]
    off = np.abs(own - R0)
    labels = [name for name, seeds in runs.recipes.items() for _ in seeds]
    errors = float(ndtri(1.0 - 0.5 * P_R0_OFF / len(own)))  # over all runs: a thousand have wide outliers
    has_curve = np.array([fit.verdict.has_curve for seeds in runs.recipes.values() for fit in seeds])
    outliers = np.flatnonzero(has_curve & (off > R0_OFF * scale) & (off > errors * error)).tolist()
    if not outliers:
        return []
    values = ", ".join(f"{labels[i]} at {number(float(own[i]), 3)}" for i in outliers[:5])
    note = (
        f"the shared R0 is {number(R0, 3)}, but by themselves start {values}: another base model? then shared_R0=False "
        "(--own-R0)"
    )
    _warn(note)
    return [note]
