"""The posterior on a grid: known truths, what was fixed, priors, and the forecast made of it."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.scalerl import TRUTH, run_fit
from rlscaling import Prior, bootstrap, fit_sigmoid, refit
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.uncertainty.posterior import posterior
from rlscaling.uncertainty.prior import DEFAULT, SIGMOID_ONLY


def test_late_run_agrees_with_least_squares_and_the_truth() -> None:
    fit = run_fit(20_000)
    boot = bootstrap(fit, scheme="posterior", rng=0)
    assert boot.scheme == "posterior"
    assert abs(np.median(boot.distribution[:, 0]) - fit.A) < 0.005
    low, high = boot.confidence_interval["A"]
    assert low < TRUTH.A < high
    ours, reference = high - low, np.ptp(bootstrap(fit, scheme="ar1", rng=0).confidence_interval["A"])
    assert 0.5 < ours / reference < 2.0


def test_where_the_rest_is_given_the_posterior_of_A_is_least_squares() -> None:
    """One shape, B given and C_mid near certain: A is normal with the mean of linear least squares."""
    C = np.arange(400.0, 16_000.0, 400.0)
    rng = np.random.default_rng(1)
    y = sigmoid(C, 0.61, 1.92, 2542.0, 0.35) + 0.005 * rng.standard_normal(len(C))
    fit = fit_sigmoid(C, y, R0=0.35, B=1.92, min_compute=0)
    prior = Prior(log_C_mid=(np.log(2542.0), 1e-3), relative=False, shapes=(("sigmoid", 1.0),), wander=(0.0,))
    A = posterior(fit.fitted_model(), prior).draw(np.random.default_rng(0), 4000).parameters()[:, 0]
    s = (C / 2542.0) ** 1.92 / (1.0 + (C / 2542.0) ** 1.92)
    mean = float(s @ (y - 0.35 * (1 - s)) / (s @ s))  # independent noise: correlation only widens it
    assert A.mean() == pytest.approx(mean, abs=0.001)
    assert 0.7 < A.std() / (0.005 / np.sqrt(s @ s)) < 2.0


def test_a_given_ceiling_and_exponent_stay_given() -> None:
    fit = refit(run_fit(8000.0), A=0.6, B=2.0)
    draws = bootstrap(fit, scheme="posterior", rng=0).distribution
    assert np.abs(draws[:, 0] - 0.6).max() < 1e-3
    assert np.allclose(draws[:, 1], 2.0)


@pytest.mark.parametrize("truth", ["sigmoid", "slow"])
def test_a_long_run_tells_its_shape(truth: str) -> None:
    C = np.arange(0.0, 40_001.0, 400.0)
    slow = 0.35 + 0.26 * (0.5 + np.arctan(1.92 * np.log(np.maximum(C, 1e-9) / 2542.0)) / np.pi)
    curve = slow if truth == "slow" else sigmoid(C, 0.61, 1.92, 2542.0, 0.35)
    model = fit_sigmoid(
        C, curve + 0.004 * np.random.default_rng(0).standard_normal(len(C)), min_compute=500
    ).fitted_model()
    found = posterior(model, DEFAULT)
    assert found.shape_probability(truth) > 0.95
    assert found.shape_probability("sigmoid") + found.shape_probability("slow") == pytest.approx(1.0)
    assert posterior(model, SIGMOID_ONLY).shape_probability("slow") == 0.0
