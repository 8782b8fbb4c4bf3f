"""The curves against finite differences, their limits, and the words of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.curve_points import ROWS
from rlscaling.curves.sigmoid import PARAMETER_NAMES, gain_share, logistic, sigmoid, sigmoid_inverse, sigmoid_jacobian

WIDE = np.concatenate([[0.0], np.geomspace(1e-3, 1e24, 109)])


def naive(C, A, B, C_mid, R0):
    """Eq. 1 of ScaleRL as it is printed; also takes complex arguments."""
    return R0 + (A - R0) / (1.0 + (C_mid / C) ** B)


@pytest.mark.parametrize("params", ROWS.values(), ids=ROWS)
def test_sigmoid_is_equation_1(params):
    C = np.geomspace(1.0, 1e6, 50)
    np.testing.assert_allclose(sigmoid(C, *params), naive(C, *params), rtol=1e-14)


@pytest.mark.parametrize("params", ROWS.values(), ids=ROWS)
def test_limits_half_gain_and_monotone(params):
    A, _B, C_mid, R0 = params
    assert sigmoid(0.0, *params) == R0
    assert sigmoid(np.inf, *params) == A
    assert sigmoid(1e24, *params) == pytest.approx(A, abs=1e-12)
    assert sigmoid(C_mid, *params) == pytest.approx((A + R0) / 2, rel=1e-14)
    R = sigmoid(WIDE, *params)
    assert np.all(np.isfinite(R))
    assert np.all(np.diff(R) >= 0)
    assert np.all(np.diff(sigmoid(np.geomspace(C_mid / 100, C_mid * 100, 200), *params)) > 0)
    assert R.min() >= R0
    assert R.max() <= A


@pytest.mark.parametrize("params", [*ROWS.values(), (2.0, 0.5, 1e-2, 5.0), (-3.0, 8.0, 1e20, 1.0)])
def test_jacobian_is_the_complex_step_derivative(params):
    C = params[2] * np.geomspace(1e-3, 1e3, 31)
    h = 1e-30
    expected = np.empty((len(C), 4))
    for j in range(4):
        z = np.array(params, dtype=complex)
        z[j] += 1j * h * abs(params[j])
        expected[:, j] = naive(C, *z).imag / (h * abs(params[j]))
    scale = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(sigmoid_jacobian(C, *params) / scale, expected / scale, rtol=1e-11, atol=1e-13)
    assert PARAMETER_NAMES == ("A", "B", "C_mid", "R0")  # the order of the columns


def test_jacobian_is_the_central_difference_of_the_code_itself():
    params = ROWS["scalerl"]
    C = np.geomspace(100.0, 1e5, 20)
    J = sigmoid_jacobian(C, *params)
    for j, value in enumerate(params):
        step = 1e-6 * value
        up, down = [*params], [*params]
        up[j] += step
        down[j] -= step
        slope = (sigmoid(C, *up) - sigmoid(C, *down)) / (2 * step)
        np.testing.assert_allclose(J[:, j], slope, rtol=1e-7, atol=1e-12)


def test_jacobian_at_compute_zero_is_that_of_R0_alone():
    np.testing.assert_array_equal(sigmoid_jacobian(0.0, 0.61, 1.92, 2542.0, 0.35), [[0.0, 0.0, 0.0, 1.0]])
    assert np.all(np.isfinite(sigmoid_jacobian(WIDE, 0.61, 1.92, 2542.0, 0.35)))


@pytest.mark.parametrize("params", [*ROWS.values(), (2.0, 0.7, 5.0, 10.0)])
def test_inverse_round_trip(params):
    C = params[2] * np.geomspace(1e-2, 1e2, 41)
    np.testing.assert_allclose(sigmoid_inverse(sigmoid(C, *params), *params), C, rtol=1e-9)


def test_inverse_at_and_outside_the_ends():
    A, B, C_mid, R0 = 0.61, 1.92, 2542.0, 0.35
    found = sigmoid_inverse([R0, A, R0 - 0.01, A + 0.01, (A + R0) / 2], A, B, C_mid, R0)
    np.testing.assert_allclose(found, [0.0, np.inf, np.nan, np.nan, C_mid], rtol=1e-12)
    assert np.isnan(sigmoid_inverse(0.4, 0.5, 1.0, 10.0, 0.5))  # a flat curve never comes there


def test_any_unit_of_compute_gives_the_same_curve():
    A, B, C_mid, R0 = ROWS["scalerl"]
    C = np.geomspace(10.0, 1e5, 40)
    for factor in (1e-9, 1e-3, 1e3, 1e24):
        np.testing.assert_allclose(
            sigmoid(C * factor, A, B, C_mid * factor, R0), sigmoid(C, A, B, C_mid, R0), rtol=1e-12
        )


def test_steep_and_shallow_extremes_stay_finite():
    for B in (1e-3, 50.0, 1e4):
        R = sigmoid(WIDE, 0.61, B, 2542.0, 0.35)
        assert np.all((R >= 0.35) & (R <= 0.61))
    assert logistic([-np.inf, -1e308, 0.0, 1e308, np.inf]).tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert gain_share(0.0, 1.9, 2542.0) == 0.0


def test_arguments_broadcast():
    draws = np.array([[0.6, 1.9, 2500.0, 0.3], [0.7, 1.1, 900.0, 0.2]])
    R = sigmoid(np.array([100.0, 1e4, 1e5])[None, :], *(draws[:, j : j + 1] for j in range(4)))
    assert R.shape == (2, 3)
    np.testing.assert_array_equal(R[1], sigmoid([100.0, 1e4, 1e5], *draws[1]))
