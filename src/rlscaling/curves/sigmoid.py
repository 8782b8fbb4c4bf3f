"""The sigmoidal law: value, Jacobian and inverse, and `SigmoidParams`. Pure functions of arrays that broadcast.

The law is ``R_C = R0 + (A - R0) / (1 + (C_mid / C)**B)`` [ScaleRL, Eq. 1]. Everything is computed
from ``log C``, so that compute may be GPU-hours or FLOPs (1e-3 to 1e24) without overflow, and ``C = 0``
is allowed: there the curve is ``R0``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array

PARAMETER_NAMES = ("A", "B", "C_mid", "R0")


def log_compute(compute: ArrayLike) -> Array:
    """Return ``log(compute)``, ``-inf`` at 0, without a warning."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.asarray(compute, dtype=float)))


def logistic(eta: ArrayLike) -> Array:
    """Return ``1 / (1 + exp(-eta))`` for any real or infinite ``eta``."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-np.asarray(eta, dtype=float))))


def gain_share(compute: ArrayLike, B: ArrayLike, C_mid: ArrayLike) -> Array:
    """Return the share of the gain reached at ``compute``: ``1 / (1 + (C_mid / C)**B)``, in [0, 1].

    Examples
    --------
    >>> float(gain_share(2542.0, B=1.92, C_mid=2542.0))
    0.5
    """
    return logistic(np.asarray(B) * (log_compute(compute) - log_compute(C_mid)))


def sigmoid(compute: ArrayLike, A: ArrayLike, B: ArrayLike, C_mid: ArrayLike, R0: ArrayLike) -> Array:
    """Return the pass rate of the sigmoidal law [ScaleRL, Eq. 1]. All arguments broadcast.

    Examples
    --------
    >>> float(sigmoid(0.0, A=0.61, B=1.92, C_mid=2542.0, R0=0.35))
    0.35
    >>> round(float(sigmoid(2542.0, A=0.61, B=1.92, C_mid=2542.0, R0=0.35)), 12)
    0.48
    """
    s = gain_share(compute, B, C_mid)
    return np.asarray(np.asarray(R0) * (1.0 - s) + np.asarray(A) * s)


def sigmoid_jacobian(compute: ArrayLike, A: float, B: float, C_mid: float, R0: float) -> Array:
    """Return the derivatives of `sigmoid` by ``(A, B, C_mid, R0)``, shape ``(n, 4)``."""
    x = np.atleast_1d(log_compute(compute)) - np.log(C_mid)
    at_zero = np.isneginf(x)
    s = logistic(B * x)
    x = np.where(at_zero, 0.0, x)  # s (1 - s) log C -> 0 as C -> 0
    slope = (A - R0) * s * (1.0 - s)
    return np.stack([s, slope * x, -slope * B / C_mid, 1.0 - s], axis=1)


def sigmoid_inverse(pass_rate: ArrayLike, A: ArrayLike, B: ArrayLike, C_mid: ArrayLike, R0: ArrayLike) -> Array:
    """Return the compute at which the sigmoid reaches ``pass_rate``.

    0 at ``R0``, ``inf`` at ``A``, ``nan`` outside ``[R0, A]``, which the curve never reaches.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (np.asarray(pass_rate, dtype=float) - R0) / (np.asarray(A, dtype=float) - R0)
        odds = share / (1.0 - share)
        compute = np.exp(log_compute(C_mid) + np.log(odds) / np.asarray(B))
        inside = (share >= 0.0) & (share <= 1.0)
    return np.asarray(np.where(inside, compute, np.nan))


def sigmoid_reach(pass_rate: float, A: Array, B: Array, C_mid: Array, R0: Array) -> Array:
    """Return the compute to reach ``pass_rate`` of each curve: 0 where it starts beyond it, inf where it never does.

    A falling curve (unbounded scores) reaches a target from above.
    """
    compute = sigmoid_inverse(pass_rate, A, B, C_mid, R0)
    sign = np.where(A >= R0, 1.0, -1.0)
    compute = np.where(sign * (pass_rate - A) >= 0.0, np.inf, compute)
    return np.asarray(np.where(sign * (pass_rate - R0) <= 0.0, 0.0, compute))


@dataclass(frozen=True)
class SigmoidParams:
    """Parameters of the sigmoidal law [ScaleRL, Eq. 1].

    Attributes
    ----------
    A : float
        Asymptotic pass rate: the ceiling.
    B : float
        Scaling exponent: steepness, i.e. compute efficiency.
    C_mid : float
        Compute at which half of the gain ``A - R0`` is reached.
    R0 : float
        Pass rate before RL.

    Examples
    --------
    >>> SigmoidParams(A=0.61, B=1.92, C_mid=2542, R0=0.35).predict([0, 2542]).tolist()
    [0.35, 0.48]
    """

    A: float
    B: float
    C_mid: float
    R0: float

    def predict(self, compute: ArrayLike) -> Array:
        """Return the pass rate at ``compute`` (scalar or array)."""
        return sigmoid(compute, self.A, self.B, self.C_mid, self.R0)

    def compute_to_reach(self, pass_rate: ArrayLike) -> Array:
        """Return the compute at which the curve reaches ``pass_rate``: inf at A, nan outside [R0, A]."""
        return sigmoid_inverse(pass_rate, self.A, self.B, self.C_mid, self.R0)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the parameters: ``dict(params)`` and ``f(**params)`` work."""
        return PARAMETER_NAMES

    def __getitem__(self, name: str) -> float:
        if name not in PARAMETER_NAMES:
            raise KeyError(name)
        return float(getattr(self, name))

    def as_tuple(self) -> tuple[float, float, float, float]:
        """Return ``(A, B, C_mid, R0)``."""
        return self.A, self.B, self.C_mid, self.R0
