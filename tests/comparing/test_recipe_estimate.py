"""Tests of `rlscaling/comparing/recipe_estimate.py`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from helpers.recipe_fits import LONG, SCALERL, C, fitted, noisy
from rlscaling import bootstrap, compare, fit_sigmoid
from rlscaling.comparing.recipe_estimate import Scope
from rlscaling.solver.intervals import half_width_68


def seeds(A, n, start, spread=0.0, compute=C):
    rng = np.random.default_rng(start)
    ceilings = A + spread * rng.standard_normal(n)
    return [fitted((a, 1.92, 2542.0, 0.35), np.append(start, j), compute=compute) for j, a in enumerate(ceilings)]


def test_several_seeds_are_judged_by_their_spread():
    long = {"x": seeds(0.61, 3, 13, 0.015, LONG), "y": seeds(0.62, 3, 23, 0.015, LONG)}  # each A is known well
    found = compare(long, rng=0)
    assert found.spread is not None
    assert found.spread.dof == 4
    x = found.recipe("x")
    assert half_width_68(x.ceilings(Scope.RECIPE)) > 1.3 * half_width_68(x.draws[:, :, 0].mean(axis=0))
    assert "A differs between seeds" in str(found)
    assert found.to_frame().loc["x", "seeds"] == 3
    A, B = (found.recipe(name) for name in "xy")
    runs_alone = np.mean(A.draws[:, :, 0].mean(axis=0) > B.draws[:, :, 0].mean(axis=0))
    assert abs(found.A_pairs.p_greater[0] - 0.5) < abs(runs_alone - 0.5)  # the seeds say less than their runs seem to


@pytest.mark.slow
def test_equal_recipes_with_three_seeds_are_seldom_called_different():
    called = 0
    for k in range(60):
        found = compare({"x": seeds(0.61, 3, [11, k], 0.015), "y": seeds(0.61, 3, [12, k], 0.015)}, rng=k, margin=0.001)
        called += found.pair_verdict("x", "y") in ("higher", "lower")
    assert called <= stats.binom.ppf(0.999, 60, 0.05)


def test_one_seed_takes_the_papers_spread(comparison):
    assert comparison.spread is None
    assert np.all(comparison.recipes[0].spread == 0.015)
    assert "sd 0.015 of A, assumed; no recipe has two runs" in str(comparison)


def test_another_spread_may_be_given(three, comparison):
    calm = compare(three, rng=0, seed_sd=0.0)
    assert calm.probability_best(new_run=True) == calm.best == comparison.best


def test_seeds_of_which_one_is_a_misfit_know_no_ceiling():
    good, y = seeds(0.61, 1, 30), noisy(SCALERL, 31)
    bad = fit_sigmoid(C, y + 0.05 * np.sin(np.arange(len(C)) / 3))
    assert bad.verdict == "misfit"
    found = compare({"x": [*good, bad], "y": seeds(0.5, 1, 32)}, rng=0)
    assert found.recipe("x").verdict == "misfit"
    assert found.pair_verdict("x", "y") == "undecided"


@pytest.mark.parametrize("times", [0.5, 1.0, 2.0, 30.0])
def test_bug_a_recipe_is_known_as_well_as_its_run(three, times):
    """Within the data the interval was twice as wide as that of `extrapolate`: the drift yet to come was in it."""
    at = times * three["slow"].compute_range[1]
    recipe = compare(three, rng=0, shared_R0=False).recipe("slow")
    alone = bootstrap(three["slow"], rng=0).curves(at)[:, 0]
    together = recipe.curves(np.array([[at]]), Scope.RECIPE)[:, 0]
    assert half_width_68(together) == pytest.approx(half_width_68(alone), rel=0.15)
    assert np.median(together) == pytest.approx(np.median(alone), abs=0.2 * half_width_68(alone))
