"""The one check that every series of compute and pass rates passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlscaling.arrays import FloatArray, as_floats
from rlscaling.errors import TraceError
from rlscaling.traces.schema import SCALES


def check_series(
    compute: Any,
    pass_rate: Any,
    *,
    bounded: bool = True,
    scale: str = "fraction",
    rows: Sequence[int] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Validate one run's evaluations and return them as float arrays, pass rates as fractions.

    Parameters
    ----------
    compute
        Compute of each evaluation, shape (n,), not negative and strictly increasing; 0 is legal.
    pass_rate
        Score of each evaluation, shape (n,).
    bounded
        Raise for scores outside [0, 1].
    scale
        What the scores are: ``"fraction"``, ``"percent"`` (divided by 100), ``"pm1"`` (from [-1, 1], mapped
        by (y + 1) / 2) or ``"reward"`` (left as they are, not bounded).
    rows
        Row of each evaluation in the file it came from; messages then name rows instead of positions.

    Returns
    -------
    tuple of numpy.ndarray
        Compute and pass rate, float64, shape (n,) each.

    Raises
    ------
    TraceError
        When the series cannot be used as it stands; the message names the place, the reason and the remedy.

    Examples
    --------
    >>> check_series([100, 200], [31.0, 40.0], scale="percent")
    (array([100., 200.]), array([0.31, 0.4 ]))
    """
    if scale not in SCALES:
        raise TraceError(f"scale={scale!r} is unknown; choose one of {', '.join(SCALES)}")
    C, y = as_floats(compute, "compute"), as_floats(pass_rate, "pass_rate")
    if len(C) != len(y):
        raise TraceError(f"compute has {len(C)} values and pass_rate {len(y)}; pass one of each per evaluation")
    if not len(C):
        raise TraceError("no evaluations: compute and pass_rate are empty; pass at least one evaluation")

    def place(i: int) -> str:
        return f"position {i}" if rows is None else f"row {rows[i]}"

    for what, values in (("compute", C), ("pass_rate", y)):
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            more = f" ({len(bad)} such values in all)" if len(bad) > 1 else ""
            raise TraceError(
                f"{what} at {place(bad[0])} is {values[bad[0]]}{more}: not a finite number; drop or repair "
                "that evaluation"
            )
    if C.min() < 0:
        i = int(C.argmin())
        raise TraceError(f"compute at {place(i)} is {C[i]:g}: negative; compute counts up from 0, repair the axis")
    _check_order(C, place, "rows" if rows is not None else "positions")
    return C, _to_fraction(y, scale, bounded, place)


def _check_order(C: FloatArray, place: Callable[[int], str], places: str) -> None:
    """Raise for compute that does not rise, with the likeliest reason."""
    change = np.diff(C)
    if (change > 0).all():
        return
    falls = np.flatnonzero(change < 0) + 1
    values, counts = np.unique(C, return_counts=True)
    if len(falls) and all(_is_restart(C, int(i)) for i in falls):
        where = ", ".join(place(int(i)).split()[1] for i in falls[:5]) + (", ..." if len(falls) > 5 else "")
        raise TraceError(
            f"compute looks like {len(falls) + 1} runs one after the other (compute restarts at {places} "
            f"{where}); read one run at a time: --run NAME / run= with run_column= on a file, or split the "
            "arrays there"
        )
    if len(values) > 1 and counts.min() == counts.max() > 1:
        raise TraceError(
            f"every compute value is a duplicate ({counts[0]} times each): looks like {counts[0]} runs or "
            "domains in one series; read one at a time: --run NAME / run= with run_column= on a file, or "
            "split the arrays"
        )
    if len(falls):
        i = int(falls[0])
        more = f", and {len(falls) - 1} more times" if len(falls) > 1 else ""
        raise TraceError(
            f"compute falls from {C[i - 1]:g} to {C[i]:g} at {place(i)}{more}; sort by compute (if a run was "
            "resumed and logged these steps again, keep one copy of them)"
        )
    if counts.max() > 1:
        twice = values[counts > 1][0]
        first, second = np.flatnonzero(C == twice)[:2]
        total = f" (duplicate compute at {int((counts > 1).sum())} values)" if (counts > 1).sum() > 1 else ""
        raise TraceError(
            f"compute {twice:g} is a duplicate: it is at {place(int(first))} and at "
            f"{place(int(second))}{total}; average them or keep one"
        )


def _is_restart(C: FloatArray, i: int) -> bool:
    """Whether a new run starts at ``i``: back near the beginning, then at least three rising points.

    A single dip, after which compute goes on where it was, is not a restart.
    """
    near = C[0] + 0.1 * (C[i - 1] - C[0])
    rising = C[i : i + 3]
    return bool(C[i] <= near and len(rising) == 3 and np.all(np.diff(rising) > 0) and rising[1] < C[i - 1])


def likely_scale(y: FloatArray) -> str:
    """Return the scale in which ``y`` was probably logged: an entry of ``SCALES``, from its range alone."""
    low, high = float(y.min()), float(y.max())
    if 0 <= low and high <= 1:
        return "fraction"
    if 0 <= low and 2 < high <= 100:
        return "percent"
    if -1 <= low < 0 and high <= 1:
        return "pm1"
    return "reward"


_SCALE_ADVICE = {
    "percent": 'looks like percent; divide by 100, or read the file with scale="percent" (--scale percent)',
    "pm1": 'looks like a mean of +1/-1 rewards; take (y + 1) / 2, or read the file with scale="pm1" (--scale pm1)',
    "reward": 'a reward? fit an unbounded score with A_max=inf, or read the file with scale="reward" (--scale reward)',
}


def _to_fraction(y: FloatArray, scale: str, bounded: bool, place: Callable[[int], str]) -> FloatArray:
    if scale == "percent":
        y = y / 100
    elif scale == "pm1":
        y = (y + 1) / 2
    outside = np.flatnonzero((y < 0) | (y > 1))
    if scale == "reward" or not bounded or not len(outside):
        return y
    i = int(outside[0])
    if scale != "fraction":
        raise TraceError(
            f"pass_rate at {place(i)} is {y[i]:g} after scale={scale!r}: outside [0, 1]; choose another scale"
        )
    raise TraceError(
        f"pass_rate at {place(i)} is {y[i]:g}: outside [0, 1] (values span {y.min():g} to {y.max():g}); "
        + _SCALE_ADVICE[likely_scale(y)]
    )
