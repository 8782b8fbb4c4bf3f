"""Series for the solver, and a slow search that it is compared with."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares

from rlscaling.curves.sigmoid import sigmoid
from rlscaling.datasets import table1
from rlscaling.solver.problem import Problem
from rlscaling.solver.variable_projection import solve

TABLE1 = table1(R0=0.3)


def problem(C, **options):
    return Problem(compute=np.asarray(C, dtype=float), weights=np.ones(len(C)), **options)


def solved(C, y, *, n_starts=4, weights=None, **options):
    """Parameters A, B, C_mid, R0 and the sum of squares of one series."""
    p = problem(C, **options)
    if weights is not None:
        p = replace(p, weights=np.asarray(weights, dtype=float))
    found = solve(p, np.asarray(y)[None, :], n_starts=n_starts)
    return found.draws()[0], float(found.ssr[0])


def noisy(params, C, seed, rho=0.6, sd=0.006):
    """A series of Table 1 with AR(1) noise, as in the simulations behind the defaults."""
    rng = np.random.default_rng(seed)
    e = np.empty(len(C))
    e[0] = rng.normal(0, sd)
    for i in range(1, len(C)):
        e[i] = rho * e[i - 1] + rng.normal(0, sd * np.sqrt(1 - rho**2))
    return np.clip(sigmoid(C, *params.as_tuple()) + e, 0.0, 1.0)


def multistart(C, y, R0, B_bounds=(0.1, 10.0)):
    """Lowest sum of squares of 18 bounded starts of scipy's least_squares, in (A, log B, log C_mid[, R0])."""
    x = np.log(C)

    def residual(z):
        base = R0 if R0 is not None else z[3]
        return base + (z[0] - base) / (1 + np.exp(-np.exp(z[1]) * (x - z[2]))) - y

    low = [0.0 if R0 is None else R0, math.log(B_bounds[0]), x.min() - math.log(1e3)]
    high = [1.0, math.log(B_bounds[1]), x.max() + math.log(1e3)]
    if R0 is None:
        low, high = [*low, 0.0], [*high, 1.0]
    best = np.inf
    for B in (0.5, 1.6, 5.0):
        for C_mid in np.geomspace(C[0], 3 * C[-1], 6):
            start = [min(y.max() + 0.02, 0.99), math.log(B), math.log(C_mid)]
            start += [max(y.min() - 0.02, 0.01)] if R0 is None else []
            found = least_squares(
                residual, start, bounds=(low, high), x_scale="jac", ftol=1e-14, xtol=1e-14, gtol=1e-14, max_nfev=200
            )
            feasible = R0 is not None or found.x[0] >= found.x[3]
            best = min(best, 2 * found.cost) if feasible else best
    return best
