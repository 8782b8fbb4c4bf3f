"""Rows that count when a resumed run has logged steps twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlscaling.arrays import FloatArray

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


def segments(step: FloatArray, training: BoolArray, *, strict: bool) -> IntArray:
    """Return which piece of the run each row belongs to, from 0: a new one begins where the step goes back.

    Parameters
    ----------
    step
        Step of each row in the order of writing, NaN where it has none.
    training
        Rows of training steps; others may be written late, such as evaluations in the background.
    strict
        Only a smaller step begins a new piece; otherwise a repeated step does, too.

    Examples
    --------
    >>> import numpy as np
    >>> segments(np.array([1.0, 2, 3, 2, 3, 4]), np.ones(6, dtype=bool), strict=False)
    array([0, 0, 0, 1, 1, 1])
    """
    rows = np.flatnonzero(training & np.isfinite(step))
    piece = np.zeros(len(step), dtype=np.int64)
    if len(rows) > 1:
        change = np.diff(step[rows])
        piece[rows[1:][change < 0 if strict else change <= 0]] = 1
    return np.cumsum(piece)


def kept_rows(step: FloatArray, training: BoolArray, piece: IntArray, policy: str) -> BoolArray:
    """Return the rows that count.

    Parameters
    ----------
    step, training, piece
        As for `segments`, called with the same training rows, of which every piece has one.
    policy
        ``"last"``: a later piece replaces the earlier rows of its steps; ``"first"``: the earlier rows stay;
        ``"all"``: every row counts.

    Examples
    --------
    >>> import numpy as np
    >>> step, all_rows = np.array([1.0, 2, 3, 2, 3, 4]), np.ones(6, dtype=bool)
    >>> kept_rows(step, all_rows, np.array([0, 0, 0, 1, 1, 1]), "last")
    array([ True, False, False,  True,  True,  True])
    """
    keep = np.ones(len(step), dtype=bool)
    n = int(piece[-1]) + 1 if len(piece) else 1
    if policy == "all" or n == 1:
        return keep
    begins = np.array([_bound(step, training, piece, i, np.minimum) for i in range(n)])
    ends = np.array([_bound(step, training, piece, i, np.maximum) for i in range(n)])
    finite = np.isfinite(step)
    if policy == "last":
        limits = np.append(np.minimum.accumulate(begins[::-1])[::-1][1:], np.inf)
        keep[finite] = step[finite] < limits[piece[finite]]
    else:
        limits = np.insert(np.maximum.accumulate(ends)[:-1], 0, -np.inf)
        keep[finite] = step[finite] > limits[piece[finite]]
    return keep


def _bound(step: FloatArray, training: BoolArray, piece: IntArray, i: int, extreme: np.ufunc) -> float:
    return float(extreme.reduce(step[training & (piece == i) & np.isfinite(step)]))


def executed(count: FloatArray, step: FloatArray, piece: IntArray) -> FloatArray:
    """Return a running count, of tokens or of the steps themselves, in which repeated steps count again.

    A piece continues from the count at the last step below its first one, or from 0 where the counter started again.

    Examples
    --------
    >>> step, piece = np.array([1.0, 2, 3, 2, 3, 4]), np.array([0, 0, 0, 1, 1, 1])
    >>> executed(10 * step, step, piece)
    array([10., 20., 30., 40., 50., 60.])
    """
    rows = np.flatnonzero(np.isfinite(count) & np.isfinite(step))
    rows = rows[np.lexsort((step[rows], piece[rows]))]
    values, at, parts = count[rows], step[rows], piece[rows]
    before = np.concatenate([[0.0], values[:-1]])
    for i in np.flatnonzero(np.diff(parts)) + 1:
        earlier = np.flatnonzero(at[:i] < at[i])[::-1]  # of equal steps the one written last
        goes_on = values[earlier[np.argmax(at[earlier])]] if len(earlier) else 0.0
        before[i] = goes_on if goes_on <= values[i] else 0.0
    result = np.full(len(count), np.nan)
    result[rows] = np.cumsum(values - before)
    return result


def one_per_step(step: FloatArray, rows: IntArray, policy: str) -> IntArray:
    """Return the rows with one for each step: the first for ``"first"``, else the last; in the order of writing."""
    order = rows if policy == "first" else rows[::-1]
    _, at = np.unique(step[order], return_index=True)
    return np.sort(order[at])
