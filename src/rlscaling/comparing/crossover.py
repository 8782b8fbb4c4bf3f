"""`Crossover` and `Multiplier`: where two curves cross, and how many times less compute one recipe needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlscaling.arrays import Array, Mask
from rlscaling.printing.document import Document
from rlscaling.printing.numbers import number, unit_text
from rlscaling.solver.intervals import order_interval

GRID = 240
BISECTIONS = 60
FARTHEST = 1000.0  # times the data: a crossing beyond it is of no interest
Curves = Callable[[Array], Array]  # compute of shape (m,) or (size, 1) -> pass rates (size, m)


@dataclass(frozen=True, eq=False, repr=False)
class Crossover(Document):
    """Where the curves of ``x`` and ``y`` cross for the last time: from there on one of them leads.

    Attributes
    ----------
    compute : float
        Of the fitted curves; inf if they do not cross between ``low`` and ``high``.
    draws : array of shape (size,)
        Compute of the crossing in each draw, inf where they do not cross.
    all_compute : tuple of float
        Every crossing of the fitted curves; usually one or none.
    leader_before, leader_after : str
        The recipe that leads just before and from there on; the same one if there is no crossing.
    """

    x: str
    y: str
    compute: float
    draws: Array
    all_compute: tuple[float, ...]
    leader_before: str
    leader_after: str
    low: float
    high: float
    confidence_level: float
    compute_unit: str

    @property
    def probability(self) -> float:
        """Share of draws in which they cross at all."""
        return float(np.isfinite(self.draws).mean())

    @cached_property
    def confidence_interval(self) -> tuple[float, float]:
        """Interval by order statistics; inf where so many draws do not cross."""
        return order_interval(self.draws, self.confidence_level)

    def _record(self) -> dict[str, Any]:
        return {
            "x": self.x,
            "y": self.y,
            "compute": self.compute,
            "ci": self.confidence_interval,
            "probability": self.probability,
            "leader_before": self.leader_before,
            "leader_after": self.leader_after,
            "all_compute": self.all_compute,
            "range": [self.low, self.high],
        }

    @property
    def headline(self) -> str:
        """Where they cross and who leads after that, or who leads throughout."""
        unit = unit_text(self.compute_unit)
        if not np.isfinite(self.compute):
            return (
                f"{self.x} and {self.y} do not cross between {number(self.low)} and {number(self.high)} {unit}: "
                f"{self.leader_after} leads (by {100 * (1 - self.probability):.0f} % of the draws)"
            )
        low, high = self.confidence_interval
        return (
            f"{self.leader_after} overtakes {self.leader_before} at {number(self.compute)} {unit} "
            f"({100 * self.confidence_level:g} %: {number(low)} to {number(high)}; they cross at all with probability "
            f"{self.probability:.2f})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Multiplier(Document):
    """How many times the compute of ``x`` recipe ``y`` needs to reach the same pass rate.

    Attributes
    ----------
    pass_rate : float
        The pass rate to reach.
    value : float
        Compute of ``y`` over compute of ``x`` on the fitted curves; above 1, ``x`` needs less.
    draws : array of shape (size,)
        The ratio in each draw: inf where only ``x`` reaches the target, 0 where only ``y`` does.
    """

    x: str
    y: str
    pass_rate: float
    value: float
    draws: Array
    confidence_level: float

    @cached_property
    def confidence_interval(self) -> tuple[float, float]:
        """Interval by order statistics."""
        return order_interval(self.draws, self.confidence_level)

    def _record(self) -> dict[str, Any]:
        return {"pass_rate": self.pass_rate, "multiplier": self.value, "ci": self.confidence_interval}

    @property
    def headline(self) -> str:
        """How many times the compute of the first the second recipe needs, with its interval."""
        low, high = self.confidence_interval
        return (
            f"{self.y} needs {number(self.value, 2)} times the compute of {self.x} to reach {self.pass_rate:.3f} "
            f"({100 * self.confidence_level:g} %: {number(low, 2)} to {number(high, 2)})"
        )


def last_crossing(difference: Curves, low: float, high: float) -> tuple[Array, Mask]:
    """Return the last sign change of each difference of curves on [low, high], and the cells of all of them.

    Parameters
    ----------
    difference : callable
        Takes compute of shape (1, m) or (size, 1) and returns the differences of shape (size, m).
    low, high : float

    Returns
    -------
    array of shape (size,)
        inf where there is no sign change.
    boolean array of shape (size, GRID - 1)
        The cells of the logarithmic grid in which the sign changes.
    """
    grid = np.geomspace(low, high, GRID)
    above = difference(grid[None, :]) >= 0
    changes = above[:, :-1] != above[:, 1:]
    cell = GRID - 2 - np.argmax(changes[:, ::-1], axis=1)
    start = above[np.arange(len(above)), cell]
    return np.where(changes.any(axis=1), bisect(difference, grid[cell], grid[cell + 1], start), np.inf), changes


def bisect(difference: Curves, left: Array, right: Array, start: Mask) -> Array:
    """Return where the sign of each row changes between ``left`` and ``right``, by bisection in log compute.

    ``start`` tells whether the difference is 0 or more at ``left``.
    """
    a, b = np.log(left), np.log(right)
    for _ in range(BISECTIONS):
        middle = 0.5 * (a + b)
        same = (difference(np.exp(middle)[:, None])[:, 0] >= 0) == start
        a, b = np.where(same, middle, a), np.where(same, b, middle)
    return np.asarray(np.exp(0.5 * (a + b)))


def find_crossover(
    names: tuple[str, str], fitted: Curves, drawn: Curves, span: tuple[float, float], level: float, unit: str
) -> Crossover:
    """Return where two recipes cross, from the differences of their fitted curves and of their draws."""
    low, high = span
    _, changes = last_crossing(fitted, low, high)
    grid = np.geomspace(low, high, GRID)
    cells = np.flatnonzero(changes[0])
    roots = [
        float(bisect(fitted, grid[[c]], grid[[c + 1]], fitted(grid[None, [c]])[:, 0] >= 0)[0]) for c in cells.tolist()
    ]
    ends = np.array([[low, *roots], [*roots, high]])
    middles = fitted(np.sqrt(ends[:1] * ends[1:]))[0]  # the leader between crossings
    leads = [names[0] if value >= 0 else names[1] for value in middles.tolist()]
    return Crossover(
        *names, compute=roots[-1] if roots else np.inf, draws=last_crossing(drawn, low, high)[0],
        all_compute=tuple(roots), leader_before=leads[-2] if roots else leads[-1], leader_after=leads[-1],
        low=low, high=high, confidence_level=level, compute_unit=unit,
    )  # fmt: skip
