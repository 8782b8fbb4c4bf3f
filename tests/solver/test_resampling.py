"""Tests of `rlscaling/solver/resampling.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.scalerl import TRACE, C, P
from rlscaling import bootstrap, fit_sigmoid, fit_trace
from rlscaling.curves.sigmoid import sigmoid_jacobian
from rlscaling.datasets import simulate
from rlscaling.solver.resampling import replicates


def ar1_sandwich(compute, params, rho, sd):
    """Standard errors of least squares with R0 known under AR(1) noise: (J'J)^-1 J'SJ (J'J)^-1, S written out."""
    J = sigmoid_jacobian(compute, *params)[:, :3]
    n = np.arange(len(compute))
    S = sd**2 * rho ** np.abs(n[:, None] - n[None, :])
    inverse = np.linalg.inv(J.T @ J)
    return np.sqrt(np.diag(inverse @ J.T @ S @ J @ inverse))


@pytest.mark.parametrize("scheme", ["ar1", "residual", "pairs", "block"])
def test_on_white_noise_the_spread_is_the_theory_of_least_squares(scheme):
    compute = np.linspace(1500.0, 16_000.0, 150)
    sd = 0.004
    expected = ar1_sandwich(compute, P.as_tuple(), 0.0, sd)[0]
    spread, least_squares = [], []
    for seed in range(8):
        y = P.predict(compute) + np.random.default_rng(seed).normal(0, sd, len(compute))
        fit = fit_sigmoid(compute, y, R0=P.R0)
        least_squares.append(fit.standard_error["A"])
        spread.append(bootstrap(fit, scheme=scheme, n_resamples=250, rng=0).half_width_68["A"])
    assert np.mean(least_squares) == pytest.approx(expected, rel=0.1)
    assert np.mean(spread) == pytest.approx(expected, rel=0.15)


def test_on_correlated_noise_ar1_has_the_spread_of_the_theory():
    compute = np.linspace(1500.0, 16_000.0, 300)
    rho, sd = 0.6, 0.006
    rng = np.random.default_rng(2)
    e = np.empty(len(compute))
    e[0] = rng.normal(0, sd)
    for i in range(1, len(e)):
        e[i] = rho * e[i - 1] + rng.normal(0, sd * math.sqrt(1 - rho**2))
    fit = fit_sigmoid(compute, P.predict(compute) + e, R0=P.R0)
    expected = ar1_sandwich(compute, P.as_tuple(), rho, sd)[0]
    assert bootstrap(fit, scheme="ar1", rng=0).half_width_68["A"] == pytest.approx(expected, rel=0.25)
    assert bootstrap(fit, rng=0).half_width_68["A"] > expected, "departures come on top"
    assert bootstrap(fit, scheme="residual", rng=0).half_width_68["A"] < 0.75 * expected


def test_binomial_noise_has_the_spread_of_its_counts():
    trace = simulate(P, compute=C, rng=5)
    fit = fit_trace(trace, R0=P.R0)
    boot = bootstrap(fit, scheme="binomial", rng=0)
    used = fit.data.used
    J = sigmoid_jacobian(C[used], *P.as_tuple())[:, :3]
    inverse = np.linalg.inv(J.T @ J)
    V = inverse @ J.T @ np.diag(trace.pass_rate_se[used] ** 2) @ J @ inverse
    assert boot.half_width_68["A"] == pytest.approx(math.sqrt(V[0, 0]), rel=0.15)


def test_the_anchor_is_drawn_anew_around_its_value():
    fit = fit_sigmoid(C, TRACE.pass_rate, R0=0.35, R0_se=0.02)
    model = fit.fitted_model()
    assert model.anchor is not None
    tight = bootstrap(fit_sigmoid(C, TRACE.pass_rate, R0=0.35), rng=0)
    loose = bootstrap(fit, rng=0)
    assert tight.confidence_interval["R0"] == (0.35, 0.35)
    assert 0 < loose.half_width_68["R0"] <= 0.025
    assert loose.half_width_68["B"] > tight.half_width_68["B"]


def test_pairs_replicates_hold_five_different_points():
    fit = fit_sigmoid(C[:16], TRACE.pass_rate[:16])
    draws = replicates(fit.fitted_model(), "pairs", np.random.default_rng(0), 300)
    assert np.all(np.isfinite(draws.parameters))
    assert draws.departures is None


def test_a_replicate_reaches_a_score_where_its_curve_does():
    fit = fit_sigmoid(C, TRACE.pass_rate)
    drawn = replicates(fit.fitted_model(), "departures", np.random.default_rng(0), 100)
    compute = drawn.reach(0.55)
    assert np.all(np.isfinite(compute))
    there = np.array([drawn.curves(compute[i : i + 1])[i, 0] for i in range(100)])
    np.testing.assert_allclose(there, 0.55, atol=1e-5)
    assert np.all(drawn.reach(0.99) == np.inf)
    assert np.all(drawn.reach(0.1) == 0.0)
