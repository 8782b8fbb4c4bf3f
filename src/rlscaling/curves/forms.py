"""Power law, exponential, log-linear, and `FORMS`: every form with its name, parameters, function and fit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.growth import GROWTH, Fitted, fit_growth, gompertz, richards
from rlscaling.curves.sigmoid import log_compute


def power_law(compute: ArrayLike, A: ArrayLike, B: ArrayLike, D: ArrayLike) -> Array:
    """Return ``A - D / C**B``: the limit of the sigmoid for ``C >> C_mid`` [ScaleRL, A.4]."""
    with np.errstate(divide="ignore"):
        return power_law_of_log(compute, A, B, np.log(D))


def power_law_of_log(compute: ArrayLike, A: ArrayLike, B: ArrayLike, log_D: ArrayLike) -> Array:
    """Return `power_law` from ``log D``: in FLOPs ``D = (A - R) C**B`` can leave the range of numbers."""
    with np.errstate(over="ignore"):
        return np.asarray(np.asarray(A) - np.exp(np.asarray(log_D) - np.asarray(B) * log_compute(compute)))


def exponential(compute: ArrayLike, A: ArrayLike, tau: ArrayLike, R0: ArrayLike) -> Array:
    """Return ``A - (A - R0) exp(-C / tau)``: an approach to ``A`` at a constant rate."""
    decay = np.exp(-np.asarray(compute, dtype=float) / np.asarray(tau))
    return np.asarray(np.asarray(A) - (np.asarray(A) - np.asarray(R0)) * decay)


def log_linear(compute: ArrayLike, intercept: ArrayLike, slope: ArrayLike) -> Array:
    """Return ``intercept + slope log C``: no ceiling, a bad forecaster, a useful warning."""
    return np.asarray(np.asarray(intercept) + np.asarray(slope) * log_compute(compute))


FORMS: dict[str, Callable[..., Array]] = {
    "power-law": power_law_of_log,
    "exponential": exponential,
    "log-linear": log_linear,
    "gompertz": gompertz,
    "richards": richards,
}
N_SCAN = 240
N_GOLDEN = 80


def fit_form(form: str, C: Array, y: Array, *, A_max: float, R0: float | None = None) -> Fitted:
    """Return the least-squares parameters of a form, and which are at a bound, for data that were checked."""
    if form in GROWTH:
        return fit_growth(form, C, y, A_max=A_max, R0=R0)
    return {"power-law": _power_law, "exponential": _exponential, "log-linear": _log_linear}[form](C, y, A_max)


def _power_law(C: Array, y: Array, A_max: float) -> Fitted:
    scale = float(np.exp(np.mean(np.log(C))))  # so that the basis is of order 1 for any unit

    def basis(log_b: float) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray((C / scale) ** -math.exp(log_b))

    log_b, A, D = _profile(basis, y, A_max, (math.log(1e-3), math.log(20.0)))
    B = math.exp(log_b)
    log_D = math.log(D) + B * math.log(scale) if D > 0 else -math.inf  # a constant has D = 0
    return {"A": A, "B": B, "log_D": log_D}, ("A",) if A >= A_max else ()


def _exponential(C: Array, y: Array, A_max: float) -> Fitted:
    def basis(log_tau: float) -> Array:
        return np.asarray(np.exp(-C / math.exp(log_tau)))

    gap = float(np.min(np.diff(C)))
    log_tau, A, gain = _profile(basis, y, A_max, (math.log(0.1 * gap), math.log(1e3 * C[-1])))
    at_bound = ("A",) if A >= A_max else ()
    return {"A": A, "tau": math.exp(log_tau), "R0": A - gain}, at_bound


def _log_linear(C: Array, y: Array, A_max: float) -> Fitted:
    x = np.log(C)
    slope = float((x - x.mean()) @ (y - y.mean()) / ((x - x.mean()) @ (x - x.mean())))
    return {"intercept": float(y.mean() - slope * x.mean()), "slope": slope}, ()


def _profile(
    basis: Callable[[float], Array], y: Array, A_max: float, bounds: tuple[float, float]
) -> tuple[float, float, float]:
    """Minimise ``|y - A + D basis(p)|^2`` over p, with A and D solved exactly; return p, A, D (A <= A_max, D >= 0)."""

    def linear(p: float) -> tuple[float, float, float]:
        f = basis(p)
        if not np.all(np.isfinite(f)) or float(f.max()) > 1e100:
            return math.inf, float(y.mean()), 0.0
        fc, yc = f - f.mean(), y - y.mean()
        square = float(fc @ fc)
        D = max(-float(fc @ yc) / square, 0.0) if square > 0 else 0.0
        A = float(y.mean() + D * f.mean())
        if A_max < A:
            A, D = A_max, max(float(f @ (A_max - y)) / max(float(f @ f), 1e-300), 0.0)
        r = y - A + D * f
        return float(r @ r), A, D

    scan = np.linspace(*bounds, N_SCAN)
    k = int(np.argmin([linear(p)[0] for p in scan]))
    low, high = scan[max(k - 1, 0)], scan[min(k + 1, N_SCAN - 1)]
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    for _ in range(N_GOLDEN):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if linear(left)[0] <= linear(right)[0]:
            high = right
        else:
            low = left
    p = float(0.5 * (low + high))
    return p, *linear(p)[1:]


N_PARAMETERS = {
    "sigmoid, R0 fixed": 3,
    "sigmoid, R0 free": 4,
    "power-law": 3,
    "exponential": 3,
    "log-linear": 2,
    "gompertz": 4,
    "richards": 5,
}
