"""What a fit uses, what it refuses, and in which words: DESIGN's rules for cutoff, anchor, weights and options."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.fit_series import TRUTH, Y_QUIET, C, Y
from rlscaling import FitError, RLScalingError, fit_sigmoid, fit_trace, refit
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.traces.trace import Trace


def test_the_default_cutoff_keeps_1500_gpu_hours_and_more():
    grid = np.arange(0.0, 16_001.0, 500.0)
    fit = fit_sigmoid(grid, sigmoid(grid, *TRUTH))
    assert fit.compute_range == (1500.0, 16_000.0)
    assert fit.n_points == 30
    assert fit.options.min_compute == 1500.0


def test_max_compute_and_exclude_leave_points_out_with_their_ends():
    fit = fit_sigmoid(C, Y_QUIET, max_compute=12_000, exclude=[(4000, 4800), (8000.0, 8000.0)])
    used = fit.data.compute[fit.data.used]
    assert used.max() == 12_000
    assert not set(used) & {4000.0, 4400.0, 4800.0, 8000.0}
    assert any("4 evaluations left out by exclude" in note for note in fit.notes)
    open_ended = fit_sigmoid(C, Y_QUIET, exclude=[(10_000, math.inf)])
    assert open_ended.compute_range[1] == 9600.0


def test_a_fit_of_a_window_is_the_fit_of_the_points_in_it():
    inside = (C >= 2000) & (C <= 10_000)
    window = fit_sigmoid(C, Y_QUIET, R0=0.35, min_compute=2000, max_compute=10_000)
    alone = fit_sigmoid(C[inside], Y_QUIET[inside], R0=0.35, min_compute=0)
    assert window.params == alone.params
    assert window.verdict == alone.verdict


def test_the_earliest_evaluation_before_the_cutoff_anchors_R0():
    fit = fit_sigmoid(C[1:], Y_QUIET[1:])  # starts at 400, before the cutoff
    assert fit.R0_source == "anchored"
    assert fit.data.anchor == 0
    assert not fit.data.used[0]
    assert fit.n_points == len(fit.residual) == int((C >= 1500).sum())


def test_the_evaluation_at_compute_zero_anchors_R0_without_a_cutoff():
    fit = fit_sigmoid(C, Y_QUIET, min_compute=0)
    assert (fit.R0_source, fit.data.anchor) == ("anchored", 0)
    assert fit.n_points == len(C) - 1


def test_without_an_early_evaluation_R0_is_free_and_said():
    late = C >= 1500
    fit = fit_sigmoid(C[late], Y_QUIET[late])
    assert (fit.R0_source, fit.data.anchor) == ("free", None)
    assert any("R0 is free" in note for note in fit.notes)
    assert fit.n_points == late.sum()  # the first point is a point, not R0 as well


def test_the_excluded_first_evaluation_anchors_nothing():
    fit = fit_sigmoid(C, Y_QUIET, exclude=[(0, 0)])
    assert fit.data.compute[fit.data.anchor] == 400.0


def test_a_given_R0_is_kept_and_with_an_error_it_is_an_anchor():
    fixed = fit_sigmoid(C, Y_QUIET, R0=0.31)
    assert (fixed.R0, fixed.R0_source) == (0.31, "fixed")
    assert fixed.standard_error["R0"] == 0.0
    pulled = fit_sigmoid(C, Y_QUIET, R0=0.31, R0_se=0.02)
    assert pulled.R0_source == "anchored"
    assert pulled.data.anchor is None
    free = fit_sigmoid(C, Y_QUIET, R0="free")
    assert free.R0_source == "free"
    assert min(0.31, free.R0) - 1e-9 <= pulled.R0 <= max(0.31, free.R0) + 1e-9


def test_the_anchor_goes_from_free_to_fixed_with_its_error():
    at = lambda se: fit_sigmoid(C, Y_QUIET, R0=0.31, R0_se=se)  # noqa: E731
    distance = [abs(at(se).R0 - 0.31) for se in (1e-5, 0.01, 0.1, 10.0)]
    assert distance == sorted(distance)
    assert distance[0] < 1e-4
    assert at(1e-5).A == pytest.approx(fit_sigmoid(C, Y_QUIET, R0=0.31).A, abs=1e-3)


def test_bug_a_wide_R0_se_lets_R0_go_free():
    """An anchor that may sit anywhere says nothing: the fit is that without it."""
    free = fit_sigmoid(C, Y_QUIET, R0="free")
    assert fit_sigmoid(C, Y_QUIET, R0=0.31, R0_se=1e4).R0 == pytest.approx(free.R0, abs=1e-3)
    assert fit_sigmoid(C, Y_QUIET, R0=0.31, R0_se=1.0).R0 == pytest.approx(free.R0, abs=1e-3)


def test_bug_an_anchor_off_the_curve_does_not_make_a_quiet_run_a_misfit():
    """Evaluations without noise lie on one sigmoid; a start 0.02 below it (its R0_se) must not bend the curve."""
    y = sigmoid(C, *TRUTH)
    y[0] -= 0.02
    fit = fit_sigmoid(C, y)
    assert fit.verdict == "identified"
    assert pytest.approx(TRUTH[0], abs=1e-4) == fit.A


def test_too_few_points_name_the_range_and_the_option():
    early = np.arange(0.0, 1700.0, 100.0)
    with pytest.raises(FitError) as error:
        fit_sigmoid(early, sigmoid(early, *TRUTH))
    text = str(error.value)
    assert "2 points from 1,500 GPU-hours on are too few for a fit" in text
    assert "5 needed" in text
    assert "the data run from 0 to 1,600 GPU-hours (17 evaluations)" in text
    assert "min_compute=0 (--min-compute 0)" in text
    assert "a cutoff up to 1200" in text
    # both remedies work
    assert fit_sigmoid(early, sigmoid(early, *TRUTH), min_compute=1200).n_points == 5
    assert fit_sigmoid(early, sigmoid(early, *TRUTH), min_compute=0).n_points == 16


def test_the_remedy_for_a_narrow_window_is_to_widen_it():
    with pytest.raises(FitError, match="widen min_compute, max_compute or exclude"):
        fit_sigmoid(C, Y_QUIET, max_compute=2500)
    with pytest.raises(FitError, match="3 points between 1,500 and 2,500 GPU-hours are too few"):
        fit_sigmoid(C, Y_QUIET, max_compute=2500)
    with pytest.raises(FitError, match="widen min_compute, max_compute or exclude"):
        fit_sigmoid(C, Y_QUIET, exclude=[(0, 15_000)])


def test_fewer_than_five_evaluations_cannot_be_fitted():
    with pytest.raises(FitError, match="3 evaluations besides the one at compute 0, .* are too few: a fit needs 5"):
        fit_sigmoid([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4], min_compute=0)


def test_bug_the_remedy_of_too_few_points_is_not_itself_refused():
    """Five evaluations of which the first anchors R0: min_compute=0 would leave four."""
    with pytest.raises(FitError) as error:
        fit_sigmoid([0, 100, 200, 300, 400], [0.1, 0.2, 0.3, 0.4, 0.5])
    assert "min_compute=0" not in str(error.value)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "weights has 3 values for 41 evaluations"),
        (np.r_[np.ones(40), 0.0], r"weights\[40\] is 0.*exclude="),
        (np.r_[-1.0, np.ones(40)], r"weights\[0\] is -1: weights are positive and finite"),
        (np.r_[np.nan, np.ones(40)], r"weights\[0\] is nan"),
        (np.r_[np.inf, np.ones(40)], r"weights\[0\] is inf"),
        (["a"] * 41, r"weights\[0\] is 'a': text"),
        (3.0, "weights is 3.0: not a series of numbers"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights, message):
    with pytest.raises(RLScalingError, match=message):
        fit_sigmoid(C, Y_QUIET, weights=weights)


def test_only_the_ratios_of_weights_count():
    w = np.random.default_rng(1).uniform(0.2, 4.0, len(C))
    one, other = fit_sigmoid(C, Y_QUIET, weights=w), fit_sigmoid(C, Y_QUIET, weights=1e6 * w)
    np.testing.assert_allclose(other.params.as_tuple(), one.params.as_tuple(), rtol=1e-7)
    assert other.verdict == one.verdict
    np.testing.assert_allclose(other.confidence_interval["A"], one.confidence_interval["A"], rtol=1e-5)
    plain, even = fit_sigmoid(C, Y_QUIET), fit_sigmoid(C, Y_QUIET, weights=np.full(len(C), 7.0))
    np.testing.assert_allclose(even.params.as_tuple(), plain.params.as_tuple(), rtol=1e-9)


def epoch_trace(unit: str = "device-hours", **metadata: object) -> Trace:
    step = np.arange(0.0, 401.0, 20.0)
    y = 0.1 + 0.5 / (1 + (90.0 / np.maximum(step, 1e-9)) ** 1.5)
    compute = step if unit == "steps" else step / 1000
    columns = {} if unit == "steps" else {"step": step}
    return Trace(compute, y, compute_unit=unit, columns=columns, metadata={"first_epoch_end": 90, **metadata})


@pytest.mark.parametrize(("unit", "cutoff"), [("device-hours", 0.1), ("steps", 100.0)])
def test_epoch_cuts_at_the_first_evaluation_after_the_first_epoch(unit: str, cutoff: float) -> None:
    fit = fit_trace(epoch_trace(unit), min_compute="epoch")
    assert fit.options.min_compute == pytest.approx(cutoff)
    assert fit.compute_range[0] == pytest.approx(cutoff)
    assert fit.A == pytest.approx(0.6, abs=1e-6)
    again = refit(fit_trace(epoch_trace(unit), min_compute=0), min_compute="epoch")
    assert again.params == fit.params


def test_epoch_needs_a_trace_that_records_it() -> None:
    with pytest.raises(FitError, match="'epoch' is for a Trace that records it"):
        fit_sigmoid(C, Y, min_compute="epoch")  # type: ignore[arg-type]
    with pytest.raises(FitError, match="needs a trace whose header has first_epoch_end"):
        fit_trace(epoch_trace(first_epoch_end=None), min_compute="epoch")
    with pytest.raises(FitError, match="the first epoch ends at step 500, and the last evaluation is at step 400"):
        fit_trace(epoch_trace(first_epoch_end=500), min_compute="epoch")
    trace = epoch_trace()
    without = Trace(trace.compute, trace.pass_rate, compute_unit="device-hours", metadata=trace.metadata)
    with pytest.raises(FitError, match="needs the column step"):
        fit_trace(without, min_compute="epoch")
    with pytest.raises(FitError, match="'epoch' where the trace records it"):
        fit_trace(trace)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"min_compute": 0, "max_compute": 8000}, "20 left out (max_compute 8,000)"),
        ({"min_compute": 0, "exclude": [(5000, 7000)]}, "5 left out (exclude)"),
        ({}, "3 left out (min_compute 1,500)"),
        (
            {"max_compute": 8000, "exclude": [(5000, 7000)]},
            "28 left out (3 by min_compute 1,500, 20 by max_compute 8,000, 5 by exclude)",
        ),
    ],
)
def test_bug_the_reason_why_points_were_left_out(options, text):
    """It was min_compute, whatever had left them out."""
    assert text in str(fit_sigmoid(C, Y_QUIET, **options))


@pytest.mark.filterwarnings("error")
def test_bug_weights_of_any_size_are_relative():
    huge = fit_sigmoid(C, Y, weights=np.full(len(C), 1e300))
    assert fit_sigmoid(C, Y).params == huge.params


def test_bug_scores_too_small_for_their_squares_are_refused():
    with pytest.raises(FitError, match=r"no pass_rate is larger than 1e-200, below 1e-100; multiply it by a constant"):
        fit_sigmoid(np.arange(16.0), np.linspace(0.1, 1, 16) * 1e-200, min_compute=0, A_max=math.inf)


def test_a_start_that_cannot_format_its_answers_is_no_observation_of_R0():
    """0.02 at compute 0 and 0.35 from then on: with that anchor the interval of A held the truth in 0.4 of runs."""
    compute = np.arange(0.0, 8001, 200)
    held = 0
    for seed in range(12):
        y = sigmoid(compute, 0.61, 1.92, 2542.0, 0.35) + np.random.default_rng(seed).normal(0, 0.006, len(compute))
        y[0] = 0.02
        fit = fit_sigmoid(compute, y)
        assert fit.R0_source == "free"
        assert any("first learns the format" in note for note in fit.notes)
        low, high = fit.confidence_interval["A"]
        held += low <= 0.61 <= high
    assert held >= 11
    y[0] = 0.34
    assert fit_sigmoid(compute, y).R0_source == "anchored"
