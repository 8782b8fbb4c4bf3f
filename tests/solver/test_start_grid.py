"""Tests of `rlscaling/solver/start_grid.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.solver_series import TABLE1, multistart, noisy, solved


def cases(n):
    """Early and late series of several rows, with the noise of real runs."""
    names = ["scalerl", "batch-2048", "math-code-code", "generations-8"]
    for k in range(n):
        p = TABLE1[names[k % 4]]
        end = (0.5, 0.9, 1.5, 3.0, 6.0)[k % 5] * p.C_mid
        C = np.linspace(0.1 * p.C_mid, end, 12 + 7 * (k % 3))
        yield C, noisy(p, C, seed=k, rho=(0.0, 0.6, 0.8)[k % 3], sd=(0.003, 0.006, 0.01)[k % 3])


@pytest.mark.parametrize("R0", [None, 0.3])
def test_no_start_of_scipy_finds_a_lower_sum_of_squares(R0):
    for k, (C, y) in enumerate(cases(10)):
        _, ours = solved(C, y, R0=R0)
        assert ours <= multistart(C, y, R0) * (1 + 1e-9), k


@pytest.mark.slow
@pytest.mark.parametrize("R0", [None, 0.3])
def test_no_start_of_scipy_finds_a_lower_sum_of_squares_in_many_series(R0):
    worse = [k for k, (C, y) in enumerate(cases(60)) if solved(C, y, R0=R0)[1] > multistart(C, y, R0) * (1 + 1e-9)]
    assert worse == []


@pytest.mark.parametrize("vary_R0", [True, False])
def test_lmfit_finds_no_lower_sum_of_squares(vary_R0):
    import lmfit

    model = lmfit.Model(lambda C, A, B, C_mid, R0: R0 + (A - R0) / (1 + (C_mid / C) ** B))
    for k, (C, y) in enumerate(cases(20)):
        params = model.make_params(
            A={"value": min(y.max() + 0.01, 0.99), "min": 0.3, "max": 1.0},
            B={"value": 1.5, "min": 0.1, "max": 10},
            C_mid={"value": float(np.median(C)), "min": C[0] * 1e-3, "max": C[-1] * 1e3},
            R0={"value": 0.3, "min": 0, "max": 1, "vary": vary_R0},
        )
        theirs = float(model.fit(y, params, C=C).chisqr)
        assert solved(C, y, R0=None if vary_R0 else 0.3)[1] <= theirs * (1 + 1e-9), k
