"""`Problem`: points, weights and constraints of a least-squares fit, in the coordinates of the solver."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import log_compute

LOG_B_CENTRE = float(np.log(1.6))  # of the weak prior on log B: Table 1 of ScaleRL spans 1.09 to 2.44


@dataclass(frozen=True, eq=False)
class Problem:
    """What all series of a batch share: the points, their weights and the constraints.

    Parameters
    ----------
    compute : array of shape (m,)
        Compute of each row, 0 allowed (the curve there is R0).
    weights : array of shape (m,)
        Inverse variances, up to a common factor. An observation of R0 is one more row.
    R0, A : float or None
        A number fixes the parameter.
    R0_min, A_max : float
        Bounds; both infinite means unbounded scores, where ``A < R0`` is allowed too.
    B_bounds : tuple of float
        Bounds on B; equal bounds fix it.
    """

    compute: Array
    weights: Array
    R0: float | None = None
    A: float | None = None
    R0_min: float = 0.0
    A_max: float = 1.0
    B_bounds: tuple[float, float] = (0.1, 10.0)

    @property
    def ordered(self) -> bool:
        """Whether ``R0 <= A`` is required."""
        return bool(np.isfinite(self.R0_min))

    @cached_property
    def centre(self) -> float:
        """Mean of log compute over the rows with positive compute."""
        return float(np.mean(np.log(self.compute[self.compute > 0])))

    @cached_property
    def xc(self) -> Array:
        """Centred log compute; 0 at rows of compute 0, where `offset` takes over."""
        return np.where(self.compute > 0, log_compute(self.compute) - self.centre, 0.0)

    @cached_property
    def offset(self) -> Array | None:
        """``-inf`` at rows of compute 0 (s = 0 there), or None when there is no such row."""
        zero = self.compute == 0
        return np.where(zero, -np.inf, 0.0) if zero.any() else None

    @cached_property
    def u_bounds(self) -> tuple[float, float]:
        """Bounds on log B."""
        return float(np.log(self.B_bounds[0])), float(np.log(self.B_bounds[1]))

    @cached_property
    def v_bounds(self) -> tuple[float, float]:
        """Bounds on centred log C_mid: a thousand times beyond the data on either side."""
        x = self.xc[self.compute > 0]
        return float(x.min() - np.log(1e3)), float(x.max() + np.log(1e3))

    def eta(self, alpha: Array, u: Array) -> Array:
        """Return ``alpha + B xc``, shape (rows, m)."""
        eta = np.exp(u)[:, None] * self.xc
        eta += alpha[:, None]
        if self.offset is not None:
            eta += self.offset
        return eta
