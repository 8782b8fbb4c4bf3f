"""Array types and the conversion of any column (numpy, pandas, polars, torch, lists) to float arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscaling.errors import TraceError

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def as_floats(values: Any, what: str) -> FloatArray:
    """Return ``values`` as a new one-dimensional float64 array.

    Lists, tuples, numpy arrays, pandas and polars series and torch tensors (any device and precision) are
    accepted without importing their libraries. Missing entries of a series (NA, null) become NaN.

    Parameters
    ----------
    values
        The numbers, shape (n,).
    what
        How an error message calls them, such as ``"pass_rate"``.

    Returns
    -------
    numpy.ndarray
        float64, shape (n,), owned by the caller.

    Raises
    ------
    TraceError
        For text, None, truth values, complex numbers, dates, and anything that is not one-dimensional.

    Examples
    --------
    >>> as_floats((1, 2.5), "compute")
    array([1. , 2.5])
    >>> as_floats([0.3, "n/a"], "pass_rate")
    Traceback (most recent call last):
    rlscaling.errors.TraceError: pass_rate[1] is 'n/a': text, not a number; drop or repair that value
    """
    if isinstance(values, (str, bytes, Mapping, set, frozenset)) or values is None:
        raise TraceError(f"{what} is {_short(values)}: not a series of numbers; pass a list or an array")
    array = _to_numpy(values, what)
    if array.ndim != 1:
        shape = "a single value" if array.ndim == 0 else f"of shape {array.shape}"
        raise TraceError(f"{what} is {shape}; pass one number per evaluation, a one-dimensional series")
    if array.dtype.kind in "fiu":
        return array.astype(np.float64)
    if array.dtype.kind in "mM":  # tolist() would turn dates into integers
        raise TraceError(f"{what}[0] is {array[0]}: a date or duration, not a number; convert it first")
    return np.array([_as_float(value, f"{what}[{i}]") for i, value in enumerate(array.tolist())], dtype=np.float64)


def _to_numpy(values: Any, what: str) -> NDArray[Any]:
    if hasattr(values, "detach"):  # a torch tensor; numpy knows no bfloat16 and no device memory
        values = values.detach().cpu()
        kind = str(values.dtype)
        if "complex" in kind or "bool" in kind:
            raise TraceError(f"{what} is a tensor of {kind}: not real numbers; convert it to floats first")
        return np.asarray(values.double().numpy())
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    if isinstance(values, np.ndarray):
        return values
    try:
        items = list(values)
    except TypeError:
        raise TraceError(f"{what} is {_short(values)}: not a series of numbers; pass a list or an array") from None
    # numpy would convert [0.3, "n/a"] or [True, 0.3] to one type; there, keep every element as it is
    unconverted = objects(items)
    if any(isinstance(item, bool) for item in items):
        return unconverted
    try:
        array = np.asarray(items)
    except (ValueError, TypeError, RuntimeError):  # ragged, or elements that numpy cannot read
        return unconverted
    return array if array.ndim > 1 or array.dtype.kind in "fiu" else unconverted


def objects(items: Sequence[Any]) -> NDArray[Any]:
    """Return ``items`` as a one-dimensional object array, whatever they are (also lists of one length)."""
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def _as_float(value: Any, place: str) -> float:
    if hasattr(value, "item") and not isinstance(value, np.ndarray):
        value = value.item()  # a zero-dimensional tensor or numpy scalar
    if type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    reason = "not a number"
    if isinstance(value, (bool, np.bool_)):
        reason = "a truth value, not a number (a pass rate is a mean over prompts)"
    elif isinstance(value, (str, bytes)):
        reason = "text, not a number"
    elif value is None:
        reason = "missing"
    elif isinstance(value, complex):
        reason = "a complex number"
    else:
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
        except OverflowError:
            reason = "too large for a float"
    raise TraceError(f"{place} is {_short(value)}: {reason}; drop or repair that value")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
