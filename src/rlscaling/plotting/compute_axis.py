"""`ComputeAxis`: a logarithmic axis of compute that also shows 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.printing.numbers import unit_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


GRID = 200  # points of a curve
INK = "#222222"


def marker_size(n: int) -> float:
    """Return the size of a marker if there are ``n`` of them."""
    return 4.5 if n <= 100 else 2.5


class ComputeAxis:
    """A logarithmic axis of compute, with 0 at the left of a break."""

    def __init__(self, compute: Array, end: float) -> None:
        positive = compute[compute > 0]
        self.first = float(positive.min()) if len(positive) else 0.1 * end or 1.0
        end = max(end, float(compute.max()), self.first * 1.5)
        span = np.log10(end / self.first)
        self.zero = self.first / 10 ** max(0.09 * span, 0.12) if np.any(compute == 0) else None
        self.left = (self.zero or self.first) / 10 ** (0.05 * span)
        self.right = end * 10 ** (0.10 * span)
        self.grid = np.geomspace(self.first, end, GRID)

    def place(self, compute: Array) -> Array:
        """Return the positions of ``compute`` on the axis."""
        return np.where(compute > 0, compute, self.zero or self.left)

    def finish(self, ax: Axes, unit: str) -> None:
        """Set scale, limits, ticks and label."""
        from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter

        ax.set_xscale("log")
        ax.set_xlim(self.left, self.right)
        major, minor = _ticks(self.first, self.right)
        labels = [_tick_label(value) for value in major]
        if self.zero is not None:
            major, labels = [self.zero, *major], ["0", *labels]
            mark: Any = [(-1.0, -2.0), (1.0, 2.0)]
            between = np.sqrt(self.zero * self.first)
            gap = (self.right / self.left) ** 0.006
            ax.plot(
                [between / gap, between * gap], [0, 0], transform=ax.get_xaxis_transform(), clip_on=False, ls="none",
                marker=mark, ms=8, color=INK, mew=1, zorder=10, label="_break",
            )  # fmt: skip
        ax.xaxis.set_major_locator(FixedLocator(major))
        ax.xaxis.set_major_formatter(FixedFormatter(labels))
        ax.xaxis.set_minor_locator(FixedLocator(minor))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel(f"compute ({unit_text(unit)})")
        ax.grid(True, which="major", color="#DDDDDD", lw=0.6)
        ax.set_axisbelow(True)


def _ticks(first: float, right: float) -> tuple[list[float], list[float]]:
    """Return major and minor ticks from ``first`` to ``right``: decades, with 2 and 5 if decades are few."""
    decades = range(int(np.floor(np.log10(first))), int(np.ceil(np.log10(right))) + 1)
    inside = [m * 10.0**k for k in decades for m in range(1, 10) if first * 0.999 <= m * 10.0**k <= right]
    leading = {value: round(value / 10.0 ** np.floor(np.log10(value * 1.000001))) for value in inside}
    for digits in ((1,), (1, 3), (1, 2, 5), tuple(range(1, 10))):
        major = [value for value in inside if leading[value] in digits]
        if len(major) >= 3:
            break
    return major, [value for value in inside if value not in major]


def _tick_label(value: float) -> str:
    exponent = int(np.floor(np.log10(value * 1.000001)))
    if -4 < exponent < 6:
        return f"{value:,.10g}"
    leading = round(value / 10.0**exponent)
    return f"$10^{{{exponent}}}$" if leading == 1 else f"${leading}\\times10^{{{exponent}}}$"
