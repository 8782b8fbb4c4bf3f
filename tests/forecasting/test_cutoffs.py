"""Tests of `rlscaling/forecasting/cutoffs.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.forecast_fits import FIT, TRACE
from helpers.scalerl import C, P
from rlscaling import RLScalingError, cutoff_sensitivity, fit_sigmoid, fit_trace
from rlscaling.datasets import simulate


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
    with pytest.raises(RLScalingError, match="min_compute is 'early': not a series of numbers"):
        cutoff_sensitivity(TRACE, "early")
    assert "leave no range" in cutoff_sensitivity(TRACE, [-1.0]).rows[0]["error"]
