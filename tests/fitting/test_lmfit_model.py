"""`SigmoidModel` and `SigmoidFit.to_lmfit`: lmfit's answers on our model, against our own fit."""

from __future__ import annotations

import contextlib
import io
import math
import pickle
import re
import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from lmfit.models import ConstantModel

from helpers.project_files import PROJECT
from rlscaling import (
    FitError,
    RLScalingWarning,
    SigmoidFit,
    SigmoidModel,
    TraceError,
    datasets,
    fit_sigmoid,
    fit_trace,
    refit,
)
from rlscaling.curves.sigmoid import PARAMETER_NAMES, sigmoid

TRUE = {"A": 0.61, "B": 1.92, "C_mid": 2542.0, "R0": 0.35}
C = np.arange(0.0, 16001.0, 400.0)
ALL = {"compute_unit": "steps", "min_compute": 0.0, "R0": "free"}


def noisy(sd: float = 0.004, seed: int = 0, **changes: float) -> np.ndarray:
    return sigmoid(C, **(TRUE | changes)) + np.random.default_rng(seed).normal(0.0, sd, len(C))


def deviation(result, fit: SigmoidFit) -> float:
    return max(abs(result.best_values[n] / getattr(fit, n) - 1.0) for n in PARAMETER_NAMES)


@pytest.fixture(scope="module")
def demo():
    return datasets.load_demo()


# ------------------------------------------------------------------------------------------------- fit.to_lmfit()


@pytest.mark.parametrize("run", ["scalerl", "scalerl-8k", "batch-512", "batch-2048"])
@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({}, set()),
        ({"R0": "free"}, set()),
        ({"R0": 0.35}, {"R0"}),
        ({"R0": 0.35, "R0_se": 0.01}, set()),
        ({"A": 0.62}, {"A"}),
        ({"B": 1.8}, {"B"}),
        ({"B": 20.0}, {"B"}),
        ({"A_max": math.inf}, set()),
        ({"A_max": 0.6}, set()),
    ],
    ids=str,
)
def test_to_lmfit_has_the_parameters_of_the_fit(demo, run, options, given):
    fit = fit_trace(demo[run], **options)
    result = fit.to_lmfit()
    assert deviation(result, fit) < 1e-6
    assert result.success
    assert result.errorbars
    assert set(result.var_names) == set(PARAMETER_NAMES) - given - set(fit.at_bound)


def test_the_observation_of_R0_is_one_more_data_point(demo):
    fit = fit_trace(demo["scalerl"])
    result = fit.to_lmfit()
    assert result.ndata == fit.n_points + 1
    assert result.userkws["compute"][0] == 0.0
    assert result.data[0] == demo["scalerl"].pass_rate[0]
    ratio = result.weights[0] / result.weights[1:]
    np.testing.assert_allclose(ratio**2, fit.fitted_model().problem.weights[-1])
    free = refit(fit, R0="free").to_lmfit()
    assert free.ndata == fit.n_points
    assert free.weights is None


def test_chi_square_is_the_fits_sum_of_squares(demo):
    fit = fit_trace(demo["scalerl"], R0="free")
    assert fit.to_lmfit().chisqr == pytest.approx(fit.ssr, rel=1e-9)


@pytest.mark.parametrize("options", [{"R0": "free"}, {"R0": 0.35}], ids=str)
def test_standard_errors_are_those_of_least_squares(demo, options):
    fit = fit_trace(demo["scalerl"], **options)
    params = fit.to_lmfit().params
    for name, error in fit.standard_error.items():
        assert params[name].stderr == pytest.approx(error, rel=1e-4)


def test_weights_are_those_of_the_fit():
    y, weights = noisy(), np.linspace(1.0, 9.0, len(C))
    fit = fit_sigmoid(C, y, weights=weights, R0=0.35)
    result = fit.to_lmfit()
    assert deviation(result, fit) < 1e-6
    used = weights[fit.data.used]
    np.testing.assert_allclose(result.weights**2 / used, (result.weights**2 / used)[0])
    assert 0.5 < result.redchi < 2.0  # the weights are one over the noise, so that plot's error bars have its size


def test_a_falling_run_of_unbounded_scores():
    y = 1000.0 * noisy(A=0.2, R0=0.7)
    fit = fit_sigmoid(C, y, A_max=math.inf, R0="free")
    result = fit.to_lmfit()
    assert fit.A < fit.R0
    assert deviation(result, fit) < 1e-6


def test_reports_intervals_and_figures_work(demo):
    mpl.use("Agg")
    fit = fit_trace(demo["scalerl"])
    result = fit.to_lmfit()
    report = result.fit_report()
    assert all(f"{name}:" in report for name in PARAMETER_NAMES)
    assert "could not be estimated" not in report
    for name, ends in result.conf_interval(sigmas=[1, 2]).items():
        values = [value for _, value in ends]
        assert values == sorted(values)
        assert values[1] < getattr(fit, name) < values[3]
    grid = np.array([0.0, 1e3, 1e4, 1e5])
    band = result.eval_uncertainty(compute=grid)
    assert np.all(band > 0)
    assert band[-1] > band[2]
    np.testing.assert_allclose(result.eval(compute=grid), fit.predict(grid), rtol=1e-6)
    assert len(result.plot(numpoints=50).axes) == 2


def test_lmfits_interval_is_narrower_than_ours_on_correlated_evaluations(demo):
    fit = fit_trace(demo["scalerl-8k"])
    ends = dict(fit.to_lmfit().conf_interval(p_names=["A"], sigmas=[0.95]))["A"]
    low, high = fit.confidence_interval["A"]
    assert ends[2][1] - ends[0][1] < high - low


def test_a_loaded_fit_converts_too(demo):
    fit = fit_trace(demo["scalerl"])
    assert deviation(SigmoidFit.from_dict(fit.to_dict()).to_lmfit(), fit) < 1e-6


def test_what_cannot_be_converted_says_why(demo):
    with pytest.raises(FitError, match='refit\\(fit, method="varpro"\\)'):
        fit_trace(demo["scalerl"], R0=0.35, method="paper-grid").to_lmfit()
    with pytest.raises(FitError, match="constant"):
        fit_sigmoid(C, noisy(A=0.2, R0=0.7), R0="free").to_lmfit()


# --------------------------------------------------------------------------------------------------- SigmoidModel


@pytest.mark.parametrize("run", ["scalerl", "scalerl-8k", "batch-512", "batch-2048"])
def test_fit_without_params_ends_at_our_optimum(demo, run):
    trace = demo[run]
    result = SigmoidModel().fit(trace.pass_rate, compute=trace.compute)
    fit = fit_sigmoid(trace.compute, trace.pass_rate, **ALL)
    assert deviation(result, fit) < 1e-3
    assert result.chisqr == pytest.approx(fit.ssr, rel=1e-6)


def test_conf_interval_of_the_model_brackets_the_optimum():
    result = SigmoidModel().fit(noisy(), compute=C)
    for name, ends in result.conf_interval().items():
        values = [value for _, value in ends]
        assert values == sorted(values), name
        assert ends[3] == (0.0, result.best_values[name])
        assert np.all(np.isfinite(values))


def test_an_interval_that_meets_a_bound_says_so():
    y = noisy(C_mid=14000.0, A=0.95, sd=0.01)
    result = SigmoidModel().fit(y, compute=C)
    with pytest.warns(UserWarning, match="Bound reached with prob\\(A=1.0\\)"):
        ends = result.conf_interval(p_names=["A"], sigmas=[2])["A"]
    assert ends[2][1] == math.inf


def test_parameters_can_be_fixed_bounded_and_tied():
    model, y = SigmoidModel(), noisy()
    params = model.guess(y, C)
    params["R0"].set(value=0.35, vary=False)
    fixed = model.fit(y, params, compute=C)
    assert deviation(fixed, fit_sigmoid(C, y, **(ALL | {"R0": 0.35}))) < 1e-3
    params["A"].set(max=0.605)
    assert model.fit(y, params, compute=C).best_values["A"] <= 0.605
    params["A"].set(expr="R0 + 0.25")
    tied = model.fit(y, params, compute=C)
    assert tied.best_values["A"] == pytest.approx(0.6)
    assert tied.var_names == ["B", "C_mid"]


def test_a_start_of_ones_own_shapes_the_guess():
    params = SigmoidModel().guess(noisy(), C, R0=0.3, C_mid=3000.0)
    assert params["R0"].value == 0.3
    assert params["C_mid"].value == 3000.0
    assert all(p.vary for p in params.values())
    result = SigmoidModel().fit(noisy(), compute=C, R0=0.3)
    assert result.init_values["R0"] == 0.3


def test_order_and_repeats_of_compute_do_not_matter():
    y, model = noisy(), SigmoidModel()
    order = np.random.default_rng(1).permutation(len(C))
    ordered, shuffled = model.guess(y, C), model.guess(y[order], C[order])
    twice = model.guess(np.r_[y + 0.01, y - 0.01], np.r_[C, C])
    for params in (shuffled, twice):
        for name in PARAMETER_NAMES:
            assert params[name].value == pytest.approx(ordered[name].value, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1.0, 1e20])
def test_any_unit_of_compute(unit):
    y = noisy()
    result = SigmoidModel().fit(y, compute=C * unit)
    assert result.errorbars
    assert result.best_values["C_mid"] / unit == pytest.approx(fit_sigmoid(C, y, **ALL).C_mid, rel=1e-3)


def test_the_curve_does_not_overflow_and_is_R0_at_0():
    model = SigmoidModel()
    params = model.make_params(A=0.6, B=10.0, C_mid=1e20, R0=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = model.eval(params, compute=[0.0, 1e-300, 1e20, 1e300])
    np.testing.assert_allclose(values, [0.3, 0.3, 0.45, 0.6])


def test_weights_multiply_the_residuals_as_in_lmfit():
    y, w = noisy(), np.linspace(1.0, 9.0, len(C))
    result = SigmoidModel().fit(y, weights=w, compute=C)
    assert deviation(result, fit_sigmoid(C, y, weights=w**2, **ALL)) < 1e-3
    w[:3] = 0.0
    dropped = SigmoidModel().fit(y, weights=w, compute=C)
    assert deviation(dropped, fit_sigmoid(C[3:], y[3:], weights=w[3:] ** 2, **ALL)) < 1e-3
    assert SigmoidModel().fit(y, weights=2.0, compute=C).redchi > 0


def test_unbounded_scores():
    y = 1000.0 * noisy() - 400.0
    result = SigmoidModel(A_max=math.inf).fit(y, compute=C)
    assert deviation(result, fit_sigmoid(C, y, A_max=math.inf, **ALL)) < 1e-3
    falling = SigmoidModel(A_max=math.inf).fit(noisy(A=0.2, R0=0.7), compute=C)
    assert falling.best_values["A"] < falling.best_values["R0"]


def test_bounds_of_B_and_A():
    params = SigmoidModel(A_max=0.9, B_bounds=(0.5, 3.0)).make_params(A=0.6, B=1.0, C_mid=1.0, R0=0.3)
    assert [(p.min, p.max) for p in params.values()] == [(0.0, 0.9), (0.5, 3.0), (0.0, math.inf), (0.0, 0.9)]
    fixed = SigmoidModel(B_bounds=(1.8, 1.8)).fit(noisy(), compute=C)
    assert fixed.best_values["B"] == 1.8
    assert not fixed.params["B"].vary


def test_prefix_and_composite():
    y = noisy()
    model = SigmoidModel(prefix="rl_")
    assert model.param_names == ["rl_A", "rl_B", "rl_C_mid", "rl_R0"]
    alone = model.fit(y, compute=C)
    assert alone.best_values["rl_A"] == pytest.approx(fit_sigmoid(C, y, **ALL).A, rel=1e-3)
    composite = SigmoidModel(prefix="rl_") + ConstantModel(prefix="base_")
    params = model.guess(y, C) + ConstantModel(prefix="base_").guess(y, x=C)
    params["rl_R0"].set(value=0.0, vary=False)
    params["base_c"].set(value=0.3)
    result = composite.fit(y, params, compute=C, x=C)
    total = result.best_values["rl_A"] + result.best_values["base_c"]
    assert total == pytest.approx(alone.best_values["rl_A"], rel=1e-4)
    assert set(result.eval_components()) == {"rl_", "base_"}
    assert result.conf_interval(p_names=["rl_A"], sigmas=[2])["rl_A"][0][1] < result.best_values["rl_A"]
    model.prefix = "p_"
    assert model.guess(y, C)["p_A"].max == 1.0


def test_model_params_and_result_survive_a_pickle(demo):
    model = pickle.loads(pickle.dumps(SigmoidModel(prefix="p_", A_max=0.9)))
    assert model.A_max == 0.9
    params = pickle.loads(pickle.dumps(model.guess(noisy(), C)))
    result = pickle.loads(pickle.dumps(model.fit(noisy(), params, compute=C)))
    assert result.best_values["p_A"] == pytest.approx(0.61, abs=0.01)
    assert "p_A:" in result.fit_report()
    assert "A:" in pickle.loads(pickle.dumps(fit_trace(demo["scalerl"]).to_lmfit())).fit_report()


def test_missing_values_follow_the_policy():
    y, holes = noisy(), noisy()
    holes[5] = math.nan
    with pytest.raises(TraceError, match="pass_rate at row 5 is nan"):
        SigmoidModel().fit(holes, compute=C)
    omitted = SigmoidModel(nan_policy="omit").fit(holes, compute=C)
    assert omitted.ndata == len(C) - 1
    kept = np.arange(len(C)) != 5
    assert deviation(omitted, fit_sigmoid(C[kept], y[kept], **ALL)) < 1e-3
    compute = np.where(np.arange(len(C)) == 7, math.nan, C)
    weights = np.ones(len(C))
    assert SigmoidModel().fit(holes, weights=weights, compute=compute, nan_policy="omit").ndata == len(C) - 2
    assert np.isfinite(SigmoidModel(nan_policy="propagate").guess(holes, C)["A"].value)


def test_pandas_columns_are_aligned_by_index():
    frame = pd.DataFrame({"compute": C, "pass_rate": noisy()})
    late = frame.pass_rate[frame.compute > 1000.0]
    result = SigmoidModel().fit(late, compute=frame.compute)
    assert result.ndata == len(late)
    assert result.userkws["compute"][0] == 1200.0


# ------------------------------------------------------------------------------- what goes wrong with sigmoid fits


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, y: m.fit(y), "compute of each evaluation is missing"),
        (lambda m, y: m.guess(y, x=C), "x= is no parameter"),
        (lambda m, y: m.guess(y), "guess\\(pass_rate, compute\\)"),
        (lambda m, y: m.fit(100.0 * y, compute=C), "looks like percent"),
        (lambda m, y: m.fit(y, compute=C - 400.0), "compute at row 0 is -400: negative"),
        (lambda m, y: m.fit(y[:-1], compute=C), "compute has 41 values and pass_rate 40"),
        (lambda m, y: m.fit(y, weights=[1.0], compute=C), "weights has 1 values for 41"),
        (lambda m, y: m.fit(y, weights=[math.nan] * len(C), compute=C), "weights\\[0\\] is nan"),
        (lambda m, y: m.fit(y[:4], compute=C[:4]), "too few"),
        (lambda m, y: m.fit(y, m.make_params(), compute=C), "A has no starting value"),
        (lambda m, y: m.fit(y, m.make_params(A=0.6, B=1.0, R0=0.3), compute=C), "C_mid has no starting value"),
        (lambda m, y: m.fit(y, m.make_params(A=0.2, B=1.0, C_mid=2e3, R0=0.3), compute=C), "A starts at 0.2, below R0"),
        (lambda m, y: m.guess(y, C, A=1.4), "A=1.4 is outside"),
        (lambda m, y: (m + ConstantModel(prefix="k_")).fit(y, k_c=0.0, compute=C, x=C), "A has no starting value"),
        (lambda m, y: SigmoidModel(A_max=60.0), "A_max=60"),
        (lambda m, y: SigmoidModel(B_bounds=(0.0, 3.0)), "B must be positive"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((FitError, TraceError), match=message):
        call(SigmoidModel(), noisy())


def test_a_steep_rise_that_a_naive_start_misses():
    """From A = B = R0 = C_mid = 1, where curve_fit starts, the rise at 12,000 is out of reach."""
    y = noisy(C_mid=12000.0, B=8.0)
    result = SigmoidModel().fit(y, compute=C)
    assert result.best_values["C_mid"] == pytest.approx(12000.0, rel=0.02)
    assert result.errorbars


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_ceiling_at_its_bound_does_not_stay_there_when_the_data_leave_it():
    early = C <= 4000.0
    model, y = SigmoidModel(), noisy(sd=0.001)
    params = model.guess(0.1 + 0.05 * (C[early] / 4000.0) ** 1.5, C[early])
    assert params["A"].value < params["A"].max
    result = model.fit(y, params, compute=C)
    assert deviation(result, fit_sigmoid(C, y, **ALL)) < 1e-3


def test_a_straight_rise_gives_a_result():
    y = 0.3 + 0.2 * C / C[-1] + np.random.default_rng(0).normal(0.0, 0.002, len(C))
    result = SigmoidModel().fit(y, compute=C)
    assert np.all(np.isfinite(list(result.best_values.values())))
    assert result.rsquared > 0.99


@pytest.mark.parametrize("R0", [0.7, 0.35])
def test_a_run_that_does_not_rise_is_reported_as_a_constant(R0):
    y = noisy(A=0.2, R0=0.7) if R0 == 0.7 else np.full(len(C), 0.35)
    with pytest.warns(RLScalingWarning, match="does not rise"):
        result = SigmoidModel().fit(y, compute=C)
    assert result.params["A"].value == result.params["R0"].value == pytest.approx(y.mean(), abs=1e-3)


def test_data_without_noise():
    result = SigmoidModel().fit(sigmoid(C, **TRUE), compute=C)
    for name, value in TRUE.items():
        assert result.best_values[name] == pytest.approx(value, rel=1e-4)


# --------------------------------------------------------------------------------- docs/curve-fit-and-lmfit.md


def similar(number: str, printed: str) -> bool:
    """Whether two numbers are the same to a unit or two in the last digit that is shown, or to 5 %."""
    a, b = (float(text.replace(",", "")) for text in (number, printed))
    digits = len(number.partition(".")[2])
    return abs(a - b) <= max(1.5 * 10.0**-digits, 0.05 * abs(a))


@pytest.mark.parametrize("with_simulation", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_page_shows_what_its_code_prints(with_simulation):
    page = (PROJECT / "docs" / "curve-fit-and-lmfit.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$|arXiv [\d.]+", "", page, flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"\d\.\d", prose), "a number in the text that no code has printed"
    number, namespace, n_shown = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?", {}, 0
    for code, shown in re.findall(
        r"^```python\n(.*?)^```$\n+(?:^```text\n(.*?)^```$)?", page, re.MULTILINE | re.DOTALL
    ):
        if "simulate(" in code and not with_simulation:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("default")
            exec(code, namespace)
        assert re.sub(number, "#", printed.getvalue()).split() == re.sub(number, "#", shown).split()
        pairs = zip(re.findall(number, shown), re.findall(number, printed.getvalue()), strict=True)
        assert [pair for pair in pairs if not similar(*pair)] == []
        n_shown += bool(shown)
    assert n_shown >= 8


def test_the_weight_of_an_omitted_evaluation_does_not_matter(demo):
    """scipy 21772: what is omitted because its value is missing needs no weight either."""
    run = demo["scalerl"]
    rates, weights = run.pass_rate.copy(), np.ones(len(run))
    rates[5] = weights[5] = np.nan
    result = SigmoidModel(nan_policy="omit").fit(rates, compute=run.compute, weights=weights)
    assert result.ndata == len(run) - 1
    with pytest.raises(FitError, match="all 75 evaluations have a missing compute or pass_rate"):
        SigmoidModel(nan_policy="omit").fit(np.full(75, np.nan), compute=run.compute[:75])
    with pytest.raises(FitError, match="all weights are 0"):
        SigmoidModel().guess(run.pass_rate, run.compute, weights=0.0 * run.pass_rate)
