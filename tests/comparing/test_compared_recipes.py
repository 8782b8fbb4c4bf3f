"""Tests of `rlscaling/comparing/compared_recipes.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.recipe_fits import LONG, fitted
from rlscaling import FitError, compare, fit_sigmoid


def test_names_that_are_not_there(comparison):
    with pytest.raises(FitError, match="'nope' is none of the compared recipes: slow, fast, like"):
        comparison.pair_verdict("nope", "slow")
    with pytest.raises(FitError, match="'slow' is compared with itself"):
        comparison.probability_better("slow", "slow")
    with pytest.raises(FitError, match="on='b' is unknown"):
        comparison.pair_verdict("slow", "fast", on="b")
    with pytest.raises(FitError, match="needs two recipes or more"):
        comparison.with_common_ceiling("slow")


def test_one_run_each_is_decided_by_new_runs(three):
    found, calm = compare(three, rng=0), compare(three, rng=0, seed_sd=0.005)
    assert found.certainty == min(found.best["slow"], found.probability_best(new_run=True)["slow"])
    assert (found.decided, calm.decided) == (found.certainty >= 0.95, True)
    assert found.headline.startswith("undecided: slow is most likely best")
    assert calm.headline.startswith("decided: slow is best")


def test_equal_recipes_of_one_run_each_are_seldom_decided():
    """Seeds that differ by the paper's spread gave a decided headline in 72 % of comparisons of equal recipes."""
    rng, decided = np.random.default_rng(7), 0
    for k in range(20):
        A = 0.61 + 0.015 * rng.standard_normal(2)
        fits = {name: fitted((a, 1.92, 2542.0, 0.35), [k, j]) for j, (name, a) in enumerate(zip("xy", A, strict=True))}
        decided += compare(fits, rng=k, n_resamples=200).decided
    assert decided <= 4  # of 20 at 10 %: the 99.9 % point is 6


def test_a_run_ahead_so_far_is_not_bet_against():
    """A rise that is far from its ceiling may overtake; that is no ground for a decision."""
    rng, C = np.random.default_rng(0), np.arange(0.0, 6001.0, 200.0)
    ahead = 0.3 + 0.2 / (1 + (500.0 / np.maximum(C, 1)) ** 2) + rng.normal(0, 0.004, len(C))
    late = 0.3 + 0.6 / (1 + (6500.0 / np.maximum(C, 1)) ** 2.5) - 0.12 * (C / 6000) ** 2
    fits = {"ahead": fit_sigmoid(C, ahead), "late": fit_sigmoid(C, late + rng.normal(0, 0.004, len(C)))}
    found = compare(fits, rng=0, seed_sd=0.003)
    assert found.leader == "late"
    assert found.ahead_so_far == ("ahead",)
    assert not found.decided
    assert found.headline.startswith("undecided: ahead stands 0.05")


def test_a_few_bad_evaluations_are_left_out_and_named():
    """`low` was "decided best" while `glitch`, with one evaluation logged as .05, ended .10 higher."""
    rng, C = np.random.default_rng(1), np.arange(0.0, 16_001.0, 240.0)
    high, low = (
        0.35 + g / (1 + (2500.0 / np.maximum(C, 1)) ** 1.9) + rng.normal(0, 0.004, len(C)) for g in (0.26, 0.15)
    )
    high[36] = 0.05
    assert str(fit_sigmoid(C, high).verdict) == "misfit"
    found = compare({"glitch": fit_sigmoid(C, high), "low": fit_sigmoid(C, low)}, rng=0)
    assert found.leader == "glitch"
    assert found.decided
    assert any("glitch takes part without the evaluation at 8640 GPU-hours (pass rate 0.05" in n for n in found.notes)


def test_one_misfit_seed_of_four_is_left_out():
    wave = 0.05 * np.sin(np.arange(len(LONG)) / 3)
    good = [fitted((0.61, 1.92, 2542.0, 0.35), [5, j], compute=LONG) for j in range(3)]
    bad = fit_sigmoid(LONG, good[0].data.pass_rate[: len(LONG)] + wave)
    assert str(bad.verdict) == "misfit"
    found = compare({"x": [*good, bad], "y": fitted((0.5, 1.9, 2500.0, 0.35), 9, compute=LONG)}, rng=0)
    assert found.recipe("x").n_seeds == 3
    assert "x, seed 4 is no sigmoid: left out of x" in found.notes


def test_runs_without_a_curve_are_named_in_the_first_line(three):
    rng = np.random.default_rng(4)
    dead = fit_sigmoid(LONG, 0.05 + rng.normal(0, 0.003, len(LONG)))
    down = fit_sigmoid(LONG, 0.5 - 0.2 * LONG / LONG[-1] + rng.normal(0, 0.003, len(LONG)))
    headline = compare({**three, "dead": dead, "down": down}, rng=0).headline
    assert "not extrapolated: dead (flat at 0.05" in headline
    assert "down (falling at 0.3" in headline


def test_B_and_C_mid_are_tested_themselves(three, comparison):
    assert comparison.pair_verdict("slow", "fast", on="C_mid") == "higher"
    assert comparison.pair_verdict("fast", "like", on="C_mid") == "undecided"
    assert "C_mid of slow is higher than that of fast: ratio" in str(comparison)
    apart = compare(three, rng=0, shared_R0=False)
    assert apart.pair_verdict("slow", "fast", on="C_mid") == "undecided"  # B and C_mid depend on R0


def test_a_decision_is_never_beside_equal():
    fits = {name: fitted((A, 1.9, 2500.0, 0.35), 1, compute=LONG) for name, A in (("x", 0.6), ("y", 0.625))}
    found = compare(fits, rng=0, seed_sd=0.0001, margin=0.06)
    assert found.pair_verdict("x", "y", on="R") == "equal"
    assert found.certainty >= 0.95
    assert found.as_good == ("x",)
    assert not found.decided
    assert found.headline.startswith("undecided: y and x are equal within 0.06 at 100,000 GPU-hours; y is most likely")
