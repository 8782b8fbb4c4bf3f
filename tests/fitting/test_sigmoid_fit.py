"""Results: exact round trips through JSON, digits by the PDG rule, saved fits that stay what they were."""

from __future__ import annotations

import json
import math
import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from helpers.example_fits import FITS, Y
from helpers.scalerl import C, P
from helpers.verdict_runs import chain
from rlscaling import FitError, SigmoidFit, bootstrap, extrapolate, fit_sigmoid, refit
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.fitting.sigmoid_fit import FailedFit, SigmoidParams
from rlscaling.printing.numbers import interval, plus_minus


@pytest.mark.parametrize("name", FITS)
def test_a_fit_comes_back_from_json_exactly(name):
    fit = FITS[name]()
    text = json.dumps(fit.to_dict(), allow_nan=False)
    back = SigmoidFit.from_dict(json.loads(text))
    assert back.to_dict() == fit.to_dict()
    assert json.dumps(back.to_dict()) == text
    assert (back.params, back.options, back.verdict) == (fit.params, fit.options, fit.verdict)
    assert (back.confidence_interval, back.compute_needed) == (fit.confidence_interval, fit.compute_needed)
    assert (back.at_bound, back.notes, back.name) == (fit.at_bound, fit.notes, fit.name)
    for field in ("compute", "pass_rate", "used", "weights", "se", "n_rollouts", "step"):
        ours, theirs = getattr(fit.data, field), getattr(back.data, field)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_array_equal(theirs, ours)
            assert theirs.dtype == ours.dtype
    assert back.data.anchor == fit.data.anchor
    for face in (str, repr, SigmoidFit._repr_html_):
        assert face(back) == face(fit)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_from_json_can_be_used_on(name):
    fit = FITS[name]()
    back = SigmoidFit.from_dict(json.loads(json.dumps(fit.to_dict())))
    assert refit(back).params == fit.params
    if fit.n_points >= 7:
        one, two = (bootstrap(f, n_resamples=20, rng=0) for f in (fit, back))
        np.testing.assert_array_equal(two.distribution, one.distribution)
        budget = 10 * fit.compute_range[1]
        forecast = extrapolate(back, budget, method="sigmoid", bootstrap=one)
        np.testing.assert_array_equal(forecast.pass_rate, fit.predict([budget]))


DAMAGE = {
    "another kind": {"kind": "trace"},
    "a newer version": {"schema_version": 99},
    "no version": {"schema_version": None},
    "no options": {"options": {}},
    "interval of one number": {"ci": {"A": 3}},
    "points missing": {"data": None},
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_what_is_no_saved_fit_is_refused(change):
    saved = FITS["default"]().to_dict() | change
    with pytest.raises(FitError, match=r"not a saved fit|schema_version|damaged"):
        SigmoidFit.from_dict(saved)


BUG_DAMAGE = {
    "unknown verdict": {"verdict": "fine"},
    "text for numbers": {"covariance": "x"},
    "text for a parameter": {"A": "high"},
    "residual missing": {"residual": None},
    "data of two lengths": {"data": "cut"},
}


@pytest.mark.parametrize("change", BUG_DAMAGE.values(), ids=BUG_DAMAGE)
def test_bug_a_damaged_saved_fit_is_refused_in_words(change):
    saved = json.loads(json.dumps(FITS["default"]().to_dict()))
    if change == {"data": "cut"}:
        change = {"data": {**saved["data"], "compute": saved["data"]["compute"][:5]}}
    with pytest.raises(FitError, match="damaged"):
        SigmoidFit.from_dict(saved | change)


def test_bug_a_saved_fit_that_is_no_object_is_refused_in_words():
    with pytest.raises(FitError, match="not a saved fit"):
        SigmoidFit.from_dict([1, 2])


def test_results_are_frozen():
    fit = FITS["default"]()
    with pytest.raises(FrozenInstanceError):
        fit.name = "other"
    with pytest.raises(FrozenInstanceError):
        fit.params.A = 1.0


def test_the_properties_agree_with_the_arrays():
    fit = FITS["default"]()
    assert (fit.A, fit.B, fit.C_mid, fit.R0) == fit.params.as_tuple()
    np.testing.assert_allclose(list(fit.standard_error.values()), np.sqrt(np.diag(fit.covariance)))
    assert fit.n_points == len(fit.residual) == int((C >= 1500).sum())
    assert fit.compute_range == (C[7], C[-1])
    assert len(fit.data) == 75
    np.testing.assert_allclose(fit.predict(C), sigmoid(C, *fit.params.as_tuple()))
    assert fit.summary() == str(fit)


def test_compute_to_reach_of_a_fit():
    fit = FITS["default"]()
    reached = fit.compute_to_reach([fit.R0, 0.5, fit.A, fit.A + 0.01, fit.R0 - 0.01])
    assert reached[0] == 0.0
    assert fit.predict(reached[1]) == pytest.approx(0.5)
    assert reached[2] == math.inf
    assert np.isnan(reached[3:]).all()


def test_the_linear_form_has_slope_B():
    # [ScaleRL, Fig. 7]: F(R_C) = C**B on the curve
    fit = fit_sigmoid(C, P.predict(C))
    compute, F = fit.linearized()
    np.testing.assert_allclose(F, compute**1.92, rtol=1e-6)
    slope = np.polyfit(np.log(compute), np.log(F), 1)[0]
    assert slope == pytest.approx(1.92, rel=1e-6)
    noisy = FITS["default"]()
    compute, F = noisy.linearized()
    assert np.all((F > 0) & np.isfinite(F))
    assert len(compute) <= noisy.n_points


def test_bug_the_linear_form_of_steep_fits_in_large_units_does_not_overflow():
    y = sigmoid(C, 0.6, 30.0, 6000.0, 0.3)
    fit = fit_sigmoid(C * 1e19, y, compute_unit="flops", min_compute=0, B_bounds=(0.1, 40.0))
    compute, F = fit.linearized()
    assert len(compute) == len(F)


def test_the_frame_holds_the_parameters_and_their_interval():
    fit = FITS["default"]()
    frame = fit.to_frame()
    assert list(frame.index) == ["A", "B", "C_mid", "R0"]
    assert frame["estimate"].tolist() == list(fit.params.as_tuple())
    assert (frame.loc["A", "ci_low"], frame.loc["A", "ci_high"]) == fit.confidence_interval["A"]
    assert frame["standard_error"].tolist() == list(fit.standard_error.values())
    assert FITS["few"]().to_frame()["ci_low"].isna().all()


def test_the_printed_fit():
    fit = FITS["trace"]()
    lines = str(fit).splitlines()
    assert lines[0] == f"approximate [run7]: {fit.reason}"
    assert [line.split()[0] for line in lines[2:6]] == ["A", "B", "C_mid", "R0"]
    assert plus_minus(fit.A, fit.half_width_68["A"]) in lines[2]
    assert interval(*fit.confidence_interval["A"]) in lines[2]
    assert "GPU-hours" in lines[4]
    assert lines[5].endswith("anchored")
    assert "68 points, 1,513 to 16,000 GPU-hours, 6 left out (min_compute 1,500)" in lines[6]
    assert len(lines) == 7
    assert str(FITS["default"]()).splitlines()[0] == f"approximate: {fit.reason}", "a fit without a name"


def test_a_fit_before_its_bend_prints_a_floor_and_the_curve_at_twice_the_data():
    fit = FITS["early"]()
    assert fit.verdict == "ceiling-not-identified"
    (row,) = (line for line in str(fit).splitlines() if line.startswith("  A "))
    low = fit.confidence_interval["A"][0]
    assert row.endswith(f"at least {low:.2f}")
    assert f"at least {low:.2f}" in fit._repr_html_()
    value, low, high = fit.at_twice
    last = fit.compute_range[1]
    assert value == pytest.approx(float(fit.predict(2 * last)))
    assert low < value < high
    twice = (
        f"R at {2 * last:,.0f} GPU-hours (twice the data): {plus_minus(value, (high - low) / 4)}  {interval(low, high)}"
    )
    assert f"\n  {twice}\n" in str(fit)
    assert f"\n  {twice}\n" in str(bootstrap(fit, n_resamples=20, rng=0))
    assert twice in fit._repr_html_()
    assert fit.to_dict()["at_twice"] == [value, low, high]
    assert SigmoidFit.from_dict(fit.to_dict()).at_twice == fit.at_twice
    whole = FITS["default"]()
    assert whole.at_twice is not None
    assert "twice the data" not in str(whole)
    assert "at least" not in str(whole)
    assert FITS["few"]().at_twice is None


def test_a_run_without_a_rise_has_neither_exponent_nor_midpoint():
    flat = FITS["flat"]()
    falling = fit_sigmoid(C, 0.6 - C / 1e5 + 0.003 * np.sin(np.arange(75.0) ** 2))
    assert (flat.verdict, falling.verdict) == ("flat", "falling")
    for fit in (flat, falling):
        for text in (str(fit), str(bootstrap(fit, n_resamples=20, rng=0))):
            rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
            for name in ("A", "B", "C_mid"):
                assert "not identified" in rows[name]
                assert "±" not in rows[name]
            assert "[" not in rows["B"] + rows["C_mid"]
            assert "±" in rows["R0"]


def test_given_and_bounded_parameters_are_marked():
    text = str(fit_sigmoid(C, Y, A=0.61, B=1.9, R0=0.35))
    rows = {line.split()[0]: line for line in text.splitlines()[2:6]}
    assert rows["A"].endswith("given")
    assert rows["B"].endswith("given")
    assert rows["R0"].endswith("fixed")
    assert "±" not in rows["A"]
    step = fit_sigmoid(C, np.where(C < 6000, 0.3, 0.6), min_compute=0)
    assert "B" in step.at_bound
    assert "at its bound" in str(step)
    assert any("the best B sits at its bound (B_bounds = 0.1 to 10)" in note for note in step.notes)


def test_html_holds_what_the_text_holds():
    fit = FITS["trace"]()
    html = fit._repr_html_()
    assert html.startswith("<div>")
    assert f"<b>approximate [run7]: {fit.reason}</b>" in html.replace("&#x27;", "'")
    for name in ("A", "B", "C_mid", "R0"):
        assert f"<td>{name}</td>" in html


def test_failed_fits_are_false_and_say_why():
    failed = FailedFit(name="run3", error="too few points")
    assert not failed
    assert str(failed) == "run3: no fit: too few points"
    assert failed.to_dict() == {"run": "run3", "error": "too few points"}


def test_params_predict_and_reach_are_the_curves():
    p = SigmoidParams(0.61, 1.92, 2542.0, 0.35)
    assert p.predict([0, 2542]).tolist() == [0.35, 0.48]
    assert float(p.compute_to_reach(0.48)) == pytest.approx(2542.0)


def test_bug_the_table_shows_the_digits_of_a_small_ceiling(rng):
    """'0.005 ± 0.000' says nothing: the error decides the digits."""
    y = sigmoid(C, 0.005, 1.9, 2500.0, 0.001) + chain(len(C), 0.2, 1e-4, rng)
    fit = fit_sigmoid(C, y)
    row = next(line for line in str(fit).splitlines() if line.startswith("  A "))
    assert "± 0.000 " not in row
    assert "[0.005, 0.005]" not in row
    low, high = row[row.index("[") + 1 : row.index("]")].split(", ")
    assert float(low) < P.A / 122 < float(high)


def test_a_fit_saved_under_the_old_name_of_its_errors_comes_back():
    fit = FITS[next(iter(FITS))]()
    saved = fit.to_dict()
    saved["robust_error"] = saved.pop("half_width_68")
    assert SigmoidFit.from_dict(saved).to_dict() == fit.to_dict()


def test_the_model_of_a_loaded_fit_is_built_once_and_the_same():
    fit = fit_sigmoid(C, Y)
    back = SigmoidFit.from_dict(fit.to_dict())
    assert back.fitted_model() is back.fitted_model()
    assert back.fitted_model().bootstrap_params == fit.fitted_model().bootstrap_params


def test_parameters_are_a_mapping_too():
    assert {**P} == dict(P) == {"A": P.A, "B": P.B, "C_mid": P.C_mid, "R0": P.R0}
    with pytest.raises(KeyError):
        P["keys"]


def test_bug_a_run_of_zeros_is_printed_as_0_and_stays_in_its_bounds():
    """sprouffske/growthcurver#17: '(0 ± 5)e-152', and an interval of A below 0."""
    fit = fit_sigmoid(np.arange(0, 16_001, 400.0), np.zeros(41))
    assert "e-1" not in str(fit)
    assert fit.confidence_interval is not None
    for name in ("A", "R0"):
        low, high = fit.confidence_interval[name]
        assert 0.0 <= low <= high <= 1.0
    assert interval(*fit.confidence_interval["A"]) == "[0, 0]"


def test_bug_data_without_noise_have_no_sixteen_digits():
    """scipy/scipy#14351, scikit-hep/resample#84: degenerate replicates."""
    x = np.arange(1, 50, 5.0)
    fit = fit_sigmoid(x, 0.1 + 0.6 / (1 + (15 / x) ** 2), compute_unit="steps", min_compute=0)
    for text in (str(fit), str(extrapolate(fit, 69, rng=0)), str(bootstrap(fit, rng=0, n_resamples=50))):
        digits = re.findall(r"\d+\.(\d+)", text)
        assert max(map(len, digits), default=0) <= 4, text


def test_bug_the_lower_end_beside_an_interval_is_the_one_in_it():
    """asteca/ASteCA#213, the US census: 'at least 0' stood beside [630, 7.84e+08], and C_mid was '0 ± 110,000'."""
    census = [
        3.929, 5.308, 7.240, 9.638, 12.866, 17.069, 23.192, 31.443, 38.558, 50.156, 62.948, 75.996, 91.972, 105.711,
        122.775, 131.669, 150.697, 179.323, 203.185, 226.546, 248.710,
    ]  # fmt: skip
    years = 10.0 * np.arange(1, 22)
    fit = fit_sigmoid(years, np.array(census), compute_unit="steps", min_compute=0, A_max=math.inf)
    rows = {row[0]: row for row in fit.tables()[0].rows}
    assert rows["A"][2].startswith("[" + rows["A"][3].removeprefix("at least ") + ",")
    assert rows["A"][3] != "at least 0"
    assert all(not row[1].startswith("0 ±") for row in rows.values())
