"""`Decomposition`: where a gain in compute comes from, fewer steps or less compute per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.comparing.crossover import Multiplier
from rlscaling.errors import FitError
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import interval, number
from rlscaling.solver.intervals import order_interval

LEAST_STEPS = 3  # stretches between evaluations, for the spread of the compute per step


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Document):
    """How many times the compute of ``x`` recipe ``y`` needs to reach a pass rate: steps times compute per step.

    ``compute = steps x compute_per_step``; each is that of ``y`` over that of ``x``, so that above 1 ``x`` needs less.

    Attributes
    ----------
    multiplier : Multiplier
        Of compute, at the pass rate.
    per_step : float
        Compute per step of ``y`` over that of ``x``.
    per_step_draws : array of shape (size,)
        The same in each draw of the stretches between evaluations.
    """

    multiplier: Multiplier
    per_step: float
    per_step_draws: Array

    @property
    def x(self) -> str:
        """The first recipe."""
        return self.multiplier.x

    @property
    def y(self) -> str:
        """The second recipe."""
        return self.multiplier.y

    @property
    def steps(self) -> float:
        """Steps of ``y`` to the pass rate over those of ``x``."""
        return self.multiplier.value / self.per_step

    @property
    def confidence_level(self) -> float:
        """Of the intervals."""
        return self.multiplier.confidence_level

    @cached_property
    def confidence_interval(self) -> Mapping[str, tuple[float, float]]:
        """Intervals of ``compute``, ``steps`` and ``compute_per_step``, by order statistics."""
        draws = {
            "compute": self.multiplier.draws,
            "steps": self.multiplier.draws / self.per_step_draws,
            "compute_per_step": self.per_step_draws,
        }
        return {name: order_interval(values, self.confidence_level) for name, values in draws.items()}

    @property
    def values(self) -> Mapping[str, float]:
        """The three ratios by name."""
        return {"compute": self.multiplier.value, "steps": self.steps, "compute_per_step": self.per_step}

    @property
    def headline(self) -> str:
        """The product, in a sentence."""
        return (
            f"to reach {self.multiplier.pass_rate:.3f}, {self.y} needs {number(self.multiplier.value, 2)} times the "
            f"compute of {self.x}: {number(self.steps, 2)} times the steps, each of {number(self.per_step, 2)} times "
            "the compute"
        )

    def tables(self) -> list[Table]:
        """Return one row per ratio, with its interval."""
        names = {"compute": "compute", "steps": "= steps", "compute_per_step": "x compute per step"}
        rows = [
            [names[name], number(value, 3), interval(*self.confidence_interval[name])]
            for name, value in self.values.items()
        ]
        return [Table.of([f"{self.y} / {self.x}", "", f"{100 * self.confidence_level:g} %"], rows)]

    def _record(self) -> dict[str, Any]:
        ratios = {name: {"ratio": value, "ci": self.confidence_interval[name]} for name, value in self.values.items()}
        return {"x": self.x, "y": self.y, "pass_rate": self.multiplier.pass_rate, **ratios}


def has_steps(fit: SigmoidFit) -> bool:
    """Return whether a run says its steps, and they and its compute grow at enough evaluations."""
    return _stretches(fit) is not None


def _stretches(fit: SigmoidFit) -> tuple[Array, Array] | None:
    """Return steps and compute between evaluations, where both are known and grow."""
    if fit.data.step is None:
        return None
    known = np.isfinite(fit.data.step)
    steps, compute = np.diff(fit.data.step[known]), np.diff(fit.data.compute[known])
    grows = (steps > 0) & (compute > 0)
    return (steps[grows], compute[grows]) if grows.sum() >= LEAST_STEPS else None


def decomposition_of(multiplier: Multiplier, fits: Mapping[str, tuple[SigmoidFit, ...]], entropy: int) -> Decomposition:
    """Return where a multiplier comes from, from the steps and the compute of the runs of both recipes.

    Raises
    ------
    FitError
        For a run that does not say its steps.
    """
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(8,)))
    rates = [_rate(name, fits[name], len(multiplier.draws), rng) for name in (multiplier.x, multiplier.y)]
    (x, x_draws), (y, y_draws) = rates
    return Decomposition(multiplier, y / x, y_draws / x_draws)


def _rate(name: str, runs: tuple[SigmoidFit, ...], size: int, rng: np.random.Generator) -> tuple[float, Array]:
    """Return the compute per step of a recipe, and that of resampled stretches between evaluations, (size,)."""
    found = [_stretches(fit) for fit in runs]
    if any(one is None for one in found):
        raise FitError(f"{name} does not say its steps: give traces with a step column, or leave the decomposition out")
    steps, compute = (np.concatenate([one[k] for one in found if one is not None]) for k in (0, 1))
    pick = rng.integers(len(steps), size=(size, len(steps)))
    return float(compute.sum() / steps.sum()), compute[pick].sum(axis=1) / steps[pick].sum(axis=1)
