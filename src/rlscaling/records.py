"""What goes into a fit and stays with it: options, data, and their JSON-ready forms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlscaling.curves import Array, Mask


@dataclass(frozen=True)
class FitOptions:
    """How a fit was asked for: enough to repeat it on other data."""

    compute_unit: str = "gpu-hours"
    R0: float | str | None = None
    R0_se: float | None = None
    A: float | None = None
    B: float | None = None
    A_max: float = 1.0
    B_bounds: tuple[float, float] = (0.1, 10.0)
    min_compute: float = 0.0
    max_compute: float = math.inf
    exclude: tuple[tuple[float, float], ...] = ()
    method: str = "varpro"
    grid: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # A values, C_mid values of the paper's grid


@dataclass(frozen=True, eq=False)
class FitData:
    """The series a fit was given, whole, with what was used of it.

    Attributes
    ----------
    compute, pass_rate : arrays of shape (n,)
        All evaluations, left-out ones included.
    used : boolean array of shape (n,)
        Evaluations in the fit (the anchor for R0 is not one of them).
    anchor : int or None
        Index of the evaluation that anchors R0.
    weights : array of shape (n,) or None
        Relative inverse variances.
    se, n_rollouts : arrays of shape (n,) or None
        Standard error and number of rollouts of each evaluation, where the trace has them.
    step : array of shape (n,) or None
        Training step of each evaluation, where known.
    notes : tuple of str
        What was assumed or recovered while the data were read.
    """

    compute: Array
    pass_rate: Array
    used: Mask
    anchor: int | None = None
    weights: Array | None = None
    se: Array | None = None
    n_rollouts: Array | None = None
    step: Array | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.compute)


@dataclass(frozen=True)
class FailedFit:
    """What ``on_failure="return"`` gives for a run that cannot be fitted: false, with the reason."""

    name: str
    error: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.name + ': ' if self.name else ''}no fit: {self.error}"

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"run", "error"}``, as in the command line's JSON."""
        return {"run": self.name, "error": self.error}


def finite(value: float) -> float | None:
    """Return ``value``, or None (null in JSON) when it is not finite."""
    return float(value) if math.isfinite(value) else None


def check_lengths(data: Mapping[str, Any], residual: Any) -> None:
    """Raise ValueError when the saved arrays do not belong together."""
    n = len(data["compute"])
    for name in ("pass_rate", "used", "weights", "se", "n_rollouts", "step"):
        if data[name] is not None and len(data[name]) != n:
            raise ValueError(f"{name} has {len(data[name])} values for {n} evaluations")
    if len(residual) != int(np.sum(data["used"])):
        raise ValueError(f"residual has {len(residual)} values for {int(np.sum(data['used']))} fitted evaluations")


def infinite(value: float | None) -> float:
    """Return the number that `finite` wrote: None stands for infinity."""
    return math.inf if value is None else value
