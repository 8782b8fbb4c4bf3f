"""Tests of `rlscaling/forecasting/allocate.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.scalerl import RUN, TRUTH
from rlscaling import FitError, Trace, allocate, fit_sigmoid, fit_trace, plan, refit
from rlscaling.forecasting.allocate import Allocation


def test_shares_follow_the_rule_of_chen() -> None:
    """Three recipes, leader first: shares of the others as (error / gap)^2, the leader's by its root."""
    from rlscaling.forecasting.allocate import _shares

    error = np.array([0.01, 0.02, 0.01])
    found = _shares(np.array([0.6, 0.56, 0.58]), error, np.array([0.8, 0.1, 0.1]))
    w = np.array([0.0, (0.02 / 0.04) ** 2, (0.01 / 0.02) ** 2])
    w[0] = 0.01 * np.sqrt(np.sum((w / error) ** 2))
    assert found == pytest.approx(w / w.sum())
    assert _shares(np.array([0.6, 0.5]), error[:2], np.array([0.99, 0.01])).tolist() == [1.0, 0.0]


def test_allocate_gives_nothing_to_runs_off_the_law() -> None:
    C, rng = np.arange(0.0, 16_001.0, 400.0), np.random.default_rng(0)
    noise = 0.005 * rng.standard_normal((2, len(C)))
    flat, falling = fit_trace(Trace(C, 0.4 + noise[0])), fit_trace(Trace(C, 0.6 - 0.2 * C / 16_000 + noise[1]))
    split = allocate({"a": fit_trace(RUN), "flat": flat, "down": falling}, 1e4, rng=0)
    assert {s.recipe: s.compute for s in split.shares} == {"a": pytest.approx(1e4), "flat": 0.0, "down": 0.0}
    with pytest.raises(FitError, match="every run is flat, falling or no sigmoid"):
        allocate({"flat": flat, "down": falling}, 1e4)
    assert "buy" not in str(plan(falling, rng=0))


def test_allocate_drops_the_hopeless_and_refuses_bad_input() -> None:
    fits = {"good": fit_trace(RUN), "bad": fit_trace(Trace(RUN.compute, 0.5 * RUN.pass_rate))}
    found = allocate(fits, 10_000, compute=32_000, rng=0)
    assert found.headline == "extend good by 10,000 GPU-hours; drop bad"
    assert found.to_dict()["shares"][1]["compute"] == 0.0
    assert str(found).startswith("extend good")
    with pytest.raises(FitError, match="two recipes or more"):
        allocate({"good": fits["good"]}, 10_000)
    with pytest.raises(FitError, match="budget is a positive"):
        allocate(fits, -1.0)
    with pytest.raises(FitError, match="one unit"):
        allocate(fits | {"t": refit(fits["good"], compute_unit="steps", min_compute=0)}, 10_000)


def test_bug_a_flat_run_that_stands_higher_is_not_dropped() -> None:
    """A run at 0.90 throughout was dropped, and those that end at 0.60 called the best."""
    C = np.arange(0, 16_001, 400.0)
    noise = np.random.default_rng(0).normal(0, 0.004, (3, len(C)))
    good, mid = (TRUTH.predict(C) - 0.02 * k * (C / C[-1]) + noise[k] for k in range(2))
    fits = {"good": fit_sigmoid(C, good), "mid": fit_sigmoid(C, mid)}
    alone = allocate(fits, 10_000, rng=0)
    found = allocate(fits | {"top": fit_sigmoid(C, 0.9 + noise[2])}, 10_000, rng=0)
    top = next(share for share in found.shares if share.recipe == "top")
    assert top.stands_above
    assert (top.compute, top.best > 0.99) == (0.0, True)
    assert top.pass_rate == pytest.approx(0.9, abs=0.003)
    assert found.headline.startswith("the others may never pass top (flat) at 0.9")
    assert "drop top" not in str(found)
    assert "flat, keep" in str(found)
    assert all(share.compute == compute_of(found, share.recipe) for share in alone.shares)
    dead = allocate(fits | {"dead": fit_sigmoid(C, 0.1 + noise[2])}, 10_000, rng=0)
    assert dead.headline.endswith("drop mid, dead")


def compute_of(allocation: Allocation, recipe: str) -> float:
    return next(share.compute for share in allocation.shares if share.recipe == recipe)


def test_a_run_with_a_few_bad_evaluations_takes_part_without_them() -> None:
    C = np.arange(0, 16_001, 400.0)
    y = TRUTH.predict(C) + np.random.default_rng(3).normal(0, 0.004, len(C))
    y[30] = 0.05
    other = fit_sigmoid(C, TRUTH.predict(C) - 0.05 * (C / C[-1]) + np.random.default_rng(4).normal(0, 0.004, len(C)))
    found = allocate({"glitch": fit_sigmoid(C, y), "other": other}, 10_000, rng=0)
    assert found.headline.startswith("extend glitch by")
    assert "note: glitch takes part without the evaluation at 12000 GPU-hours" in str(found)
