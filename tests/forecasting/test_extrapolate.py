"""Forecasts: the curve with its band, what the data can carry, the compute to a target, and the cutoff's part."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.forecast_fits import BOOT, EARLY, FIT, TRACE
from helpers.scalerl import TRUTH, C, P, run_fit
from rlscaling import FitError, bootstrap, compute_to_reach, extrapolate, fit_sigmoid, fit_trace, simulate
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.datasets import load_demo
from rlscaling.fitting.sigmoid_fit import SigmoidParams


def test_the_forecast_is_the_curve_and_the_quantiles_of_its_replicates():
    end = FIT.compute_range[1]
    budgets = np.array([2000.0, end, 8.0 * end, 64.0 * end])
    forecast = extrapolate(FIT, budgets, bootstrap=BOOT)
    np.testing.assert_array_equal(forecast.pass_rate, FIT.predict(budgets))
    curves = BOOT.curves(budgets)
    np.testing.assert_array_equal(forecast.distribution, curves)
    np.testing.assert_allclose(forecast.confidence_interval, np.quantile(curves, [0.025, 0.975], axis=0))
    assert np.shape(forecast.confidence_interval) == np.shape(forecast.confidence_interval_new_run) == (2, 4)
    width = np.diff(forecast.confidence_interval, axis=0).ravel()
    new = np.diff(forecast.confidence_interval_new_run, axis=0).ravel()
    assert np.all(new[1:] > width[1:])
    # at eight times the data the forecast is A; until then, and from there on, the run may drift
    np.testing.assert_allclose(forecast.distribution[:, 2], BOOT.distribution[:, 0], atol=2e-3)
    assert width[1] < 0.8 * width[2] < 0.8 * width[3]


def test_without_departures_the_forecast_is_the_curve_of_each_replicate():
    budgets = np.array([2000.0, 16_000.0, 1e5, 1e6])
    boot = bootstrap(FIT, scheme="ar1", rng=0, n_resamples=200)
    forecast = extrapolate(FIT, budgets, bootstrap=boot)
    curves = np.stack([sigmoid(budgets, *row) for row in boot.distribution])
    np.testing.assert_allclose(forecast.distribution, curves, rtol=1e-14)
    # far out the forecast is A
    np.testing.assert_allclose(forecast.confidence_interval.at(-1), boot.confidence_interval["A"], atol=1e-3)


def test_a_bootstrap_of_another_fit_is_refused():
    with pytest.raises(FitError, match="belongs to another fit"):
        extrapolate(EARLY, bootstrap=BOOT)


def test_bug_compute_to_reach_refuses_the_bootstrap_of_another_fit():
    with pytest.raises(FitError, match="belongs to another fit"):
        compute_to_reach(EARLY, 0.5, bootstrap=BOOT)


def test_bug_a_fit_in_place_of_a_bootstrap_is_refused_in_words():
    with pytest.raises(FitError, match="bootstrap"):
        extrapolate(FIT, bootstrap=FIT)


def test_few_points_have_no_forecast():
    with pytest.raises(FitError, match="too few for an interval"):
        extrapolate(fit_sigmoid(C[7:13], TRACE.pass_rate[7:13]))


def test_the_same_seed_gives_the_same_forecast():
    one, two = extrapolate(FIT, rng=5), extrapolate(FIT, rng=5)
    np.testing.assert_array_equal(one.distribution, two.distribution)
    again = extrapolate(FIT, rng=one.rng_seed)
    np.testing.assert_array_equal(again.confidence_interval, one.confidence_interval)


def test_forecasts_hold_the_truth():
    # the paper's check: fit the first half, train on, compare [ScaleRL, 2.1]
    inside = 0
    for seed in range(20):
        trace = simulate(P, compute=C[:50], rho=0.3, wander_sd=0.003, rng=seed)
        low, high = extrapolate(fit_trace(trace), [1e5], rng=0).confidence_interval.at(0)
        inside += low < P.predict(1e5) < high
    assert inside >= 15  # binomial(20, 0.95) is below with probability 3e-4


def test_the_compute_to_reach_is_the_inverse_of_the_curve():
    reach = compute_to_reach(FIT, 0.55, bootstrap=BOOT)
    assert FIT.predict(reach.compute) == pytest.approx(0.55, abs=1e-12)
    assert reach.compute == pytest.approx(float(FIT.compute_to_reach(0.55)))
    low, high = reach.confidence_interval
    assert low < float(P.compute_to_reach(0.55)) < high
    assert reach.probability == 1.0
    wide = reach.at_level(0.99).confidence_interval
    assert wide[0] <= low
    assert wide[1] >= high
    assert "pass rate 0.55 at" in str(reach)


def test_above_the_ceiling_it_is_infinite_and_below_the_start_zero():
    above = compute_to_reach(FIT, 0.9, bootstrap=BOOT)
    assert above.compute == math.inf
    assert above.confidence_interval == (math.inf, math.inf)
    assert above.probability == 0.0
    assert "inf" in str(above)
    below = compute_to_reach(FIT, 0.1, bootstrap=BOOT)
    assert (below.compute, below.confidence_interval, below.probability) == (0.0, (0.0, 0.0), 1.0)


def test_near_the_ceiling_some_replicates_never_come():
    target = BOOT.distribution[:, 0].mean()
    reach = compute_to_reach(FIT, target, bootstrap=BOOT)
    assert 0 < reach.probability < 1
    assert reach.confidence_interval[1] == math.inf
    assert math.isfinite(reach.confidence_interval[0])


def test_bug_a_falling_unbounded_score_reaches_what_lies_between():
    """From 15 down to -40: the target -10 is met at a finite compute, and 20 never."""
    truth = SigmoidParams(A=-40.0, B=2.2, C_mid=3000.0, R0=15.0)
    fit = fit_trace(simulate(truth, compute=C, n_prompts=None, wander_sd=0.1, rng=0))
    reach = compute_to_reach(fit, -10.0, rng=0)
    assert reach.compute == pytest.approx(float(truth.compute_to_reach(-10.0)), rel=0.05)
    assert reach.confidence_interval[0] <= reach.compute <= reach.confidence_interval[1]
    assert compute_to_reach(fit, -41.0, rng=0).compute == math.inf


def test_a_target_that_is_no_number_is_refused():
    for target in (math.nan, math.inf):
        with pytest.raises(FitError, match="is not a finite number; give the pass rate to reach"):
            compute_to_reach(FIT, target, bootstrap=BOOT)


@pytest.mark.parametrize("target", [55, 1.01, -0.1])
def test_a_target_that_is_no_pass_rate_is_refused(target):
    with pytest.raises(FitError, match=r"is outside \[0, 1\]: pass rates are fractions, e.g. 0.55 for 55 %"):
        compute_to_reach(FIT, target, bootstrap=BOOT)


@pytest.mark.parametrize("target", ["high", [0.5, 0.6], None], ids=str)
def test_bug_a_target_of_another_type_is_refused_in_words(target):
    with pytest.raises(FitError, match="pass_rate"):
        compute_to_reach(FIT, target, bootstrap=BOOT)


def test_the_demo_run_forecasts_its_own_truth():
    for trace in load_demo().values():
        low, high = extrapolate(fit_trace(trace), rng=0).confidence_interval.at(0)
        truth = SigmoidParams(**trace.metadata["true_params"])
        assert low - 0.01 < truth.predict(1e5) < high + 0.01


def test_early_forecasts_are_nearer_than_least_squares() -> None:
    """METHOD: data that end before 0.75 C_mid; least squares is far off at 12 times the data."""
    errors = []
    for seed in range(3):
        fit = run_fit(0.75 * TRUTH.C_mid + 1500.0, seed)
        at = 12.0 * fit.compute_range[1]
        truth = float(TRUTH.predict(at))
        errors.append([abs(float(extrapolate(fit, at, method="averaged", rng=0).pass_rate[0]) - truth),
                       abs(float(fit.predict(at)) - truth)])  # fmt: skip
    ours, least_squares = np.mean(errors, axis=0)
    assert ours < least_squares


@pytest.mark.slow
def test_intervals_of_auto_hold_the_truth() -> None:
    """Binomial: 24 intervals at 95 %, fewer than 19 would happen once in 1,000."""
    held = 0
    for seed in range(24):
        fit = run_fit(6000.0, seed + 100)
        low, high = extrapolate(fit, 12_000.0, method="averaged", rng=seed).confidence_interval.at(0)
        held += low <= float(TRUTH.predict(12_000.0)) <= high
    assert held >= 19


def test_same_seed_same_numbers() -> None:
    fit = run_fit(8000.0)
    first, again, other = (extrapolate(fit, [9000, 16_000], method="averaged", rng=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.distribution, again.distribution)
    assert not np.array_equal(first.distribution, other.distribution)
    assert first.method == "averaged"
    assert np.all(np.diff(first.prediction_interval, axis=0) > np.diff(first.confidence_interval, axis=0) * 0.9)


@pytest.mark.parametrize("R0", ["measured", "given", "free"])
def test_unbounded_scores_follow_their_scale(R0: str) -> None:
    """Another unit of the score moves the forecast and its interval by that unit, whatever R0 is."""
    C = np.arange(0.0 if R0 == "measured" else 400.0, 16_001.0, 400.0)
    y = sigmoid(C, 0.61, 1.92, 2542.0, 0.35) + 0.004 * np.random.default_rng(0).standard_normal(len(C))
    small, large = (
        fit_sigmoid(
            C, unit * y + shift, A_max=np.inf, min_compute=500, R0=unit * 0.35 + shift if R0 == "given" else None
        )
        for unit, shift in ((1.0, 0.0), (1000.0, -7.0))
    )
    a, b = (extrapolate(fit, 32_000.0, method="averaged", rng=0) for fit in (small, large))
    assert b.pass_rate[0] == pytest.approx(1000.0 * a.pass_rate[0] - 7.0, rel=0.005)
    assert np.ptp(b.confidence_interval.at(0)) == pytest.approx(1000.0 * np.ptp(a.confidence_interval.at(0)), rel=0.02)


def test_the_interval_of_a_new_run_follows_the_spread_between_seeds() -> None:
    fit = run_fit(8000.0)
    none, much = (extrapolate(fit, 16_000.0, method="averaged", seed_sd=sd, rng=0) for sd in (0.0, 0.1))
    assert np.array_equal(none.distribution, much.distribution)
    assert np.array_equal(none.distribution_new_run, none.distribution)
    assert much.distribution_new_run.std() > 0.08
    with pytest.raises(FitError, match="seed_sd=-0.1 must be"):
        extrapolate(fit, 16_000.0, method="averaged", seed_sd=-0.1)


def test_many_points_are_averaged_and_free_R0_works() -> None:
    fit = fit_sigmoid(
        *(lambda t: (t.compute, t.pass_rate))(simulate(TRUTH, compute=np.arange(1600, 16_000, 20.0), rng=0))
    )
    assert fit.R0_source == "free"
    found = extrapolate(fit, 30_000.0, method="averaged", rng=0)
    assert abs(found.pass_rate[0] - float(TRUTH.predict(30_000.0))) < 0.02


@pytest.mark.parametrize("method", ["sigmoid", "averaged"])
@pytest.mark.parametrize(("every", "start"), [(2, 0.0), (5, 0.0), (1, 6000.0)], ids=["second", "fifth", "later"])
def test_bug_prediction_intervals_of_weighted_fits_hold(method, every, start):
    """They were those of an evaluation of mean weight and held half of the evaluations."""
    at = np.arange(0, 16_001, 200.0)
    i = np.arange(len(at))
    sd = np.where((at < start) | ((i % every == 0) & (every > 1)), 0.003, 0.02)
    held, held_stated = [], []
    for seed in range(8):
        y = TRUTH.predict(at) + np.random.default_rng(100 + seed).normal(0, 1, len(at)) * sd
        fit, later = fit_sigmoid(at, y, weights=1.0 / sd**2, max_compute=8000), at > 8000
        for weight, into in ((None, held), (1.0 / sd[later] ** 2, held_stated)):
            low, high = extrapolate(fit, at[later], method=method, weight=weight, rng=0).prediction_interval
            into.append(np.mean((low <= y[later]) & (y[later] <= high)))
    assert np.mean(held) > 0.88
    assert np.mean(held_stated) > 0.88


def test_the_weight_of_the_predicted_evaluation_sets_the_width():
    w = np.where(np.arange(len(C)) % 2 == 0, 4.0, 1.0)
    fit = fit_sigmoid(C, FIT.predict(C) + np.random.default_rng(0).normal(0, 0.01, len(C)) / np.sqrt(w), weights=w)
    far = extrapolate(fit, 2e4, weight=1e-2, rng=0).prediction_interval
    near = extrapolate(fit, 2e4, weight=1.0, rng=0).prediction_interval
    assert float((far.high - far.low)[0]) == pytest.approx(10.0 * float((near.high - near.low)[0]), rel=0.1)
    with pytest.raises(FitError, match="one for each of the 2 budgets"):
        extrapolate(fit, [1e4, 2e4], weight=[1.0, 2.0, 3.0], rng=0)
    with pytest.raises(FitError, match="weight= was given, but the fit is not weighted"):
        extrapolate(FIT, 2e4, weight=1.0, rng=0)
