"""What a fit uses, what it refuses, and in which words: DESIGN's rules for cutoff, anchor, weights and options."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlscaling import FitError, RLScalingError, TraceError, fit_sigmoid
from rlscaling.curves import sigmoid
from rlscaling.results import FailedFit, SigmoidFit
from rlscaling.selection import resolve_options

TRUTH = (0.61, 1.92, 2542.0, 0.35)
C = np.arange(0.0, 16_001.0, 400.0)
Y = np.clip(sigmoid(C, *TRUTH) + np.random.default_rng(0).normal(0, 0.003, len(C)), 0, 1)


# --- what is used ----------------------------------------------------------------------------------------


def test_the_default_cutoff_keeps_1500_gpu_hours_and_more():
    grid = np.arange(0.0, 16_001.0, 500.0)
    fit = fit_sigmoid(grid, sigmoid(grid, *TRUTH))
    assert fit.compute_range == (1500.0, 16_000.0)
    assert fit.n_points == 30
    assert fit.options.min_compute == 1500.0


def test_max_compute_and_exclude_leave_points_out_with_their_ends():
    fit = fit_sigmoid(C, Y, max_compute=12_000, exclude=[(4000, 4800), (8000.0, 8000.0)])
    used = fit.data.compute[fit.data.used]
    assert used.max() == 12_000
    assert not set(used) & {4000.0, 4400.0, 4800.0, 8000.0}
    assert any("4 evaluations left out by exclude" in note for note in fit.notes)
    open_ended = fit_sigmoid(C, Y, exclude=[(10_000, math.inf)])
    assert open_ended.compute_range[1] == 9600.0


def test_a_fit_of_a_window_is_the_fit_of_the_points_in_it():
    inside = (C >= 2000) & (C <= 10_000)
    window = fit_sigmoid(C, Y, R0=0.35, min_compute=2000, max_compute=10_000)
    alone = fit_sigmoid(C[inside], Y[inside], R0=0.35, min_compute=0)
    assert window.params == alone.params
    assert window.verdict == alone.verdict


# --- R0 --------------------------------------------------------------------------------------------------


def test_the_earliest_evaluation_before_the_cutoff_anchors_R0():
    fit = fit_sigmoid(C[1:], Y[1:])  # starts at 400, before the cutoff
    assert fit.R0_source == "anchored"
    assert fit.data.anchor == 0
    assert not fit.data.used[0]
    assert fit.n_points == len(fit.residual) == int((C >= 1500).sum())


def test_the_evaluation_at_compute_zero_anchors_R0_without_a_cutoff():
    fit = fit_sigmoid(C, Y, min_compute=0)
    assert (fit.R0_source, fit.data.anchor) == ("anchored", 0)
    assert fit.n_points == len(C) - 1


def test_without_an_early_evaluation_R0_is_free_and_said():
    late = C >= 1500
    fit = fit_sigmoid(C[late], Y[late])
    assert (fit.R0_source, fit.data.anchor) == ("free", None)
    assert any("R0 is free" in note for note in fit.notes)
    assert fit.n_points == late.sum()  # the first point is a point, not R0 as well


def test_the_excluded_first_evaluation_anchors_nothing():
    fit = fit_sigmoid(C, Y, exclude=[(0, 0)])
    assert fit.data.compute[fit.data.anchor] == 400.0


def test_a_given_R0_is_kept_and_with_an_error_it_is_an_anchor():
    fixed = fit_sigmoid(C, Y, R0=0.31)
    assert (fixed.R0, fixed.R0_source) == (0.31, "fixed")
    assert fixed.standard_error["R0"] == 0.0
    pulled = fit_sigmoid(C, Y, R0=0.31, R0_se=0.02)
    assert pulled.R0_source == "anchored"
    assert pulled.data.anchor is None
    free = fit_sigmoid(C, Y, R0="free")
    assert free.R0_source == "free"
    assert min(0.31, free.R0) - 1e-9 <= pulled.R0 <= max(0.31, free.R0) + 1e-9


def test_the_anchor_goes_from_free_to_fixed_with_its_error():
    at = lambda se: fit_sigmoid(C, Y, R0=0.31, R0_se=se)  # noqa: E731
    distance = [abs(at(se).R0 - 0.31) for se in (1e-5, 0.01, 0.1, 10.0)]
    assert distance == sorted(distance)
    assert distance[0] < 1e-4
    assert at(1e-5).A == pytest.approx(fit_sigmoid(C, Y, R0=0.31).A, abs=1e-3)


def test_bug_a_wide_R0_se_lets_R0_go_free():
    """An anchor that may sit anywhere says nothing: the fit is that without it."""
    free = fit_sigmoid(C, Y, R0="free")
    assert fit_sigmoid(C, Y, R0=0.31, R0_se=1e4).R0 == pytest.approx(free.R0, abs=1e-3)
    assert fit_sigmoid(C, Y, R0=0.31, R0_se=1.0).R0 == pytest.approx(free.R0, abs=1e-3)


def test_bug_an_anchor_off_the_curve_does_not_make_a_quiet_run_a_misfit():
    """Evaluations without noise lie on one sigmoid; a start 0.02 below it (its R0_se) must not bend the curve."""
    y = sigmoid(C, *TRUTH)
    y[0] -= 0.02
    fit = fit_sigmoid(C, y)
    assert fit.verdict == "identified"
    assert pytest.approx(TRUTH[0], abs=1e-4) == fit.A


# --- options refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute_unit": "hours"}, "compute_unit='hours' is unknown; choose one of gpu-hours"),
        ({"compute_unit": "tokens"}, r"compute is in tokens.*no default cutoff; give min_compute="),
        ({"compute_unit": "flops"}, r"compute is in FLOPs.*0 keeps everything"),
        ({"min_compute": math.nan}, "min_compute=nan is not a finite number"),
        ({"min_compute": math.inf}, "min_compute=inf is not a finite number"),
        ({"min_compute": "early"}, "min_compute='early' is not a number"),
        ({"min_compute": -1}, "leave no range"),
        ({"min_compute": 3000, "max_compute": 2000}, "min_compute=3000 and max_compute=2000 leave no range"),
        ({"exclude": 5}, "exclude=5 is not a list of"),
        ({"exclude": [5]}, "exclude=5 is not a pair"),
        ({"exclude": [(2, 1)]}, r"exclude=\(2, 1\): the lower end is above the upper one"),
        ({"exclude": [("a", 1)]}, "exclude='a' is not a number"),
        ({"B_bounds": (2, 1)}, "B_bounds=.*swap them"),
        ({"B_bounds": 3}, "B_bounds=3 is not a pair"),
        ({"B_bounds": (0, 1)}, "B must be positive"),
        ({"B_bounds": (0.1, math.inf)}, "B_bounds=inf is not a finite number"),
        ({"B": -1.0}, "B must be positive"),
        ({"B": "steep"}, "B='steep' is not a number"),
        ({"A": 1.2}, r"A=1.2 is outside .*: pass rates are fractions.*; for unbounded scores give A_max=inf"),
        ({"A": 61}, r"A=61 is outside .*: pass rates are fractions, 0.61 for 61 %; for unbounded"),
        ({"R0": 30}, r"R0=30 is outside .*: pass rates are fractions, 0.3 for 30 %; for unbounded"),
        ({"A": 0.2, "R0": 0.3}, r"A=0.2 is outside \(R0=0.3"),
        ({"A": math.nan}, "A=nan is not a finite number"),
        ({"R0": -0.1}, r"R0=-0.1 is outside \[0, A_max=1\): pass rates are fractions; for unbounded"),
        ({"R0": 1.0}, "R0=1 is outside"),
        ({"R0": "fixed"}, "R0='fixed' is unknown; give a number"),
        ({"R0": math.nan}, "R0=nan is not a finite number"),
        ({"R0": "free", "R0_se": 0.02}, 'R0="free" has no anchor'),
        ({"R0_se": 0}, "R0_se=0 must be positive"),
        ({"A_max": 1.5}, "A_max=1.5: a pass rate has a bound in"),
        ({"A_max": 0}, "A_max=0: a pass rate has a bound in"),
        ({"A_max": -math.inf}, "A_max=-inf is not a finite number"),
        ({"method": "curve_fit"}, "method='curve_fit' is unknown; choose one of varpro, paper-grid"),
        ({"grid": {"A": [0.6], "C_mid": [1000]}}, 'grid= is used with method="paper-grid" only'),
        ({"on_failure": "ignore"}, "on_failure='ignore' is unknown"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(FitError, match=message):
        fit_sigmoid(C, Y, **options)


def test_an_unknown_option_names_the_known_ones():
    with pytest.raises(FitError, match=r"unknown option 'cutoff'.*min_compute"):
        resolve_options({"cutoff": 3})
    with pytest.raises(TypeError, match="cutoff"):
        fit_sigmoid(C, Y, cutoff=3)


def test_bug_an_array_for_R0_is_refused_in_words():
    with pytest.raises(FitError, match="R0"):
        fit_sigmoid(C, Y, R0=np.array([0.3, 0.4]))


def test_unbounded_scores_take_any_R0_and_A():
    fit = fit_sigmoid(C, 100 * Y - 50, A_max=math.inf, R0=-15.0, A=11.0)
    assert (fit.A, fit.R0, fit.verdict) == (11.0, -15.0, "ceiling-given")


# --- too few points --------------------------------------------------------------------------------------


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
        fit_sigmoid(C, Y, max_compute=2500)
    with pytest.raises(FitError, match="3 points between 1,500 and 2,500 GPU-hours are too few"):
        fit_sigmoid(C, Y, max_compute=2500)
    with pytest.raises(FitError, match="widen min_compute, max_compute or exclude"):
        fit_sigmoid(C, Y, exclude=[(0, 15_000)])


def test_fewer_than_five_evaluations_cannot_be_fitted():
    with pytest.raises(FitError, match="3 evaluations besides the one at compute 0, .* are too few: a fit needs 5"):
        fit_sigmoid([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4], min_compute=0)


def test_bug_the_remedy_of_too_few_points_is_not_itself_refused():
    """Five evaluations of which the first anchors R0: min_compute=0 would leave four."""
    with pytest.raises(FitError) as error:
        fit_sigmoid([0, 100, 200, 300, 400], [0.1, 0.2, 0.3, 0.4, 0.5])
    assert "min_compute=0" not in str(error.value)


# --- weights ---------------------------------------------------------------------------------------------


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
        fit_sigmoid(C, Y, weights=weights)


def test_only_the_ratios_of_weights_count():
    w = np.random.default_rng(1).uniform(0.2, 4.0, len(C))
    one, other = fit_sigmoid(C, Y, weights=w), fit_sigmoid(C, Y, weights=1e6 * w)
    np.testing.assert_allclose(other.params.as_tuple(), one.params.as_tuple(), rtol=1e-7)
    assert other.verdict == one.verdict
    np.testing.assert_allclose(other.confidence_interval["A"], one.confidence_interval["A"], rtol=1e-5)
    plain, even = fit_sigmoid(C, Y), fit_sigmoid(C, Y, weights=np.full(len(C), 7.0))
    np.testing.assert_allclose(even.params.as_tuple(), plain.params.as_tuple(), rtol=1e-9)


# --- the data refused ------------------------------------------------------------------------------------


def spoiled(values, i, value):
    out = list(values)
    out[i] = value
    return out


@pytest.mark.parametrize(
    ("compute", "pass_rate", "message"),
    [
        (C, spoiled(Y, 7, math.nan), "pass_rate at position 7 is nan: not a finite number; drop or repair"),
        (C, spoiled(Y, 7, math.inf), "pass_rate at position 7 is inf"),
        (spoiled(C, 3, math.nan), Y, "compute at position 3 is nan"),
        (spoiled(C, 40, math.inf), Y, "compute at position 40 is inf"),
        (spoiled(C, 0, -1.0), Y, "compute at position 0 is -1: negative"),
        (C, spoiled(Y, 2, "n/a"), r"pass_rate\[2\] is 'n/a': text, not a number"),
        (C, spoiled(Y, 2, None), r"pass_rate\[2\] is None: missing"),
        (C, spoiled(Y, 2, True), r"pass_rate\[2\] is True: a truth value"),
        (
            C,
            100 * Y,
            r"outside \[0, 1\].*looks like percent; divide by 100, or .*scale=\"percent\" \(--scale percent\)",
        ),
        (C, 2 * Y - 1, r"outside \[0, 1\].*\+1/-1 rewards; take \(y \+ 1\) / 2, or .*scale=\"pm1\""),
        (C, 1000 * Y, r"outside \[0, 1\].*A_max=inf"),
        (C, Y[:-1], "compute has 41 values and pass_rate 40"),
        (C[:-1], Y, "compute has 40 values and pass_rate 41"),
        ([], [], "no evaluations: compute and pass_rate are empty"),
        (spoiled(C, 5, C[6]), Y, r"compute 2400 is a duplicate.*average them or keep one"),
        (spoiled(C, 20, 7000.0), Y, "compute falls from 7600 to 7000 at position 20; sort by compute"),
        (np.r_[C[:20], C[:21]], Y, "looks like 2 runs one after the other"),
        (np.repeat(C[:20], 2), Y[:40], r"every compute value is a duplicate \(2 times each\)"),
        (np.ones((2, 5)), Y, r"compute is of shape \(2, 5\)"),
        ("compute", Y, "compute is 'compute': not a series of numbers"),
        (None, Y, "compute is None: not a series"),
        (3.0, Y, "compute is 3.0: not a series"),
        (C * 1j, Y, "a complex number"),
    ],
)
def test_data_that_cannot_be_used_are_refused_in_words(compute, pass_rate, message):
    with pytest.raises(TraceError, match=message):
        fit_sigmoid(compute, pass_rate)
    failed = fit_sigmoid(compute, pass_rate, on_failure="return")
    assert isinstance(failed, FailedFit)
    assert not failed
    assert str(failed).startswith("no fit: ")
    assert failed.to_dict() == {"run": "", "error": failed.error}


def test_on_failure_return_gives_a_fit_where_there_is_one():
    assert isinstance(fit_sigmoid(C, Y, on_failure="return"), SigmoidFit)
    bad_option = fit_sigmoid(C, Y, A=3.0, on_failure="return")
    assert not bad_option
    assert "A=3 is outside" in bad_option.error
