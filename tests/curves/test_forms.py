"""Tests of `rlscaling/curves/forms.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import curve_fit

from helpers.curve_points import NOISE, ROWS, C
from rlscaling import CurveFit, PowerLawFit, fit_curve, fit_power_law
from rlscaling.curves.forms import exponential, log_linear, power_law
from rlscaling.curves.sigmoid import sigmoid


def test_power_law_is_the_limit_of_the_sigmoid():
    # [ScaleRL, A.4]: R ~ A - D / C**B with D = (A - R0) C_mid**B for C >> C_mid; next term is of order (C_mid/C)**2B
    A, B, C_mid, R0 = ROWS["batch-2048"]
    C = C_mid * np.array([100.0, 1000.0])
    gap = np.abs(sigmoid(C, A, B, C_mid, R0) - power_law(C, A, B, (A - R0) * C_mid**B))
    np.testing.assert_array_less(gap, (A - R0) * (C_mid / C) ** (2 * B))
    np.testing.assert_allclose(power_law(np.array([4.0, 16.0]), 1.0, 0.5, 1.0), [0.5, 0.75])
    assert power_law(5.0, 0.6, 1.0, 0.0) == 0.6


def test_exponential_and_log_linear():
    assert exponential(0.0, 0.6, 100.0, 0.2) == pytest.approx(0.2)
    assert exponential(100.0 * np.log(2.0), 0.6, 100.0, 0.2) == pytest.approx(0.4)
    assert exponential(1e9, 0.6, 100.0, 0.2) == 0.6
    np.testing.assert_allclose(log_linear(np.exp([0.0, 2.0]), 0.1, 0.05), [0.1, 0.2])


@pytest.mark.parametrize(("A", "B", "D"), [(0.6, 0.5, 3.0), (0.9, 1.2, 2000.0), (0.645, 1.7, 1e5), (1.0, 0.1, 1.5)])
def test_power_law_recovers_itself(A, B, D):
    fit = fit_power_law(C, power_law(C, A, B, D))
    assert isinstance(fit, PowerLawFit)
    np.testing.assert_allclose((fit.A, fit.B, fit.D), (A, B, D), rtol=1e-4)
    np.testing.assert_allclose(fit.predict(C), power_law(C, A, B, D), atol=1e-8)
    assert fit.compute_range == (2000.0, 39_500.0)
    assert fit.n_points == len(C)


def test_exponential_and_log_linear_recover_themselves():
    fit = fit_curve(C, exponential(C, 0.6, 4000.0, 0.2), form="exponential")
    np.testing.assert_allclose([fit.params[k] for k in ("A", "tau", "R0")], (0.6, 4000.0, 0.2), rtol=1e-4)
    fit = fit_curve(C, log_linear(C, 0.1, 0.04), form="log-linear")
    np.testing.assert_allclose([fit.params["intercept"], fit.params["slope"]], (0.1, 0.04), rtol=1e-10)
    assert isinstance(fit, CurveFit)


def test_scipy_finds_no_lower_sum_of_squares():
    # oracle: curve_fit from the truth; the log-linear form by numpy's polyfit
    y = power_law(C, 0.7, 0.6, 20.0) + NOISE
    found, _ = curve_fit(power_law, C, y, p0=(0.7, 0.6, 20.0), x_scale=(0.1, 0.1, 10.0), bounds=(0, [1, 20, np.inf]))
    ours = fit_power_law(C, y)
    assert ours.ssr <= float(np.sum((y - power_law(C, *found)) ** 2)) * (1 + 1e-9)
    y = exponential(C, 0.6, 6000.0, 0.3) + NOISE
    found, _ = curve_fit(exponential, C, y, p0=(0.6, 6000.0, 0.3), x_scale=(0.1, 1000.0, 0.1), method="trf")
    ours = fit_curve(C, y, form="exponential")
    assert ours.ssr <= float(np.sum((y - exponential(C, *found)) ** 2)) * (1 + 1e-9)
    slope, intercept = np.polyfit(np.log(C), y, 1)
    line = fit_curve(C, y, form="log-linear")
    np.testing.assert_allclose((line.params["slope"], line.params["intercept"]), (slope, intercept), rtol=1e-8)


def test_bug_a_steep_power_law_in_flops_stays_finite():
    """D = C**B is beyond a float for B = 15 at 1e22 FLOPs; the fit must still predict."""
    steep = power_law(C, 0.6, 15.0, 0.3 * 2000.0**15)
    fit = fit_power_law(C * 1e19, steep, min_compute=0, compute_unit="flops")
    assert math.isfinite(fit.ssr)
    np.testing.assert_allclose(fit.predict(C * 1e19), steep, atol=1e-3)


def test_bug_an_exponential_far_from_compute_zero_with_a_low_A_max():
    """exp(-C / tau) underflows for every point while the mean lies above A_max: a division of zero by zero."""
    compute = np.arange(1e6, 1e6 + 50)
    fit = fit_curve(compute, np.linspace(0.5, 0.6, 50), form="exponential", A_max=0.3)
    assert fit.params["A"] == 0.3
    assert math.isfinite(fit.ssr)
