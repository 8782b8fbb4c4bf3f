"""The door: what goes in, what comes out, and that units, containers and odd shapes do not matter."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from helpers.fit_series import TRUTH, Y_QUIET, C, Y
from rlscaling import bootstrap, extrapolate, fit_sigmoid, fit_trace, refit
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.datasets import simulate, table1
from rlscaling.errors import FitError
from rlscaling.fitting.sigmoid_fit import SigmoidFit, SigmoidParams
from rlscaling.fitting.verdict import Verdict
from rlscaling.traces.trace import Trace


def assert_sound(fit):
    """Everything a result promises, whatever the data were."""
    numbers = [*fit.params.as_tuple(), fit.ssr, *fit.residual, *fit.covariance.ravel()]
    for low, high in (fit.confidence_interval or {}).values():
        numbers += [low, high]
        assert low <= high
    assert all(math.isfinite(v) for v in numbers)
    assert isinstance(fit.verdict, Verdict)
    assert str(fit).startswith(str(fit.verdict))
    if math.isfinite(fit.options.A_max):
        assert 0 <= fit.R0 <= fit.A <= fit.options.A_max
    np.testing.assert_allclose(
        fit.residual, fit.data.pass_rate[fit.data.used] - fit.predict(fit.data.compute[fit.data.used])
    )


@pytest.mark.parametrize("factor", [1e-9, 1e-3, math.pi, 1e6, 1e15, 1e24])
@pytest.mark.parametrize("options", [{}, {"R0": "free"}, {"R0": 0.35}], ids=["anchored", "free", "fixed"])
def test_a_unit_of_compute_changes_C_mid_alone(factor, options):
    base = fit_sigmoid(C, Y, min_compute=1500, **options)
    other = fit_sigmoid(C * factor, Y, min_compute=1500 * factor, **options)
    # a sum of squares in double precision resolves A to 1e-9, and the flatter directions to 1e-8
    assert pytest.approx(base.A, rel=1e-9) == other.A
    assert other.C_mid == pytest.approx(base.C_mid * factor, rel=2e-8)
    for name in ("B", "R0"):
        assert getattr(other, name) == pytest.approx(getattr(base, name), rel=2e-8)
    assert other.ssr == pytest.approx(base.ssr, rel=1e-9)
    assert other.verdict == base.verdict
    for name, unit in (("A", 1.0), ("B", 1.0), ("C_mid", factor)):
        expected = np.multiply(base.confidence_interval[name], unit)
        np.testing.assert_allclose(other.confidence_interval[name], expected, rtol=1e-6)
    assert other.standard_error["A"] == pytest.approx(base.standard_error["A"], rel=1e-6)
    assert other.standard_error["C_mid"] == pytest.approx(base.standard_error["C_mid"] * factor, rel=1e-6)


def test_a_unit_of_compute_scales_the_compute_needed():
    early = C <= 4000
    base = fit_sigmoid(C[early], Y[early])
    other = fit_sigmoid(C[early] * 1e18, Y[early], min_compute=1500e18, compute_unit="flops")
    assert base.compute_needed is not None
    assert other.verdict == base.verdict
    assert other.compute_needed.median == pytest.approx(base.compute_needed.median * 1e18, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-6, 100.0, 1e6])
def test_a_unit_of_an_unbounded_score_changes_A_and_R0_alone(factor):
    base = fit_sigmoid(C, Y, A_max=math.inf)
    other = fit_sigmoid(C, factor * Y, A_max=math.inf)
    np.testing.assert_allclose([other.A, other.R0], [factor * base.A, factor * base.R0], rtol=1e-6)
    np.testing.assert_allclose([other.B, other.C_mid], [base.B, base.C_mid], rtol=1e-6)
    assert other.verdict == base.verdict


def test_an_unbounded_score_may_be_turned_over():
    base = fit_sigmoid(C, Y, A_max=math.inf)
    other = fit_sigmoid(C, 1 - Y, A_max=math.inf)
    np.testing.assert_allclose(
        [1 - other.A, 1 - other.R0, other.B, other.C_mid], [base.A, base.R0, base.B, base.C_mid], rtol=1e-6
    )


@pytest.mark.parametrize("factor", [1e200, 1e150])
def test_scores_whose_squares_overflow_are_refused_in_words(factor):
    with pytest.raises(FitError, match="divide it by a constant"):
        fit_sigmoid(C, factor * Y, A_max=math.inf)


@pytest.mark.parametrize("factor", [1e-80, 1e-15, 1e15, 1e80])
def test_bug_no_usual_scale_of_an_unbounded_score_is_refused(factor):
    """With A_max=inf no scale is refused that the squares of the scores can bear."""
    other = fit_sigmoid(C, factor * Y, A_max=math.inf)
    assert other.A / factor == pytest.approx(fit_sigmoid(C, Y, A_max=math.inf).A, rel=1e-6)


def test_other_units_ask_for_a_cutoff_and_take_zero():
    assert fit_sigmoid(C, Y, compute_unit="tokens", min_compute=0).compute_unit == "tokens"


def test_a_weight_of_four_is_four_evaluations_at_one_compute():
    # oracle: for least squares, four readings of one value are one reading of weight 4
    from rlscaling.solver.problem import Problem
    from rlscaling.solver.variable_projection import solve

    w = np.ones(len(C))
    w[20] = 4.0
    fit = fit_sigmoid(C, Y, R0=0.35, weights=w, min_compute=0)
    copies = np.repeat(np.arange(len(C)), w.astype(int))
    problem = Problem(compute=C[copies], weights=np.ones(len(copies)), R0=0.35)
    np.testing.assert_allclose(fit.params.as_tuple(), solve(problem, Y[copies][None], n_starts=4).draws()[0], rtol=1e-6)


def test_the_sum_of_squares_is_the_weighted_one():
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(C))
    fit = fit_sigmoid(C, Y, weights=w)
    used = w[fit.data.used] / w[fit.data.used].mean()
    assert fit.ssr == pytest.approx(float(used @ fit.residual**2))


ODD = {
    "step": (C, np.where(C < 6000, 0.3, 0.6)),
    "one outlier": (C, np.where(C == 8000, 0.1, Y)),
    "noise-free": (C, sigmoid(C, *TRUTH)),
    "equal neighbours": (C, np.round(Y, 2)),
    "never solved": (C, np.zeros_like(C)),
    "always solved": (C, np.ones_like(C)),
    "constant": (C, np.full_like(C, 0.4)),
    "linear": (C, 0.2 + C / 40_000),
    "falling": (C, Y[::-1]),
    "saw": (C, 0.4 + 0.1 * (np.arange(len(C)) % 2)),
    "27 decades": (np.geomspace(1e-3, 1e24, 80), sigmoid(np.geomspace(1e-3, 1e24, 80), 0.6, 0.3, 1e10, 0.1)),
    "tight": (1e6 + np.arange(41.0), Y),
    "tiny": (C, Y * 1e-6),
    "near one": (C, 1 - 1e-6 * (1 - Y)),
}


@pytest.mark.parametrize("options", [{}, {"R0": "free"}, {"R0": 0.0}, {"A_max": math.inf}], ids=str)
@pytest.mark.parametrize("name", ODD)
def test_odd_but_legal_data_are_fitted(name, options):
    compute, y = ODD[name]
    if name == "tight" and "R0" not in options:
        options = {**options, "R0": "free"}
    fit = fit_sigmoid(compute, y, min_compute=0, **options)
    assert_sound(fit)
    boot = bootstrap(fit, n_resamples=20, rng=0)
    assert np.all(np.isfinite(boot.distribution))
    assert np.all(np.isfinite(extrapolate(fit, 10 * compute[-1], bootstrap=boot).distribution))


@pytest.mark.parametrize("n", [5, 6, 7, 8])
def test_few_points(n):
    fit = fit_sigmoid(C[: n + 1] + 1e-9, Y[: n + 1], R0="free", min_compute=300)
    assert fit.n_points == n
    assert_sound(fit)
    assert (fit.confidence_interval is None) == (n < 7)
    if n < 7:
        assert fit.verdict == "ceiling-not-identified"
        assert any(note.startswith(f"{n} points: intervals need 7") for note in fit.notes)


def test_27_decades_are_recovered():
    compute = np.geomspace(1e-3, 1e24, 80)
    truth = (0.6, 0.3, 1e10, 0.1)
    fit = fit_sigmoid(compute, sigmoid(compute, *truth), R0="free", min_compute=0)
    np.testing.assert_allclose(fit.params.as_tuple(), truth, rtol=1e-9)


@pytest.mark.slow
def test_100_000_points_take_seconds():
    began = time.process_time()
    compute = np.linspace(0.0, 30_000.0, 100_001)
    y = np.clip(sigmoid(compute, *TRUTH) + np.random.default_rng(2).normal(0, 0.02, len(compute)), 0, 1)
    fit = fit_sigmoid(compute, y)
    assert_sound(fit)
    assert pytest.approx(0.61, abs=0.002) == fit.A
    assert time.process_time() - began < 30  # 0.15 s at 1,000 points


def test_bug_a_constant_unbounded_score_is_fitted():
    for value in (-2.0, 3.0):
        for options in ({}, {"R0": "free"}):
            assert_sound(fit_sigmoid(C, np.full(len(C), value), A_max=math.inf, **options))


def test_bug_compute_from_1e3_to_1e6_with_nothing_to_see():
    """A late, tight window of a flat unbounded score: the width of A overflows on the way, and must not warn."""
    compute = 1e6 + 3.343401e-4 * np.arange(7)
    y = np.array([2.114, 4.290, 5.294, 2.435, 0.494, 1.666, 3.094]) * 1e-3
    assert_sound(fit_sigmoid(compute, y, A_max=math.inf, min_compute=0))


def test_fixed_parameters_are_returned_as_given():
    fit = fit_sigmoid(C, Y, A=0.62, B=1.8, R0=0.34)
    assert (fit.A, fit.R0, fit.verdict) == (0.62, 0.34, "ceiling-given"), (
        "what is off by less than 0.02 is not questioned"
    )
    assert pytest.approx(1.8, rel=1e-12) == fit.B
    assert fit.standard_error["A"] == fit.standard_error["B"] == fit.standard_error["R0"] == 0
    assert fit.standard_error["C_mid"] > 0
    # C_mid alone: a one-dimensional search of scipy finds the same
    from scipy.optimize import minimize_scalar

    used = C >= 1500
    law = lambda v: np.sum((Y[used] - sigmoid(C[used], 0.62, 1.8, np.exp(v), 0.34)) ** 2)  # noqa: E731
    found = minimize_scalar(law, bounds=(6, 10), method="bounded", options={"xatol": 1e-12})
    assert pytest.approx(math.exp(found.x), rel=1e-6) == fit.C_mid


def test_covariance_is_that_of_scipy():
    from scipy.optimize import curve_fit

    used = C >= 1500
    law = lambda c, A, B, C_mid, R0: sigmoid(c, A, B, C_mid, R0)  # noqa: E731
    fit = fit_sigmoid(C[used], Y[used], R0="free")
    _, covariance = curve_fit(law, C[used], Y[used], p0=fit.params.as_tuple(), x_scale=[0.1, 1, 1e3, 0.1], method="trf")
    np.testing.assert_allclose(fit.covariance, covariance, rtol=1e-4)


def test_fit_trace_takes_the_units_steps_and_counts_of_the_trace():
    p = table1()["scalerl"]
    trace = simulate(p, compute=C, rho=0.3, wander_sd=0.003, rng=1, name="run7")
    fit = fit_trace(trace)
    assert fit.name == "run7"
    assert fit.params == fit_sigmoid(trace.compute, trace.pass_rate).params
    np.testing.assert_array_equal(fit.data.n_rollouts, np.full(len(C), 16_000.0))
    np.testing.assert_array_equal(fit.data.se, trace.pass_rate_se)
    assert str(fit).startswith(f"approximate [run7]: {fit.reason}\n")
    tokens = simulate(p, compute=C, rng=1, compute_unit="tokens")
    assert fit_trace(tokens, min_compute=1500).compute_unit == "tokens"
    with pytest.raises(FitError, match="no default cutoff"):
        fit_trace(tokens)


def test_fit_trace_of_rewards_is_unbounded():
    params = SigmoidParams(A=700.0, B=1.5, C_mid=4000.0, R0=-200.0)
    fit = fit_trace(simulate(params, compute=C, n_prompts=None, rng=0))
    np.testing.assert_allclose(fit.params.as_tuple(), params.as_tuple(), rtol=1e-8)
    assert fit.options.A_max == math.inf


def test_fit_trace_returns_failures_with_their_name():
    failed = fit_trace(Trace([0, 1, 2], [0.1, 0.2, 0.3], name="short"), on_error="return")
    assert not failed
    assert str(failed).startswith("short: no fit: ")
    assert failed.to_dict()["run"] == "short"


def test_refit_changes_only_what_is_asked():
    fit = fit_sigmoid(C, Y, weights=np.linspace(1, 2, len(C)), exclude=[(3000, 3300)])
    again = refit(fit)
    assert again.params == fit.params
    assert again.to_dict() == fit.to_dict()
    half = refit(fit, max_compute=8000)
    direct = fit_sigmoid(C, Y, weights=np.linspace(1, 2, len(C)), exclude=[(3000, 3300)], max_compute=8000)
    assert half.to_dict() == direct.to_dict()
    with pytest.raises(FitError, match="unknown option 'cutoff'"):
        refit(fit, cutoff=3)
    grid = fit_sigmoid(C, Y, R0=0.35, method="paper-grid", grid={"A": [0.6, 0.61], "C_mid": [2500.0, 2600.0]})
    assert refit(grid).params == grid.params


def test_the_same_call_gives_the_same_result():
    assert fit_sigmoid(C, Y).to_dict() == fit_sigmoid(C, Y).to_dict()


def test_on_error_return_gives_a_fit_where_there_is_one():
    assert isinstance(fit_sigmoid(C, Y_QUIET, on_error="return"), SigmoidFit)
    bad_option = fit_sigmoid(C, Y_QUIET, A=3.0, on_error="return")
    assert not bad_option
    assert "A=3 is outside" in bad_option.error
