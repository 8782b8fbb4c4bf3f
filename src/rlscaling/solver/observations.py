"""`Observations` and `R0Observation`: what a run is fitted to; and averages of neighbouring evaluations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlscaling.arrays import Array


@dataclass(frozen=True, eq=False)
class R0Observation:
    """An observation of R0: its compute and value, and how far it may lie off the sigmoid."""

    compute: float
    value: float
    standard_error: float
    evaluated: bool = False  # an evaluation of this run: its own noise is added


@dataclass(frozen=True, eq=False)
class Observations:
    """The evaluations of a fit, without the observation of R0.

    ``position`` measures the gaps between evaluations (training steps where known, else compute); ``weights`` are
    relative inverse variances; ``se`` and ``n_rollouts`` say how the noise of an evaluation goes along the run.
    """

    compute: Array
    y: Array
    weights: Array
    position: Array
    se: Array | None = None
    n_rollouts: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def averaged(self, max_points: int) -> Observations:
        """Return averages of neighbours, at most ``max_points`` of them, or itself where there are few enough.

        A slow wander tells no more when it is evaluated more often: what an average over a stretch of the run leaves
        is the wander, and the independent noise is gone. The mean weight of the averages is 1.
        """
        if len(self) <= max_points:
            return self
        starts = starts_of_averages(len(self), max_points)
        total = np.add.reduceat(self.weights, starts)

        def mean(values: Array) -> Array:
            return np.asarray(np.add.reduceat(self.weights * values, starts) / total)

        compute = np.exp(mean(np.log(self.compute))) if np.all(self.compute > 0) else mean(self.compute)
        se = self.se
        if se is not None:
            se = np.sqrt(np.add.reduceat((self.weights * se) ** 2, starts)) / total
        rollouts = None if self.n_rollouts is None else np.add.reduceat(self.n_rollouts, starts)
        return Observations(compute, mean(self.y), total / total.mean(), mean(self.position), se, rollouts)

    def weight_of_average(self, max_points: int) -> float:
        """Return the mean weight that an average of `averaged` collects, in weights of an evaluation."""
        return float(self.weights.sum()) / min(len(self), max_points) if len(self) > max_points else 1.0


def starts_of_averages(n: int, n_averages: int) -> NDArray[np.int64]:
    """Return the first evaluation of each of so many averages of ``n`` evaluations."""
    return np.linspace(0, n, n_averages, endpoint=False).astype(np.int64)
