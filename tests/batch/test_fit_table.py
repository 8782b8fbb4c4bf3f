"""Tests of `rlscaling/batch/fit_table.py`."""

from __future__ import annotations

import numpy as np

import rlscaling
from helpers.fit_tables import FEW, SMALL
from rlscaling import bootstrap, extrapolate, fit_many, fit_trace


def test_a_row_is_what_fit_bootstrap_and_extrapolate_say_of_that_run_alone():
    found = fit_many(FEW, compute=[30_000, 1e5], n_resamples=60, rng=7, confidence_level=0.9, min_compute=1000.0)
    fit = fit_trace(FEW["run02"], min_compute=1000.0)
    boot = bootstrap(fit, n_resamples=60, rng=7, confidence_level=0.9)
    forecast = extrapolate(fit, [30_000, 1e5], bootstrap=boot)
    row = found.rows[2]
    assert (row["run"], row["verdict"], row["reason"]) == ("run02", str(fit.verdict), fit.reason)
    assert (row["A"], row["B"], row["C_mid"], row["R0"]) == fit.params.as_tuple()
    for name in ("A", "B", "C_mid", "R0"):
        assert (row[f"{name}_low"], row[f"{name}_high"]) == boot.confidence_interval[name]
        assert row[f"{name}_se"] == boot.half_width_68[name]
    assert (row["A_new_run_low"], row["A_new_run_high"]) == boot.confidence_interval_new_run["A"]
    assert row["R_100000"] == forecast.pass_rate[1]
    assert (row["R_30000_low"], row["R_30000_high"]) == forecast.confidence_interval.at(0)
    assert (row["R_100000_new_run_low"], row["R_100000_new_run_high"]) == forecast.confidence_interval_new_run.at(1)
    assert (row["n_points"], row["compute_first"], row["compute_last"]) == (fit.n_points, *fit.compute_range)
    assert (row["min_compute"], row["seed"], row["version"]) == (1000.0, 7, rlscaling.__version__)
    assert row["notes"] == list(forecast.notes)


def test_a_row_does_not_depend_on_the_other_runs():
    together = fit_many(FEW, **SMALL)
    (one,) = fit_many({"run02": FEW["run02"]}, **SMALL).rows
    assert together.rows[2] == one


def test_too_few_points_for_an_interval_have_a_row_without_one():
    short = FEW["run00"].up_to(4000.0)
    (row,) = fit_many({"short": short}, compute=8000, min_compute=2000.0, **SMALL).rows
    assert row["n_points"] == 6
    assert row["error"] is None
    assert (row["A_low"], row["R_8000_low"], row["R_8000_supported"]) == (None, None, False)
    assert row["R_8000"] == fit_trace(short, min_compute=2000.0).predict(8000.0)


def test_the_frame_has_numbers_where_there_are_numbers():
    frame = fit_many(FEW, compute=1e5, **SMALL).to_frame()
    assert list(frame.index) == list(FEW)
    assert frame["A_low"].dtype == frame["R_100000"].dtype == float
    assert np.isnan(frame.loc["run01", "A"])
    assert frame.loc["run00", "A_low"] < frame.loc["run00", "A"] < frame.loc["run00", "A_high"]
