"""Forecasts: the curve with its band, what the data can carry, the compute to a target, and the cutoff's part."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from rlscaling import (
    FitError,
    RLScalingError,
    bootstrap,
    compute_to_reach,
    cutoff_sensitivity,
    extrapolate,
    fit_sigmoid,
    fit_trace,
)
from rlscaling.curves import sigmoid
from rlscaling.datasets import load_demo, simulate, table1
from rlscaling.intervals import Reach
from rlscaling.results import SigmoidParams

P = table1()["scalerl"]
C = 216.2 * np.arange(75)
TRACE = simulate(P, compute=C, rho=0.3, wander_sd=0.003, rng=3)
FIT = fit_trace(TRACE)
BOOT = bootstrap(FIT, rng=0, n_resamples=400)
EARLY = fit_trace(TRACE.up_to(2600))


# --- extrapolate -----------------------------------------------------------------------------------------


def test_the_default_budget_is_100_000_gpu_hours():
    forecast = extrapolate(FIT, rng=0)
    assert forecast.compute.tolist() == [100_000.0]
    assert forecast.confidence_interval.shape == (1, 2)
    low, high = forecast.confidence_interval[0]
    assert low < P.predict(100_000) < high
    assert forecast.beyond[0] == pytest.approx(100_000 / FIT.compute_range[1])


def test_the_forecast_is_the_curve_and_the_quantiles_of_its_replicates():
    budgets = np.array([2000.0, 16_000.0, 1e5, 1e6])
    forecast = extrapolate(FIT, budgets, bootstrap=BOOT)
    np.testing.assert_array_equal(forecast.pass_rate, FIT.predict(budgets))
    curves = np.stack([sigmoid(budgets, *row) for row in BOOT.distribution])
    np.testing.assert_allclose(forecast.distribution, curves, rtol=1e-14)
    np.testing.assert_allclose(forecast.confidence_interval, np.quantile(curves, [0.025, 0.975], axis=0).T)
    assert forecast.confidence_interval.shape == forecast.confidence_interval_new_run.shape == (4, 2)
    width = np.diff(forecast.confidence_interval, axis=1).ravel()
    new = np.diff(forecast.confidence_interval_new_run, axis=1).ravel()
    assert np.all(new[1:] > width[1:])
    # far out the forecast is A
    np.testing.assert_allclose(forecast.confidence_interval[-1], BOOT.confidence_interval["A"], atol=1e-3)


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


# --- what the data can carry -----------------------------------------------------------------------------


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
    low, high = forecast.confidence_interval[-1]
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


def test_the_level_changes_without_resampling():
    forecast = extrapolate(FIT, [1e5], bootstrap=BOOT)
    half = forecast.at_level(0.5)
    np.testing.assert_allclose(half.confidence_interval[0], np.quantile(forecast.distribution[:, 0], [0.25, 0.75]))
    with pytest.raises(FitError, match="for 95 % give 0.95"):
        forecast.at_level(95)
    assert extrapolate(FIT, bootstrap=BOOT.at_level(0.8)).confidence_level == 0.8


def test_the_same_seed_gives_the_same_forecast():
    one, two = extrapolate(FIT, rng=5), extrapolate(FIT, rng=5)
    np.testing.assert_array_equal(one.distribution, two.distribution)
    again = extrapolate(FIT, rng=one.seed)
    np.testing.assert_array_equal(again.confidence_interval, one.confidence_interval)


def test_faces_of_a_forecast():
    forecast = extrapolate(FIT, [5e4, 1e5], bootstrap=BOOT)
    assert str(forecast).startswith(f"{forecast.verdict}: ")
    assert "100,000" in str(forecast)
    assert str(forecast.verdict) in forecast._repr_html_()
    assert repr(forecast).startswith(f"Forecast({forecast.verdict}, 100000: ")
    frame = forecast.to_frame()
    assert frame["compute"].tolist() == [5e4, 1e5]
    saved = json.loads(json.dumps(forecast.to_dict(), allow_nan=False))
    assert [row["compute"] for row in saved] == [5e4, 1e5]
    assert saved[1]["ci"] == frame.loc[1, ["ci_low", "ci_high"]].tolist()
    assert saved[0]["supported"] is True


def test_forecasts_hold_the_truth():
    # the paper's check: fit the first half, train on, compare [ScaleRL, 2.1]
    inside = 0
    for seed in range(20):
        trace = simulate(P, compute=C[:50], rho=0.3, wander_sd=0.003, rng=seed)
        low, high = extrapolate(fit_trace(trace), [1e5], rng=0).confidence_interval[0]
        inside += low < P.predict(1e5) < high
    assert inside >= 15  # binomial(20, 0.95) is below with probability 3e-4


# --- compute to reach ------------------------------------------------------------------------------------


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


def test_intervals_of_infinite_draws_are_order_statistics():
    def interval(draws, level):
        return Reach(FIT, 0.55, 1.0, np.array(draws), level).confidence_interval

    assert interval([1.0, 2.0, 3.0, math.inf], 0.95) == (1.0, math.inf)
    assert interval([math.inf] * 5, 0.5) == (math.inf, math.inf)
    assert interval(np.arange(1.0, 101.0), 0.9) == (5.0, 96.0)
    assert Reach(FIT, 0.55, 1.0, np.array([1.0, math.inf]), 0.9).probability == 0.5


def test_every_printed_result_begins_with_the_verdict():
    for result in (FIT, BOOT, extrapolate(FIT, bootstrap=BOOT), compute_to_reach(FIT, 0.55, bootstrap=BOOT)):
        assert str(result).startswith(str(FIT.verdict))
        assert str(FIT.verdict) in repr(result)
    assert next(iter(FIT.to_dict())) == "verdict"


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


# --- cutoff ----------------------------------------------------------------------------------------------


def test_the_default_cutoffs_are_those_of_the_fit_with_them():
    table = cutoff_sensitivity(TRACE)
    assert [row["min_compute"] for row in table.rows] == [0, 500, 1000, 1500, 2000, 3000]
    for row in table.rows:
        fit = fit_trace(TRACE, min_compute=row["min_compute"])
        assert (row["A"], row["n_points"], row["verdict"]) == (fit.A, fit.n_points, str(fit.verdict))
        assert (row["ci_low"], row["ci_high"]) == fit.confidence_interval["A"]
    assert table.moves < 0.02
    assert table.warning == ""
    assert len(table.to_frame()) == 6
    assert str(table).startswith("A by cutoff (GPU-hours)\n")


def test_a_fit_and_its_trace_have_the_same_table():
    assert cutoff_sensitivity(FIT).rows == cutoff_sensitivity(TRACE).rows


def test_a_cutoff_that_leaves_too_little_says_so_in_its_row():
    table = cutoff_sensitivity(TRACE, [1500, 15_500])
    assert table.rows[0]["A"] is not None
    assert table.rows[1]["A"] is None
    assert "too few for a fit" in table.rows[1]["error"]
    assert "too few" in str(table)
    assert table.rows[1]["n_points"] == int((C >= 15_500).sum())


def test_an_early_phase_off_the_curve_is_warned_of():
    early = (C > 0) & (C < 3000)
    y = TRACE.pass_rate.copy()
    y[early] -= np.linspace(0.12, 0.0, int(early.sum()))
    y = np.clip(y, 0, 1)
    table = cutoff_sensitivity(fit_sigmoid(C, y), [0, 3000])
    known = [row["A"] for row in table.rows if row["verdict"] in ("identified", "approximate")]
    assert table.moves == (max(known) - min(known) if len(known) > 1 else 0.0)
    assert bool(table.warning) == (table.moves > 0.02)
    moved = replace(table, moves=0.031)
    assert "A moves by 0.031 with the cutoff" in moved.warning
    assert moved.warning in str(moved)


def test_other_units_take_shares_of_the_data():
    trace = simulate(P, compute=C, rng=1, compute_unit="tokens")
    cutoffs = [row["min_compute"] for row in cutoff_sensitivity(trace).rows]
    np.testing.assert_allclose(cutoffs, np.array([0, 0.05, 0.1, 0.2, 0.3, 0.4]) * C[-1])


def test_options_reach_every_row():
    table = cutoff_sensitivity(TRACE, [0, 1500], R0=0.35, max_compute=12_000)
    fit = fit_trace(TRACE, R0=0.35, max_compute=12_000)
    assert table.rows[1]["A"] == fit.A


def test_bad_cutoffs_are_refused():
    with pytest.raises(RLScalingError, match="cutoffs is 'early': not a series of numbers"):
        cutoff_sensitivity(TRACE, "early")
    assert "leave no range" in cutoff_sensitivity(TRACE, [-1.0]).rows[0]["error"]


def test_the_demo_run_forecasts_its_own_truth():
    for trace in load_demo().values():
        low, high = extrapolate(fit_trace(trace), rng=0).confidence_interval[0]
        truth = SigmoidParams(**trace.metadata["true_params"])
        assert low - 0.01 < truth.predict(1e5) < high + 0.01
