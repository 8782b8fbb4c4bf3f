"""Other functional forms: recovery, SciPy, units, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import curve_fit

from rlscaling import CurveFit, FitError, PowerLawFit, RLScalingError, SigmoidFit, fit_curve, fit_power_law, fit_sigmoid
from rlscaling.curves import exponential, log_linear, power_law

C = np.arange(2000.0, 40_000.0, 500.0)
NOISE = np.random.default_rng(0).normal(0, 0.003, len(C))


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


def test_the_bound_on_A_is_kept_and_said():
    y = log_linear(C, -0.2, 0.08)  # straight in log C: the power law runs away
    fit = fit_power_law(C, y)
    assert fit.A == 1.0
    assert fit.at_bound == ("A",)
    assert "at its bound: A" in str(fit)
    free = fit_power_law(C, y, A_max=math.inf)
    assert free.A > 1.0
    assert free.at_bound == ()
    assert free.ssr < fit.ssr


@pytest.mark.parametrize("factor", [1e-6, 1e6, 1e15, 1e21])
@pytest.mark.parametrize("form", ["power-law", "exponential", "log-linear"])
def test_a_unit_of_compute_changes_no_prediction(form, factor):
    y = power_law(C, 0.7, 0.6, 20.0) + NOISE
    base = fit_curve(C, y, form=form)
    other = fit_curve(C * factor, y, form=form, min_compute=0, compute_unit="tokens")
    np.testing.assert_allclose(other.predict(C * factor), base.predict(C), atol=1e-7)
    assert other.ssr == pytest.approx(base.ssr, rel=1e-6)


def test_bug_a_steep_power_law_in_flops_stays_finite():
    """D = C**B is beyond a float for B = 15 at 1e22 FLOPs; the fit must still predict."""
    steep = power_law(C, 0.6, 15.0, 0.3 * 2000.0**15)
    fit = fit_power_law(C * 1e19, steep, min_compute=0, compute_unit="flops")
    assert math.isfinite(fit.ssr)
    np.testing.assert_allclose(fit.predict(C * 1e19), steep, atol=1e-3)


def test_compute_zero_is_left_out_where_the_form_has_no_value():
    with_zero, y = np.append(0.0, C), np.append(0.1, power_law(C, 0.6, 0.5, 3.0))
    assert fit_power_law(with_zero, y, min_compute=0).n_points == len(C)
    assert fit_curve(with_zero, y, form="exponential", min_compute=0).n_points == len(C) + 1


def test_the_cutoff_is_that_of_fit_sigmoid():
    early = np.arange(100.0, 10_000.0, 100.0)
    y = power_law(early, 0.6, 0.5, 3.0)
    y[early < 1500] = 0.9
    assert fit_power_law(early, y).A == pytest.approx(0.6, rel=1e-4)
    window = fit_power_law(early, y, min_compute=2000, max_compute=5000)
    assert window.compute_range == (2000.0, 5000.0)


def test_sigmoid_by_name_is_fit_sigmoid():
    y = power_law(C, 0.7, 0.6, 20.0) + NOISE
    fit = fit_curve(C, y, form="sigmoid")
    assert isinstance(fit, SigmoidFit)
    assert fit.params == fit_sigmoid(C, y).params


def test_a_falling_run_is_a_constant():
    fit = fit_power_law(C, 0.6 - C / 1e5)
    assert pytest.approx(np.mean(0.6 - C / 1e5), abs=1e-9) == fit.A
    assert fit.D == 0.0
    assert np.ptp(fit.predict(C)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "cubic"}, "form='cubic' is unknown; choose one of sigmoid, power-law, exponential, log-linear"),
        ({"form": "power-law", "min_compute": 39_000}, "too few for a fit"),
        ({"form": "power-law", "compute_unit": "flops"}, "no default cutoff"),
        ({"form": "exponential", "A_max": 2.0}, "A_max=2: a pass rate has a bound"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(FitError, match=message):
        fit_curve(C, 0.3 + NOISE, **options)


def test_bad_data_are_refused():
    with pytest.raises(RLScalingError, match="looks like percent"):
        fit_power_law(C, 50 + NOISE)
    with pytest.raises(RLScalingError, match="compute has 3 values"):
        fit_power_law([1, 2, 3], [0.1])


def test_bug_an_exponential_far_from_compute_zero_with_a_low_A_max():
    """exp(-C / tau) underflows for every point while the mean lies above A_max: a division of zero by zero."""
    compute = np.arange(1e6, 1e6 + 50)
    fit = fit_curve(compute, np.linspace(0.5, 0.6, 50), form="exponential", A_max=0.3)
    assert fit.params["A"] == 0.3
    assert math.isfinite(fit.ssr)


def test_printing():
    text = str(fit_power_law(C, power_law(C, 0.6, 0.5, 3.0)))
    assert text.startswith("power-law: A = 0.6, B = 0.5, log_D = 1.099")
    assert f"({len(C)} points, SSR" in text
