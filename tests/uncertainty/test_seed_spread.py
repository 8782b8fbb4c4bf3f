"""The spread between seeds: recovery, coverage, and a balanced one-way analysis as oracle."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from rlscaling import FitError, compare, datasets, fit_sigmoid, fit_trace, seed_spread
from rlscaling.uncertainty.seed_spread import spread_of


def spread(values, errors, recipe):
    names = tuple(f"s{k}" for k in range(len(values)))
    recipes = {"abc"[k]: [j for j, of in enumerate(recipe) if of == k] for k in sorted(set(recipe))}
    return spread_of(recipes, names, np.array(values), np.array(errors))


def test_without_errors_it_is_the_pooled_variance_and_its_chi_square_interval():
    # with errors of 0, Q = SS / tau^2: the textbook interval of a variance
    rng = np.random.default_rng(0)
    values, recipe = rng.normal(0.6, 0.01, 9), [0, 0, 0, 1, 1, 1, 2, 2, 2]
    found = spread(values, np.full(9, 1e-9), recipe)
    ss = sum(np.sum((values[k : k + 3] - values[k : k + 3].mean()) ** 2) for k in (0, 3, 6))
    assert found.dof == 6
    assert found.sd == pytest.approx(np.sqrt(ss / 6), rel=1e-6)
    low, high = np.sqrt(ss / stats.chi2.ppf([0.975, 0.025], 6))
    np.testing.assert_allclose(found.confidence_interval, (low, high), rtol=1e-6)


def test_differences_that_the_errors_explain_are_no_spread():
    found = spread([0.610, 0.611, 0.609], [0.01, 0.01, 0.01], [0, 0, 0])
    assert found.sd == 0.0
    assert found.confidence_interval[0] == 0.0
    assert np.mean(found.draw(np.random.default_rng(0), 1000) == 0.0) > 0.5


def test_interval_covers_with_unequal_errors():
    tau, hits, n = 0.01, 0, 400
    errors, recipe = np.array([0.002, 0.004, 0.009, 0.003, 0.006, 0.012]), [0, 0, 0, 1, 1, 1]
    rng = np.random.default_rng(1)
    for _ in range(n):
        values = 0.6 + tau * rng.standard_normal(6) + errors * rng.standard_normal(6)
        low, high = spread(values, errors, recipe).confidence_interval
        hits += low <= tau <= high
    assert stats.binom.ppf(1e-4, n, 0.95) <= hits <= stats.binom.ppf(1 - 1e-4, n, 0.95)


def test_draws_agree_with_the_interval():
    found = spread([0.600, 0.612, 0.625, 0.590], [0.003] * 4, [0, 0, 1, 1])
    draws = found.draw(np.random.default_rng(2), 20_000)
    np.testing.assert_allclose(np.quantile(draws, [0.025, 0.975]), found.confidence_interval, rtol=0.1)


def test_pooling_narrows_the_interval():
    one = spread([0.60, 0.61, 0.62], [0.002] * 3, [0, 0, 0])
    two = spread([0.60, 0.61, 0.62, 0.50, 0.51, 0.52], [0.002] * 6, [0, 0, 0, 1, 1, 1])
    assert two.sd == pytest.approx(one.sd, rel=1e-6)
    assert np.diff(two.confidence_interval) < 0.5 * np.diff(one.confidence_interval)


def test_three_seeds_table_as_in_the_papers_figure_8a():
    truth = datasets.table1()["scalerl"]
    C = np.arange(0, 75) * 216.2
    runs = [datasets.simulate(truth, compute=C, rho=0.5, wander_sd=0.004, rng=k, name=f"seed {k}") for k in range(3)]
    found = seed_spread({"scalerl": [fit_trace(run) for run in runs], "single": [fit_trace(runs[0])]})
    frame = found.to_frame()
    assert list(frame.index) == ["seed 0", "seed 1", "seed 2"]
    assert set(frame["recipe"]) == {"scalerl"}
    assert frame["from_mean"].sum() == pytest.approx(0.0, abs=1e-12)
    assert found.confidence_interval[0] < 0.003
    assert str(found).startswith("A differs between seeds with sd")
    assert "<table>" in found._repr_html_()
    assert len(json.loads(json.dumps(found.to_dict(), allow_nan=False))["seeds"]) == 3


def test_one_seed_each_says_nothing():
    fit = fit_trace(datasets.load_demo()["scalerl"])
    with pytest.raises(FitError, match="no recipe has two seeds"):
        seed_spread({"a": [fit]})
    short = fit_sigmoid(np.arange(1, 7) * 500.0, np.linspace(0.3, 0.5, 6), min_compute=0)
    with pytest.raises(FitError, match="a, seed 2: 6 fitted points are too few"):
        seed_spread({"a": [fit, short]})


def test_a_seed_that_does_not_know_its_ceiling_says_nothing_of_the_spread() -> None:
    """A run that ends before its bend may put A anywhere up to 1; two of them differ by what neither has seen."""
    truth = datasets.table1()["scalerl"]
    whole = [datasets.simulate(truth, compute=range(0, 16001, 200), rng=seed) for seed in range(3)]
    early = [datasets.simulate(truth, compute=range(0, 3001, 100), rng=seed) for seed in range(3)]
    known, unknown = [fit_trace(run) for run in whole], [fit_trace(run) for run in early]
    assert all(fit.verdict == "ceiling-not-identified" for fit in unknown)
    alone, both = seed_spread({"whole": known}), seed_spread({"whole": known, "early": unknown})
    assert (both.sd, both.confidence_interval, both.recipes) == (alone.sd, alone.confidence_interval, ("whole",))
    with pytest.raises(FitError, match="no recipe has two seeds whose A is known"):
        seed_spread({"early": unknown})
    assert compare({"a": unknown, "b": known[0]}).spread is None
