"""Numbers as text: a value with its error and no more digits, an interval, a probability, a unit."""

from __future__ import annotations

import math

import numpy as np

NEGLIGIBLE = 1e-9  # an error of so small a share of its value is rounding, and says nothing about digits
NOTHING = 1e-3  # a value below this share of its error, and of 1, is printed as 0
SMALLEST = 1e-100  # smaller numbers are 0: no score is so small
COMPACT = 1e7  # from here on in powers of ten


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
    value = value if abs(value) >= SMALLEST else 0.0
    if abs(value) >= COMPACT or (decimals is None and 0 < abs(value) <= 1e-5):
        return f"{value:.4g}"
    if decimals is None:
        decimals = 0 if value == 0 else max(3 - math.floor(math.log10(abs(value))), -12)
        text = f"{round(value, decimals):,.{max(decimals, 0)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{round(value, decimals) + 0.0:,.{max(decimals, 0)}f}"  # + 0.0: no minus before a zero


def rough(value: float, digits: int = 2) -> str:
    """Return ``value`` with a few significant digits, for what is known no more precisely.

    Examples
    --------
    >>> rough(24_651.0), rough(float("inf")), rough(1234.5, 3)
    ('25,000', 'inf', '1,230')
    """
    return number(float(f"{value:.{digits}g}"))


def plus_minus(value: float, error: float, *, may_be_zero: bool = False) -> str:
    """Return ``value ± error`` with the digits the error allows, and two of the value where it allows none.

    An error that is rounding is left out. A difference ``may_be_zero``: it gets no digits of its own.

    Examples
    --------
    >>> plus_minus(0.61234, 0.00421)
    '0.612 ± 0.004'
    >>> plus_minus(2541.7, 152.0)
    '2,540 ± 150'
    >>> plus_minus(1763.7, 110_000.0)
    '1,800 ± 110,000'
    """
    if not (math.isfinite(error) and error > max(NEGLIGIBLE * abs(value), SMALLEST)):
        return number(value)
    if not may_be_zero and _is_lost(value, error_decimals(error), error):
        return f"{rough(value)} ± {rough(error)}"
    size = max(abs(value), error)
    if size >= COMPACT or size < 1e-4:
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
    return "[{}, {}]".format(*interval_ends(low, high))


def interval_ends(low: float, high: float) -> tuple[str, str]:
    """Return the ends of an interval as `interval` prints them.

    Examples
    --------
    >>> interval_ends(630.2, 7.84e8)
    ('630', '7.84e+08')
    """
    width, size = high - low, max(abs(low), abs(high))
    if not math.isfinite(width) or width <= max(NEGLIGIBLE * size, SMALLEST):
        return number(low), number(high)
    if low > 0 and high > 2.5 * low and high > 10.0:  # a scale parameter of wide range: each end with its own digits
        return _three_digits(low), _three_digits(high)
    if size >= COMPACT or 0 < high < 1e-4:
        return f"{low:.3g}", f"{high:.3g}"
    decimals = error_decimals(width / 4.0)
    first, last = (rough(end) if _is_lost(end, decimals, width) else number(end, decimals) for end in (low, high))
    return first, last


def _is_lost(value: float, decimals: int, error: float) -> bool:
    """Return whether so many decimals round to 0 a value that is not nothing."""
    return abs(value) >= NOTHING * min(error, 1.0) and abs(value) < 0.5 * 10.0**-decimals


def _three_digits(value: float) -> str:
    return number(value, max(2 - math.floor(math.log10(value)), -12)) if value < COMPACT else f"{value:.3g}"


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
