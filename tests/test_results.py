"""Results: exact round trips through JSON, digits by the PDG rule, saved fits that stay what they were."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from rlscaling import (
    FitError,
    RLScalingError,
    SigmoidFit,
    bootstrap,
    extrapolate,
    fit_sigmoid,
    fit_trace,
    load_fit,
    refit,
    save_fit,
)
from rlscaling.curves import sigmoid
from rlscaling.datasets import simulate, table1
from rlscaling.format import error_decimals, html_table, interval, number, plus_minus, robust_error, text_table
from rlscaling.results import FailedFit
from rlscaling.saved import is_saved_fit
from rlscaling.trace import Trace

P = table1()["scalerl"]
C = 216.2 * np.arange(75)
TRACE = simulate(P, compute=C, rho=0.3, wander_sd=0.003, rng=3, name="run7")
Y = TRACE.pass_rate

FITS = {
    "default": lambda: fit_sigmoid(C, Y),
    "trace": lambda: fit_trace(TRACE),
    "counts": lambda: fit_trace(Trace(C, Y, columns={"n_prompts": np.full(75, 100.0), "n_samples": np.full(75, 8.0)})),
    "steps": lambda: fit_trace(
        Trace(C, Y, columns={"step": np.arange(75) * 100.0}, metadata={"seed": 3, "tags": ["a", 1]})
    ),
    "R0 fixed": lambda: fit_sigmoid(C, Y, R0=0.31),
    "R0 free": lambda: fit_sigmoid(C, Y, R0="free"),
    "R0 anchored": lambda: fit_sigmoid(C, Y, R0=0.31, R0_se=0.05),
    "A given": lambda: fit_sigmoid(C, Y, A=0.61),
    "B given": lambda: fit_sigmoid(C, Y, B=1.9),
    "unbounded": lambda: fit_sigmoid(C, 100 * Y - 50, A_max=math.inf),
    "A_max": lambda: fit_sigmoid(C, Y, A_max=0.9, B_bounds=(0.5, 4.0)),
    "window": lambda: fit_sigmoid(C, Y, min_compute=2000, max_compute=12_000),
    "exclude": lambda: fit_sigmoid(C, Y, exclude=[(3000, 3500), (14_000, math.inf)]),
    "weights": lambda: fit_sigmoid(C, Y, weights=np.linspace(1, 3, 75)),
    "paper-grid": lambda: fit_sigmoid(C, Y, R0=0.35, method="paper-grid"),
    "own grid": lambda: fit_sigmoid(C, Y, R0=0.35, method="paper-grid", grid={"A": [0.6, 0.61], "C_mid": [2500, 2600]}),
    "tokens": lambda: fit_sigmoid(C * 1e9, Y, compute_unit="tokens", min_compute=1500e9),
    "early": lambda: fit_sigmoid(C[:16], Y[:16]),
    "too early": lambda: fit_sigmoid(C[:15], 0.35 + C[:15] * 1e-6),
    "few": lambda: fit_sigmoid(C[7:13], Y[7:13]),
    "flat": lambda: fit_sigmoid(C, 0.4 + 0.004 * np.sin(np.arange(75.0) ** 2)),
    "failed digits": lambda: fit_sigmoid(C / 3.0, Y, min_compute=500.1),
}


# --- round trips -----------------------------------------------------------------------------------------


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
        forecast = extrapolate(back, budget, bootstrap=one)
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


# --- files -----------------------------------------------------------------------------------------------


def test_a_saved_fit_is_never_written_over(tmp_path):
    fit = FITS["trace"]()
    path = save_fit(fit, tmp_path / "fit.json")
    before = path.read_bytes()
    with pytest.raises(
        FitError, match=r"fit.json exists and is not written over; choose another name, or overwrite=True"
    ):
        save_fit(FITS["R0 free"](), path)
    assert path.read_bytes() == before
    assert load_fit(path).to_dict() == fit.to_dict()
    save_fit(FITS["R0 free"](), path, overwrite=True)
    assert load_fit(str(path)).options.R0 == "free"
    assert is_saved_fit(path)
    assert not is_saved_fit(tmp_path)
    assert not is_saved_fit(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a saved fit: it is not JSON"),
        (b'{"kind": "sigmoid-fit", "schema', "is not a saved fit: it is not JSON"),
        (b"\xff\xfe\x00", "is not a saved fit: it is not JSON"),
        (b"[1, 2]", "is not a saved fit: it holds a list, not an object"),
        (b"{}", "not a saved fit: 'kind' is None, expected 'sigmoid-fit'"),
        (b'{"kind": "sigmoid-fit", "schema_version": 1}', "the saved fit is damaged"),
        (b'{"kind": "sigmoid-fit", "schema_version": 2}', "schema_version 2, this version reads 1; update rlscaling"),
    ],
)
def test_files_that_are_no_saved_fit_are_refused(tmp_path, content, message):
    path = tmp_path / "fit.json"
    path.write_bytes(content)
    with pytest.raises(FitError, match=message):
        load_fit(path)


def test_places_that_cannot_be_read_or_written_are_named(tmp_path):
    with pytest.raises(FitError, match=r"cannot read .*none.json: No such file"):
        load_fit(tmp_path / "none.json")
    with pytest.raises(FitError, match=r"cannot read .*: Is a directory"):
        load_fit(tmp_path)
    with pytest.raises(FitError, match=r"cannot write .*no-folder.*: No such file or directory"):
        save_fit(FITS["few"](), tmp_path / "no-folder" / "fit.json")


@pytest.mark.parametrize("metadata", [{"loss": math.nan}, {"lr": np.float32(0.5)}, {"when": {"t": math.inf}}], ids=str)
def test_bug_metadata_of_a_run_do_not_keep_a_fit_from_being_saved(tmp_path, metadata):
    fit = fit_trace(Trace(C, Y, metadata=metadata))
    path = save_fit(fit, tmp_path / "fit.json")
    assert load_fit(path).params == fit.params


# --- results are values ----------------------------------------------------------------------------------


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


# --- printing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "decimals"),
    # Particle Data Group, rounding: 100-354 keep two digits, 355-949 one, 950-999 round up to 1000 and keep two
    [
        (0.0354, 3),
        (0.0356, 2),
        (0.00421, 3),
        (0.0094, 3),
        (0.00096, 4),
        (0.01, 3),
        (1.5, 1),
        (8.27, 0),
        (152.0, -1),
        (827.0, -2),
    ],
)
def test_the_error_decides_the_digits(error, decimals):
    assert error_decimals(error) == decimals


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.827, 0.119, "0.83 ± 0.12"),  # the PDG's own examples
        (0.827, 0.367, "0.8 ± 0.4"),
        (0.61234, 0.00421, "0.612 ± 0.004"),
        (2541.7, 152.0, "2,540 ± 150"),
        (10_909.0, 951.0, "10,900 ± 1,000"),
        (0.0, 0.01, "0.000 ± 0.010"),
        (-0.5, 0.2, "-0.50 ± 0.20"),
        (2.542e21, 1.2e20, "(2.54 ± 0.12)e+21"),
        (0.61, 0.0, "0.61"),
        (0.61, math.nan, "0.61"),
    ],
)
def test_value_and_error(value, error, text):
    assert plus_minus(value, error) == text


@pytest.mark.parametrize(("value", "error", "text"), [(3e-6, 0.01, "0.000 ± 0.010"), (5e-5, 0.2, "0.00 ± 0.20")])
def test_bug_a_value_far_below_its_error_is_not_printed_in_its_own_power(value, error, text):
    """R0 = 3e-6 with error 0.01 is zero within the error, not (0 ± 10,000)e-6."""
    assert plus_minus(value, error) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.61, "0.61"),
        (216.2, "216.2"),
        (2541.7, "2,542"),
        (100_000.0, "100,000"),
        (1e25, "1e+25"),
        (1e-9, "1e-09"),
        (-3.5, "-3.5"),
        (0.99999, "1"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "unknown"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_intervals_have_the_digits_of_their_width():
    assert interval(0.60412, 0.62083) == "[0.604, 0.621]"
    assert interval(2403.0, 2688.0) == "[2,400, 2,690]"
    assert interval(0.3, 0.3) == "[0.3, 0.3]"
    assert interval(1.2e21, 3.4e21) == "[1.2e+21, 3.4e+21]"
    assert "inf" in interval(0.4, math.inf)


def test_ends_that_lie_a_factor_apart_have_three_digits_each():
    """The width of such an interval is that of its upper end: the lower one would be rounded to nothing."""
    assert interval(1462.3, 12_683.0) == "[1,460, 12,700]"
    assert interval(0.91234, 47.123) == "[0.912, 47.1]"
    assert interval(12.3456, 98_765_432.0) == "[12.3, 9.88e+07]"
    assert interval(2000.0, 4000.0) == "[2,000, 4,000]", "a factor of two is still a width"
    assert interval(0.0, 12_683.0) == "[0, 12,700]", "nothing is a factor above zero"
    assert interval(0.012, 0.6123) == "[0.01, 0.61]", "pass rates keep the decimals of their width"


def test_robust_error_is_the_sd_of_a_normal_and_outliers_do_not_move_it():
    z = np.random.default_rng(0).normal(0, 2.0, 20_000)
    assert robust_error(z) == pytest.approx(2.0, rel=0.03)
    z[:100] = 1e9
    assert robust_error(z) == pytest.approx(2.0, rel=0.05)


def test_tables():
    assert text_table([["a", "1"], ["long", "22"]], ["", "n"]) == "         n\n  a      1\n  long  22"
    html = html_table([["<b>", "1"]], ["x & y", "n"], "t < u", ["note > here"])
    assert "&lt;b&gt;" in html
    assert "x &amp; y" in html
    assert "t &lt; u" in html
    assert "note &gt; here" in html


def test_the_printed_fit():
    fit = FITS["trace"]()
    lines = str(fit).splitlines()
    assert lines[0] == f"identified [run7]: {fit.reason}"
    assert [line.split()[0] for line in lines[2:6]] == ["A", "B", "C_mid", "R0"]
    assert plus_minus(fit.A, fit.robust_error["A"]) in lines[2]
    assert interval(*fit.confidence_interval["A"]) in lines[2]
    assert "GPU-hours" in lines[4]
    assert lines[5].endswith("anchored")
    assert "68 points, 1,513 to 16,000 GPU-hours, 6 left out (min_compute 1,500)" in lines[6]
    assert len(lines) == 7
    assert str(FITS["default"]()).splitlines()[0] == f"identified: {fit.reason}", "a fit without a name"


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
    assert f"<b>identified [run7]: {fit.reason}</b>" in html.replace("&#x27;", "'")
    for name in ("A", "B", "C_mid", "R0"):
        assert f"<td>{name}</td>" in html


def test_failed_fits_are_false_and_say_why():
    failed = FailedFit(name="run3", error="too few points")
    assert not failed
    assert str(failed) == "run3: no fit: too few points"
    assert failed.to_dict() == {"run": "run3", "error": "too few points"}


def test_every_error_is_a_value_error():
    assert issubclass(RLScalingError, ValueError)
    assert issubclass(FitError, RLScalingError)
