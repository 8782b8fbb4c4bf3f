"""Other functional forms: recovery, SciPy, units, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.curve_points import HOURS, NOISE, C
from rlscaling import FitError, RLScalingError, SigmoidFit, fit_curve, fit_power_law, fit_sigmoid
from rlscaling.curves.forms import log_linear, power_law


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


def test_printing():
    text = str(fit_power_law(C, power_law(C, 0.6, 0.5, 3.0)))
    assert text.startswith("power-law: A = 0.6, B = 0.5, log_D = 1.099")
    assert f"({len(C)} points, SSR" in text


def test_R0_of_a_form_without_one_is_refused():
    with pytest.raises(FitError, match=r"R0=0\.3: the power-law form has no R0 to fix"):
        fit_curve(HOURS[1:], power_law(HOURS[1:], 0.6, 1.0, 500.0), form="power-law", R0=0.3)


@pytest.mark.parametrize("form", ["sigmoid", "power-law", "exponential", "log-linear", "gompertz", "richards"])
def test_every_form_has_the_same_face(form):
    """AICc is that of the textbook for independent noise, and all results of `fit_curve` satisfy one protocol."""
    y = power_law(C, 0.7, 0.6, 20.0) + NOISE
    fit = fit_curve(C, y, form=form, **({"R0": "free"} if form == "sigmoid" else {}))
    n, k = fit.n_points, fit.n_parameters + 1
    minus_two = n * (math.log(2 * math.pi * fit.ssr / n) + 1)
    assert fit.form == form
    assert fit.aicc == pytest.approx(minus_two + 2 * k + 2 * k * (k + 1) / (n - k - 1), rel=1e-12)
    assert dict(fit.params) == {name: fit.params[name] for name in fit.params.keys()}  # noqa: SIM118
    assert fit.n_parameters == len(dict(fit.params))
    assert fit.predict(C).shape == C.shape
    assert fit.headline in str(fit)


def test_a_fixed_R0_is_no_parameter():
    y = power_law(C, 0.7, 0.6, 20.0) + NOISE
    assert fit_curve(C, y, form="gompertz", R0=0.3).n_parameters == 3
    assert fit_curve(C, y, form="sigmoid", R0=0.3).n_parameters == 3
    assert fit_sigmoid(C, y, A=0.7, B=1.0, R0=0.3).n_parameters == 1


def test_aicc_needs_points():
    few = slice(len(C) - 6, None)
    assert fit_curve(C[few], power_law(C[few], 0.7, 0.6, 20.0), form="richards").aicc == math.inf


def test_the_slow_shape_is_for_the_averaged_forecast_alone():
    with pytest.raises(FitError, match="form='slow' is unknown; choose one of sigmoid, power-law"):
        fit_curve(C, power_law(C, 0.7, 0.6, 20.0), form="slow")


@pytest.mark.parametrize("form", ["sigmoid", "power-law", "exponential", "log-linear", "gompertz", "richards"])
def test_a_weight_of_two_is_the_point_twice(form):
    """Weights of 1 and 2 give the curve of the data in which every second point occurs twice (a hair apart)."""
    y = power_law(C, 0.62, 0.9, 300.0) + NOISE
    w = np.where(np.arange(len(C)) % 2 == 0, 2.0, 1.0)
    twice = np.sort(np.concatenate([C, C[::2] * (1 + 1e-9)]))
    y_twice = y[np.searchsorted(C, twice / (1 + 1e-9) - 1e-3)]
    weighted, repeated = fit_curve(C, y, form=form, weights=w, R0=None), fit_curve(twice, y_twice, form=form)
    np.testing.assert_allclose(weighted.predict(C), repeated.predict(C), atol=2e-6)


def test_weights_are_cut_with_the_points_and_checked():
    with_zero, y = np.append(0.0, C), np.append(0.1, power_law(C, 0.6, 0.5, 3.0) + NOISE)
    w = np.linspace(1.0, 2.0, len(y))
    whole = fit_power_law(with_zero, y, weights=w, min_compute=0)
    assert whole.params == pytest.approx(fit_power_law(C, y[1:], weights=w[1:], min_compute=0).params)
    with pytest.raises(FitError, match=f"weights has 2 values for {len(y)} evaluations"):
        fit_power_law(with_zero, y, weights=[1.0, 2.0])
