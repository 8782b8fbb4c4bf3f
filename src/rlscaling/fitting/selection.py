"""Which evaluations a fit uses: the cutoff, excluded ranges and the observation of R0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array, Mask, as_floats
from rlscaling.errors import FitError
from rlscaling.fitting.data import FitData
from rlscaling.fitting.options import EPOCH, SMALLEST, FitOptions
from rlscaling.printing.numbers import number, unit_text
from rlscaling.solver.noise import sd_of_differences

MIN_POINTS = 5
MIN_EARLY, LEAST_JUMP, FAR = 3, 0.05, 8.0  # left-out evaluations; in pass rate; in sd of an evaluation
MAX_WEIGHT_RATIO = 1e12


def with_epoch(
    options: Mapping[str, Any], compute: Array, step: Array | None, metadata: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the options with ``min_compute="epoch"`` replaced by the compute at which the first epoch has ended.

    Raises
    ------
    FitError
        When the trace does not say where its first epoch ends, or has not reached it.
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


def select(
    C: Array, y: Array, weights: ArrayLike | None, o: FitOptions, columns: Mapping[str, Any]
) -> tuple[FitData, tuple[str, ...]]:
    """Return the data with the evaluations that are used and the observation of R0, and notes on both.

    Raises
    ------
    FitError
        When fewer than 5 points are left: with the range of the data and the option to add.
    """
    w = None if weights is None else checked_weights(weights, len(C))
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
    if anchor is not None and o.method != "paper-grid" and _starts_with_a_jump(C, y, anchor, used, bounded=o.bounded):
        notes.append(
            f"the first evaluation ({number(float(y[anchor]), 3)}) lies far off those that follow it, as in a run that "
            "first learns the format: it is left out, and R0 is free"
        )
        anchor = None
    elif o.method == "paper-grid":
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


def _starts_with_a_jump(C: Array, y: Array, first: int, used: Mask, *, bounded: bool) -> bool:
    """Return whether the evaluations before the cutoff stand together, far off the first one."""
    start = int(np.flatnonzero(used)[0]) if used.any() else len(C)
    early = y[first + 1 : start][:MIN_EARLY]
    if len(early) < MIN_EARLY or used.sum() < MIN_POINTS:
        return False
    jump, sd = abs(float(np.median(early)) - float(y[first])), sd_of_differences(y[used])
    scale = 1.0 if bounded else float(np.ptp(y))
    return bool(jump > max(LEAST_JUMP * scale, FAR * sd) and np.ptp(early) < 0.25 * jump)


def left_out(data: FitData, o: FitOptions) -> list[str]:
    """Return a text on how many evaluations were left out and why; none if there are none."""
    anchor = np.arange(len(data)) == data.anchor
    early, late = (data.compute < o.min_compute) & ~anchor, data.compute > o.max_compute
    counts = {
        f"min_compute {number(o.min_compute)}": int(early.sum()),
        f"max_compute {number(o.max_compute)}": int(late.sum()),
        "exclude": int((~data.used & ~anchor & ~early & ~late).sum()),
    }
    why = {reason: n for reason, n in counts.items() if n}
    if len(why) < 2:
        return [f"{n} left out ({reason})" for reason, n in why.items()]
    return [f"{sum(why.values())} left out ({', '.join(f'{n} by {reason}' for reason, n in why.items())})"]


def checked_weights(weights: ArrayLike, n: int) -> Array:
    """Return the weights as an array.

    Raises
    ------
    FitError
        Unless there is one positive, finite number for each of ``n`` evaluations.
    """
    w = as_floats(weights, "weights")
    if len(w) != n:
        raise FitError(f"weights has {len(w)} values for {n} evaluations; give one per evaluation")
    if np.all(np.isfinite(w) & (w > 0)) and w.min() < w.max() / MAX_WEIGHT_RATIO:
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
    """Raise FitError for values so large or small that their squares leave the range of floating-point numbers.

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
    largest = float(np.abs(y).max())
    if 0.0 < largest < SMALLEST:
        raise FitError(f"no pass_rate is larger than {largest:g}, below {SMALLEST:g}; multiply it by a constant first")
