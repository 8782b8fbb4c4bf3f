"""Power law, exponential, log-linear, and `FORMS`: every form with its name, parameters, function and fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.growth import Fitted, fit_growth, gompertz, richards
from rlscaling.curves.sigmoid import PARAMETER_NAMES, log_compute, logistic, sigmoid

N_SCAN = 240
N_GOLDEN = 80


@dataclass(frozen=True)
class Form:
    """A functional form of the pass rate.

    Attributes
    ----------
    name : str
        As in ``fit_curve(form=)``.
    parameters : tuple of str
        Its parameters, as `function` names them.
    function : callable
        Takes compute and the parameters; returns the pass rate.
    fit : callable or None
        Takes compute, pass rate, their weights, the bound of ``A`` and a fixed ``R0`` or None; returns the
        least-squares parameters and the names of those at a bound. None: fitted by the solver (``sigmoid``), or only a
        part of the posterior.
    R0_can_be_fixed : bool
        Whether `fit` takes a fixed ``R0``.
    at_zero : bool
        Whether `function` has a value at compute 0; otherwise an evaluation there is left out.
    gain_share : callable or None
        The share of the gain at ``B log(C / C_mid)``, for a form that the averaged forecast may use.
    """

    name: str
    parameters: tuple[str, ...]
    function: Callable[..., Array]
    fit: Callable[[Array, Array, Array, float, float | None], Fitted] | None = None
    R0_can_be_fixed: bool = False
    at_zero: bool = False
    gain_share: Callable[[Array], Array] | None = None

    @property
    def n_parameters(self) -> int:
        """Number of parameters of the curve."""
        return len(self.parameters)


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


def slow(compute: ArrayLike, A: ArrayLike, B: ArrayLike, C_mid: ArrayLike, R0: ArrayLike) -> Array:
    """Return ``R0 + (A - R0) (1/2 + arctan(B log(C / C_mid)) / pi)``: an approach to ``A`` like ``1 / log C``."""
    s = arctan_share(np.asarray(B) * (log_compute(compute) - log_compute(C_mid)))
    return np.asarray(np.asarray(R0) * (1.0 - s) + np.asarray(A) * s)


def arctan_share(z: Array) -> Array:
    """Return the share of the gain of `slow` at ``z = B log(C / C_mid)``."""
    return np.asarray(0.5 + np.arctan(z) / math.pi)


def _power_law(C: Array, y: Array, w: Array, A_max: float, R0: float | None) -> Fitted:
    scale = float(np.exp(np.mean(np.log(C))))  # so that the basis is of order 1 for any unit

    def basis(log_b: float) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray((C / scale) ** -math.exp(log_b))

    log_b, A, D = _profile(basis, y, w, A_max, (math.log(1e-3), math.log(20.0)))
    B = math.exp(log_b)
    log_D = math.log(D) + B * math.log(scale) if D > 0 else -math.inf  # a constant has D = 0
    return {"A": A, "B": B, "log_D": log_D}, ("A",) if A >= A_max else ()


def _exponential(C: Array, y: Array, w: Array, A_max: float, R0: float | None) -> Fitted:
    def basis(log_tau: float) -> Array:
        return np.asarray(np.exp(-C / math.exp(log_tau)))

    gap = float(np.min(np.diff(C)))
    log_tau, A, gain = _profile(basis, y, w, A_max, (math.log(0.1 * gap), math.log(1e3 * C[-1])))
    at_bound = ("A",) if A >= A_max else ()
    return {"A": A, "tau": math.exp(log_tau), "R0": A - gain}, at_bound


def _log_linear(C: Array, y: Array, w: Array, A_max: float, R0: float | None) -> Fitted:
    x = np.log(C)
    mean_x, mean_y = np.average(x, weights=w), np.average(y, weights=w)
    slope = float((w * (x - mean_x)) @ (y - mean_y) / ((w * (x - mean_x)) @ (x - mean_x)))
    return {"intercept": float(mean_y - slope * mean_x), "slope": slope}, ()


def _profile(
    basis: Callable[[float], Array], y: Array, w: Array, A_max: float, bounds: tuple[float, float]
) -> tuple[float, float, float]:
    """Minimise ``sum w (y - A + D basis(p))^2`` over p; return p, A, D (A <= A_max, D >= 0), A and D solved exactly."""
    mean_y = float(np.average(y, weights=w))

    def linear(p: float) -> tuple[float, float, float]:
        f = basis(p)
        if not np.all(np.isfinite(f)) or float(f.max()) > 1e100:
            return math.inf, mean_y, 0.0
        mean_f = float(np.average(f, weights=w))
        fc = f - mean_f
        square = float((w * fc) @ fc)
        D = max(-float((w * fc) @ (y - mean_y)) / square, 0.0) if square > 0 else 0.0
        A = mean_y + D * mean_f
        if A_max < A:
            A, D = A_max, max(float((w * f) @ (A_max - y)) / max(float((w * f) @ f), 1e-300), 0.0)
        r = y - A + D * f
        return float((w * r) @ r), A, D

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


_GROWTH_PARAMETERS = ("A", "B", "C_0", "R0")
_ALL = (
    Form("sigmoid", PARAMETER_NAMES, sigmoid, R0_can_be_fixed=True, gain_share=logistic),
    Form("slow", PARAMETER_NAMES, slow, gain_share=arctan_share),
    Form("power-law", ("A", "B", "log_D"), power_law_of_log, _power_law),
    Form("exponential", ("A", "tau", "R0"), exponential, _exponential, at_zero=True),
    Form("log-linear", ("intercept", "slope"), log_linear, _log_linear),
    Form("gompertz", _GROWTH_PARAMETERS, gompertz, partial(fit_growth, gompertz, 0), R0_can_be_fixed=True),
    Form("richards", ("A", "B", "C_0", "nu", "R0"), richards, partial(fit_growth, richards, 1), R0_can_be_fixed=True),
)
FORMS: Mapping[str, Form] = {form.name: form for form in _ALL}
