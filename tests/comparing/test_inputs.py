"""Tests of `rlscaling/comparing/inputs.py`."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import pytest

from helpers.recipe_fits import SCALERL, C, fitted, noisy
from rlscaling import FailedFit, FitError, RLScalingWarning, compare, datasets, fit_sigmoid


def test_what_is_not_a_comparison_is_refused(three):
    fit = three["fast"]
    refused = [
        ([fit, fit], "takes a mapping of names to fits"),
        ({}, "no recipe was given"),
        ({"a": fit}, "only a was given"),
        ({"a": fit, "b": []}, "b has no fits"),
        ({"a": fit, " a": three["slow"]}, "' a' stands for two recipes"),
        ({"a": fit, "": three["slow"]}, "stands for two recipes"),
        ({"a": fit, "b": fit}, "a and b are the same run"),
        ({"a": fit, "b": [three["slow"], fit]}, "a and b, seed 2 are the same run"),
        ({"a": fit, "b": 0.61}, "b is a float, not a fit"),
        ({"a": fit, "b": datasets.load_demo()["scalerl"]}, "b is a Trace, not a fit; fit it first"),
        ({"a": fit, "b": FailedFit("b", "one evaluation")}, "b has no fit: one evaluation"),
    ]
    for runs, message in refused:
        with pytest.raises(FitError, match=message):
            compare(runs)


def test_too_few_points_and_one_evaluation(three):
    short = fitted(SCALERL, 50, compute=C[:13])
    with pytest.raises(FitError, match="b: 6 fitted points are too few for an interval"):
        compare({"a": three["fast"], "b": short})
    one = fit_sigmoid([2000.0], [0.4], on_error="return")
    with pytest.raises(FitError, match="b has no fit: 1 evaluations are too few"):
        compare({"a": three["fast"], "b": one})


def test_mixed_units_and_scores(three):
    tokens = fit_sigmoid(C * 1e6, noisy(SCALERL, 51), compute_unit="tokens", min_compute=1.5e9)
    with pytest.raises(FitError, match="compute of a is in GPU-hours, that of b in tokens; convert"):
        compare({"a": three["fast"], "b": tokens})
    free = fit_sigmoid(C, noisy(SCALERL, 52), A_max=math.inf)
    with pytest.raises(FitError, match="pass rates and scores cannot be compared"):
        compare({"a": three["fast"], "b": free})
    other = fit_sigmoid(C * 1e6, noisy(SCALERL, 53), compute_unit="tokens", min_compute=1.5e9)
    with pytest.raises(FitError, match=r"no default budget; give compute= \(--compute\)"):
        compare({"a": tokens, "b": other})


def test_no_common_compute(three):
    late = fit_sigmoid(C[1:] + 40_000, noisy(SCALERL, 54)[1:])
    with pytest.raises(FitError, match=r"no common compute: fast ends at 32,000 GPU-hours, late begins at 40,220"):
        compare({"fast": three["fast"], "late": late})


def on_device(fit, **metadata):
    return replace(fit, metadata=dict(fit.metadata) | metadata)


def test_hours_of_other_devices_need_a_factor(three):
    runs = {"a": on_device(three["fast"], device="GB200"), "b": on_device(three["slow"], device="H100")}
    with pytest.raises(FitError, match=r"a ran on GB200, b on H100: their GPU-hours are not the same compute"):
        compare(runs)
    priced = compare(runs, device_factors={"GB200": 1.0, "H100": 0.5}, rng=0)
    plain = compare({"a": three["fast"], "b": three["slow"]}, rng=0)
    assert priced.recipe("b").summary["C_mid"] == pytest.approx(0.5 * plain.recipe("b").summary["C_mid"], rel=1e-6)
    assert priced.recipe("b").last_compute == pytest.approx(0.5 * plain.recipe("b").last_compute)
    assert priced.crossover("a", "b").compute < plain.crossover("a", "b").compute
    with pytest.raises(FitError, match="b ran on H100, and device_factors= names only GB200; add it"):
        compare(runs, device_factors={"GB200": 1.0})
    with pytest.raises(FitError, match="is -1: a factor is a positive, finite number"):
        compare(runs, device_factors={"GB200": 1.0, "H100": -1})
    with pytest.raises(FitError, match="c does not name its device"):
        compare({**runs, "c": three["like"]}, device_factors={"GB200": 1.0, "H100": 0.5})


def test_numbers_of_devices_are_a_warning_and_in_wall_hours_an_error(three):
    runs = {"a": on_device(three["fast"], n_devices=80), "b": on_device(three["slow"], n_devices=8)}
    with pytest.warns(RLScalingWarning, match="a ran on 80 devices, b on 8"):
        found = compare(runs, rng=0)
    assert any("80 devices" in note for note in found.notes)
    wall = {
        name: on_device(fit_sigmoid(C, noisy(SCALERL, k), compute_unit="wall-hours", min_compute=1500), n_devices=8 + k)
        for k, name in enumerate("ab")
    }
    with pytest.raises(FitError, match="their wall hours are not the same compute; multiply"):
        compare(wall, compute=1e5)


def test_another_base_model_is_noticed():
    fits = {"x": fitted(SCALERL, 60), "y": fitted(SCALERL, 61), "z": fitted((0.71, 1.65, 4242.0, 0.52), 62)}
    with pytest.warns(RLScalingWarning, match=r"by themselves start .*z at 0\.5\d+: another base model"):
        compare(fits, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = compare(fits, rng=0, shared_R0=False)
    assert own.R0 is None
    assert "each run has its own R0" in str(own)


def test_fixed_R0_must_be_one():
    fits = {"x": fitted(SCALERL, 63, R0=0.35), "y": fitted(SCALERL, 64, R0=0.30)}
    with pytest.raises(FitError, match=r"R0 is fixed at 0\.3 in y and at 0\.35 in x"):
        compare(fits)
    fits["y"] = fitted(SCALERL, 64)
    assert pytest.approx(0.35, abs=1e-6) == compare(fits, rng=0).R0
