"""Gompertz and Richards growth in log C, fitted by projection: given the shape, R0 and A are linear."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import log_compute

N_STARTS, ROUGH_STEPS, POLISH_STEPS = 6, 40, 200
LOG_B_BOUNDS = (math.log(1e-3), math.log(20.0))
LOG_NU_BOUNDS = (math.log(0.02), math.log(50.0))
Fitted = tuple[dict[str, float], tuple[str, ...]]


def fit_growth(
    curve: Callable[..., Array], n_shapes: int, C: Array, y: Array, w: Array, A_max: float, R0: float | None
) -> Fitted:
    """Fit `gompertz` or `richards` by least squares from several starts.

    Parameters
    ----------
    curve : callable
        The form: its parameters are ``A, B, C_0``, those of its shape and ``R0``.
    n_shapes : int
        Number of parameters of its shape: none, or ``nu``.
    C, y : arrays of shape (n,)
        Positive compute and pass rates.
    w : array of shape (n,)
        Their relative inverse variances.
    A_max : float
        Upper bound of ``A``; finite: ``R0`` is at least 0 too.
    R0 : float or None
        Held fixed, or fitted.

    Returns
    -------
    params : dict
    at_bound : tuple of str
    """
    x, root = np.log(C), np.sqrt(w)
    low = [LOG_B_BOUNDS[0], x[0] - math.log(1e3), *[LOG_NU_BOUNDS[0]] * n_shapes]
    high = [LOG_B_BOUNDS[1], x[-1] + math.log(1e3), *[LOG_NU_BOUNDS[1]] * n_shapes]

    def share(p: Array) -> Array:
        return curve(C, 1.0, *(math.exp(value) for value in p), 0.0)

    def residual(p: Array) -> Array:
        s = share(p)
        start, top = _linear(s, y, w, A_max, R0)
        return np.asarray(root * (y - start * (1.0 - s) - top * s))

    from scipy.optimize import least_squares  # a tenth of a second to import, and few call this

    width = float(x[-1] - x[0])
    steepness = np.log(np.array([0.7, 1.5, 3.0, 6.0]) / max(width, 1e-6) * 2.0)
    grid = [np.clip(steepness, *LOG_B_BOUNDS), np.linspace(x[0] - 0.2 * width, x[-1] + 0.2 * width, 9)]
    grid += [np.log(np.array([0.2, 1.0, 4.0]))] * n_shapes
    points = sorted(itertools.product(*grid), key=lambda p: float(np.sum(residual(np.array(p)) ** 2)))[:N_STARTS]
    rough = [least_squares(residual, p, bounds=(low, high), x_scale="jac", max_nfev=ROUGH_STEPS) for p in points]
    best = min(rough, key=lambda result: float(result.cost)).x
    p = least_squares(
        residual, best, bounds=(low, high), x_scale="jac", jac="3-point", ftol=1e-14, xtol=1e-14, gtol=1e-14,
        max_nfev=POLISH_STEPS,
    ).x  # fmt: skip
    start, top = _linear(share(p), y, w, A_max, R0)
    names = ("B", "C_0", "nu")[: len(p)]
    params = {"A": top, **{name: math.exp(value) for name, value in zip(names, p, strict=True)}, "R0": start}
    touched = [name for j, name in enumerate(names) if not low[j] + 1e-6 < p[j] < high[j] - 1e-6]
    return params, (*(("A",) if top >= A_max else ()), *touched)


def _linear(s: Array, y: Array, w: Array, A_max: float, R0: float | None) -> tuple[float, float]:
    """Return R0 and A that fit ``y`` best given the share ``s`` of the gain, inside their bounds."""
    rest = 1.0 - s
    if R0 is not None:
        top = float((w * s) @ (y - R0 * rest)) / max(float((w * s) @ s), 1e-300)
        return R0, min(top, A_max)
    mean_s, mean_y = float(np.average(s, weights=w)), float(np.average(y, weights=w))
    square = float((w * (s - mean_s)) @ (s - mean_s))
    gain = float((w * (s - mean_s)) @ (y - mean_y)) / square if square > 1e-14 * float(w.sum()) else 0.0
    start, top = mean_y - gain * mean_s, mean_y + gain * (1.0 - mean_s)
    if not math.isfinite(A_max):
        return start, top
    if top > A_max:
        top = A_max
        start = float((w * rest) @ (y - top * s)) / max(float((w * rest) @ rest), 1e-300)
    if start < 0.0:
        start, top = 0.0, min(float((w * s) @ y) / max(float((w * s) @ s), 1e-300), A_max)
    return start, top


def gompertz(compute: ArrayLike, A: ArrayLike, B: ArrayLike, C_0: ArrayLike, R0: ArrayLike) -> Array:
    """Return ``R0 + (A - R0) exp(-(C_0 / C)**B)``: Gompertz growth in log C, steep early and slow to saturate."""
    with np.errstate(over="ignore"):
        s = np.exp(-np.exp(-np.asarray(B) * (log_compute(compute) - log_compute(C_0))))
    return np.asarray(np.asarray(R0) * (1.0 - s) + np.asarray(A) * s)


def richards(compute: ArrayLike, A: ArrayLike, B: ArrayLike, C_0: ArrayLike, nu: ArrayLike, R0: ArrayLike) -> Array:
    """Return ``R0 + (A - R0) / (1 + (C_0 / C)**B)**(1 / nu)``: Richards growth in log C, the sigmoid at nu = 1."""
    eta = np.asarray(B) * (log_compute(compute) - log_compute(C_0))
    s = np.exp(-np.logaddexp(0.0, -eta) / np.asarray(nu))
    return np.asarray(np.asarray(R0) * (1.0 - s) + np.asarray(A) * s)
