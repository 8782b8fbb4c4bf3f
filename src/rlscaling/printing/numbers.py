"""Numbers as text: a value with its error and no more digits, an interval, a probability, a unit."""

from __future__ import annotations

import math

import numpy as np


def error_decimals(error: float) -> int:
    """Return the decimals that leave ``error`` two significant digits (one from 3.55 to 9.5: as PDG rounds)."""
    if not (math.isfinite(error) and error > 0):
        return 4
    exponent = math.floor(math.log10(error))
    leading = error / 10.0**exponent
    return (1 if leading < 3.55 else 0) - exponent


def number(value: float, decimals: int | None = None) -> str:
    """Return ``value`` with ``decimals`` (negative: rounded to tens, hundreds), or with 4 significant digits.

    Examples
    --------
    >>> number(2541.7, -1), number(0.61234, 3), number(1e25)
    ('2,540', '0.612', '1e+25')
    """
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "unknown"
    if abs(value) >= 1e7 or (decimals is None and 0 < abs(value) <= 1e-5):
        return f"{value:.4g}"
    if decimals is None:
        decimals = 0 if value == 0 else max(3 - math.floor(math.log10(abs(value))), -12)
        text = f"{round(value, decimals):,.{max(decimals, 0)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{round(value, decimals) + 0.0:,.{max(decimals, 0)}f}"  # + 0.0: no minus before a zero


def rough(value: float) -> str:
    """Return ``value`` with 2 significant digits, for what is known no more precisely.

    Examples
    --------
    >>> rough(24_651.0), rough(float("inf"))
    ('25,000', 'inf')
    """
    return number(float(f"{value:.2g}"))


def plus_minus(value: float, error: float) -> str:
    """Return ``value ± error`` with the digits the error allows.

    Examples
    --------
    >>> plus_minus(0.61234, 0.00421)
    '0.612 ± 0.004'
    >>> plus_minus(2541.7, 152.0)
    '2,540 ± 150'
    """
    if not (math.isfinite(error) and error > 0):
        return number(value)
    size = max(abs(value), error)
    if size >= 1e7 or size < 1e-4:
        exponent = math.floor(math.log10(size))
        scale = 10.0**exponent
        return f"({plus_minus(value / scale, error / scale)})e{exponent:+d}"
    decimals = error_decimals(error)
    return f"{number(value, decimals)} ± {number(error, decimals)}"


def interval(low: float, high: float) -> str:
    """Return ``[low, high]``, both with the digits that their distance allows.

    Examples
    --------
    >>> interval(0.60412, 0.62083)
    '[0.604, 0.621]'
    """
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return f"[{number(low)}, {number(high)}]"
    if low > 0 and high > 2.5 * low and high > 10.0:  # a scale parameter of wide range: each end with its own digits
        return f"[{_three_digits(low)}, {_three_digits(high)}]"
    if max(abs(low), abs(high)) >= 1e7 or 0 < high < 1e-4:
        return f"[{low:.3g}, {high:.3g}]"
    decimals = error_decimals(width / 4.0)
    return f"[{number(low, decimals)}, {number(high, decimals)}]"


def _three_digits(value: float) -> str:
    return number(value, max(2 - math.floor(math.log10(value)), -12)) if value < 1e7 else f"{value:.3g}"


def probability(p: float) -> str:
    """Return a probability as text: never 0 or 1, which a finite number of draws cannot show."""
    return "" if np.isnan(p) else ">0.99" if p > 0.995 else "<0.01" if p < 0.005 else f"{p:.2f}"


UNIT_TEXT = {
    "gpu-hours": "GPU-hours",
    "device-hours": "device-hours",
    "wall-hours": "wall hours",
    "flops": "FLOPs",
}


def unit_text(unit: str) -> str:
    """Return a compute unit as it is written in a sentence."""
    return UNIT_TEXT.get(unit, unit)


def percent(share: float) -> str:
    """Return a share as a percentage, such as a confidence level in the header of a table.

    Examples
    --------
    >>> percent(0.95)
    '95 %'
    """
    return f"{100 * share:g} %"
