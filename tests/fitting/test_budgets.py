"""Tests of `rlscaling/fitting/budgets.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.forecast_fits import BOOT, EARLY, FIT, TRACE
from helpers.scalerl import C, P
from rlscaling import FitError, RLScalingError, extrapolate, fit_sigmoid, fit_trace


def test_the_default_budget_is_100_000_gpu_hours():
    forecast = extrapolate(FIT, rng=0)
    assert forecast.compute.tolist() == [100_000.0]
    assert forecast.confidence_interval.low.shape == (1,)
    low, high = forecast.confidence_interval.at(0)
    assert low < P.predict(100_000) < high
    assert forecast.beyond[0] == pytest.approx(100_000 / FIT.compute_range[1])


@pytest.mark.parametrize(
    "compute", [50_000, 50_000.0, np.float64(5e4), np.int64(50_000), [50_000], (5e4,), np.array([5e4])]
)
def test_budgets_come_in_many_forms(compute):
    assert extrapolate(FIT, compute, bootstrap=BOOT).compute.tolist() == [50_000.0]


def test_bug_a_zero_dimensional_array_is_one_budget():
    assert extrapolate(FIT, np.array(5e4), bootstrap=BOOT).compute.tolist() == [50_000.0]


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (0, r"compute\[0\] is 0: a budget is a positive, finite number of GPU-hours"),
        ([1e4, -5], r"compute\[1\] is -5"),
        (math.inf, r"compute\[0\] is inf"),
        (math.nan, r"compute\[0\] is nan"),
        ([], "compute is empty"),
        ("far", r"compute\[0\] is 'far': text"),
        ([[1e4]], "compute is of shape"),
    ],
)
def test_budgets_that_mean_nothing_are_refused(compute, message):
    with pytest.raises(RLScalingError, match=message):
        extrapolate(FIT, compute, bootstrap=BOOT)


def test_other_units_ask_for_a_budget():
    fit = fit_sigmoid(C, TRACE.pass_rate, compute_unit="tokens", min_compute=1500)
    with pytest.raises(FitError, match=r"compute is in tokens, for which there is no default budget; give compute="):
        extrapolate(fit, rng=0)
    assert extrapolate(fit, 1e5, rng=0).pass_rate.shape == (1,)


def test_an_identified_ceiling_carries_any_budget():
    forecast = extrapolate(FIT, [2e4, 1e6], bootstrap=BOOT)
    assert forecast.supported.tolist() == [True, True]
    assert "not identified" not in str(forecast)


def test_without_a_ceiling_numbers_end_at_twice_the_data():
    assert EARLY.verdict in ("ceiling-not-identified", "flat")
    late = fit_trace(TRACE.up_to(4000))
    assert late.verdict == "ceiling-not-identified"
    end = late.compute_range[1]
    forecast = extrapolate(late, [0.5 * end, 1.99 * end, 2.01 * end, 1e5], rng=0)
    assert forecast.supported.tolist() == [True, True, False, False]
    rows = str(forecast).splitlines()[2:6]
    assert ["not identified" in row for row in rows] == [False, False, True, True]
    assert "beyond twice the data only the interval is given" in str(forecast)
    assert np.all(np.isfinite(forecast.confidence_interval))
    low, high = forecast.confidence_interval.at(-1)
    assert high - low > 0.1
    assert low < P.predict(1e5) < high


@pytest.mark.parametrize("kind", ["flat", "misfit"])
def test_a_run_off_the_law_carries_no_forecast(kind, rng):
    if kind == "flat":
        y = 0.4 + rng.normal(0, 0.004, len(C))
    else:
        y = TRACE.pass_rate.copy()
        y[40] -= 0.15
    fit = fit_sigmoid(C, y)
    assert fit.verdict == kind
    forecast = extrapolate(fit, [8000.0, 20_000.0], rng=0)
    assert forecast.supported.tolist() == [True, False]
    assert f"the verdict is {kind}" in str(forecast)


def test_bug_a_budget_out_of_range_is_not_called_infinite():
    with pytest.raises(FitError, match=r"compute\[0\] is 1e\+300, outside 1e-100 to 1e\+100; give it .* another unit"):
        extrapolate(FIT, 1e300)
