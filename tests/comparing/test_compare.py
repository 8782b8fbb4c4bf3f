"""Comparisons: known answers, calibration by simulation, lmfit, seeds, and what is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from helpers.recipe_fits import SCALERL, SLOW, C, fitted, noisy
from rlscaling import FitError, compare, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid

FIELDS = ("A", "B", "C_mid", "R0")


def test_noise_free_recipes_come_back_at_one_R0():
    truths = {"x": SCALERL, "y": (0.645, 1.70, 10909.0, 0.35), "z": (0.585, 2.44, 2542.0, 0.35)}
    found = compare({name: fitted(p) for name, p in truths.items()}, rng=0, compute=50_000)
    for name, truth in truths.items():
        np.testing.assert_allclose([found.recipe(name).summary[k] for k in FIELDS], truth, rtol=1e-6)
        assert found.recipe(name).share_compute(0.9)[0] == pytest.approx(truth[2] * 9 ** (1 / truth[1]), rel=1e-6)
    assert pytest.approx(0.35, abs=1e-7) == found.R0
    assert found.leader == "y"
    assert found.pair_verdict("y", "z") == "higher"


def test_what_the_three_recipes_say(comparison):
    assert comparison.leader == "slow"
    assert comparison.best["slow"] > 0.95
    assert comparison.pair_verdict("slow", "fast") == "higher"
    assert comparison.pair_verdict("fast", "slow") == "lower"
    assert comparison.pair_verdict("fast", "like") == "equal"
    assert comparison.probability_better("slow", "fast") + comparison.probability_better("fast", "slow") == 1.0
    assert comparison.probability_better("slow", "fast", compute=8000) < 0.05
    assert comparison.probability_better("slow", "fast", new_run=True) < comparison.probability_better("slow", "fast")
    crossing = comparison.crossover("fast", "slow")
    truth = compare({"fast": fitted(SCALERL), "slow": fitted(SLOW)}, rng=0)
    low, high = crossing.confidence_interval
    assert low < truth.crossover("fast", "slow").compute < high


def test_runs_that_are_no_sigmoid_are_shown_and_never_decided(three):
    rng = np.random.default_rng(81)
    odd = {
        "flat": 0.4 + rng.normal(0, 0.004, len(C)),
        "falling": 0.6 - 0.1 * C / C[-1] + rng.normal(0, 0.004, len(C)),
        "misfit": noisy(SCALERL, 82) + 0.05 * np.sin(np.arange(len(C)) / 3),
    }
    fits = {name: fit_sigmoid(C, y) for name, y in odd.items()}
    assert [str(fit.verdict) for fit in fits.values()] == ["flat", "falling", "misfit"]
    found = compare({**three, **fits}, rng=0)  # without a warning: where they begin says nothing of the base model
    for name in odd:
        assert found.pair_verdict(name, "slow") == "undecided"
        assert found.pair_verdict(name, "slow", on="R") == "undecided"
        assert math.isnan(found.best[name])
    assert sum(p for p in found.best.values() if p == p) == pytest.approx(1.0)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["probability_best"]["flat"] is None
    assert "flat is not extrapolated: no rise beyond the noise" in str(found)
    assert "slow - flat" not in str(found)
    only = compare(fits, rng=0)
    assert sum(only.best.values()) == pytest.approx(1.0)


def calibration(n_pairs):
    """Stated probability that x beats y at 100k and whether it does, for random pairs of runs of 8k to 16k."""
    stated, actual = [], []
    for k in range(n_pairs):
        rng = np.random.default_rng([7, k])
        truths = [(rng.uniform(0.52, 0.70), rng.uniform(1.5, 2.5), rng.uniform(1800, 4000), 0.3) for _ in range(2)]
        ends = rng.integers(38, 75, 2)
        fits = {n: fitted(p, [k, j], compute=C[:e]) for j, (n, p, e) in enumerate(zip("xy", truths, ends, strict=True))}
        stated.append(compare(fits, rng=k, n_resamples=200).probability_better("x", "y"))
        actual.append(sigmoid(1e5, *truths[0]) > sigmoid(1e5, *truths[1]))
    p, hit = np.array(stated), np.array(actual)
    return np.maximum(p, 1 - p), np.where(p >= 0.5, hit, ~hit)


def test_stated_probabilities_hold():
    stated, right = calibration(24)
    sure = stated > 0.9
    assert sure.sum() >= 10
    assert right[sure].sum() >= stats.binom.ppf(1e-3, sure.sum(), stated[sure].mean() - 0.03)


@pytest.mark.slow
def test_stated_probabilities_hold_in_many_pairs():
    stated, right = calibration(200)
    for low, high in ((0.9, 0.975), (0.975, 1.01)):
        inside = (stated >= low) & (stated < high)
        error = math.sqrt(0.25 / inside.sum()) if inside.any() else 1.0
        assert abs(stated[inside].mean() - right[inside].mean()) <= 0.07 + error


def test_runs_off_the_law_decide_nothing(three):
    C, rng = np.arange(0.0, 16_001.0, 400.0), np.random.default_rng(0)
    noise = 0.005 * rng.standard_normal((2, len(C)))
    off = {"flat": 0.4 + noise[0], "down": 0.6 - 0.2 * C / 16_000 + noise[1]}
    fits = {name: fit_sigmoid(C, y) for name, y in off.items()}
    alone = compare(fits, rng=0, n_resamples=200)
    assert not alone.decided
    assert str(alone).startswith("undecided: every run is flat, falling or no sigmoid")
    assert alone.to_dict()["decided"] is False
    with_them, without = compare(three | fits, rng=0, n_resamples=200), compare(three, rng=0, n_resamples=200)
    assert with_them.R0 == pytest.approx(without.R0, abs=1e-12)
    assert with_them.recipe("slow").summary == pytest.approx(without.recipe("slow").summary, rel=1e-9)


def test_order_and_company_do_not_matter(three, comparison):
    turned = compare(dict(reversed(three.items())), rng=0)
    for name in three:
        assert turned.best[name] == pytest.approx(comparison.best[name], abs=1e-12)
        np.testing.assert_allclose(turned.recipe(name).draws, comparison.recipe(name).draws, rtol=1e-9)


def test_unit_of_compute_does_not_matter(three, comparison):
    def scaled(fit, factor):
        return fit_sigmoid(fit.data.compute * factor, fit.data.pass_rate, min_compute=1500 * factor)

    found = compare({name: scaled(fit, 1024.0) for name, fit in three.items()}, rng=0, compute=1024e5)
    assert found.best == pytest.approx(comparison.best, abs=0.003)
    assert found.recipe("slow").summary["C_mid"] == pytest.approx(1024 * comparison.recipe("slow").summary["C_mid"])


def test_unbounded_scores_are_compared():
    def score(A, seed):
        y = sigmoid(C, A, 1.9, 2500.0, -2.0) + np.random.default_rng(seed).normal(0, 0.02, len(C))
        return fit_sigmoid(C, y, A_max=math.inf)

    found = compare({"x": score(3.0, 1), "y": score(2.0, 2)}, rng=0)
    assert found.pair_verdict("x", "y") == "higher"
    assert found.margin == pytest.approx(0.02 * np.ptp(score(3.0, 1).data.pass_rate[C >= 1500]))


@pytest.mark.slow
def test_a_thousand_runs_with_a_progress_bar():
    rng = np.random.default_rng(4)
    compute = np.arange(0, 33) * 500.0
    fits = {
        f"r{k}": fit_sigmoid(compute, noisy((rng.uniform(0.5, 0.65), 1.9, 2500.0, 0.35), k, compute=compute))
        for k in range(1000)
    }
    seen = []
    found = compare(fits, rng=0, n_resamples=200, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2000, 2000)
    assert "960 more recipes" in str(found)


def test_options_out_of_range(three):
    for options, message in (
        ({"margin": 0}, "margin=0 is not a positive number"),
        ({"n_resamples": 10}, "n_resamples=10 must be a whole number of 100 or more"),
        ({"confidence_level": 95}, "confidence_level=95 is not between 0 and 1"),
        ({"compute": -1}, r"compute\[0\] is -1: a budget is a positive"),
        ({"rng": -1}, "rng=-1 is not a seed"),
        ({"seed_sd": -0.1}, "seed_sd=-0.1 must be a finite number of 0 or more"),
    ):
        with pytest.raises(FitError, match=message):
            compare(three, **options)


def test_too_few_draws_for_the_level_are_noted():
    fits = {name: fit_sigmoid(C, noisy(SCALERL, seed)) for seed, name in enumerate("ab")}
    found = compare(fits, rng=0, n_resamples=100, confidence_level=0.999)
    assert any("100 replicates are too few for a 99.9 % interval" in note for note in found.notes)


def _at_level(level, seed=0):
    fit = fit_sigmoid(C, level + np.random.default_rng(seed).normal(0, 0.004, len(C)))
    assert str(fit.verdict) == "flat"
    return fit


def test_bug_no_bet_against_a_flat_run_that_stands_higher():
    """A run at 0.90 throughout was beaten, 'decided, probability > 0.99', by one that ends at 0.60."""
    found = compare({"good": fitted(SCALERL, 1), "top": _at_level(0.9), "dead": _at_level(0.1, 1)}, rng=0)
    assert not found.decided
    assert found.best["good"] < 0.01
    assert found.standing_above == ("top",)
    assert found.headline.startswith("undecided: top (flat) stands at 0.90")
    assert "of the others good is most likely best" in found.headline
    record = found.to_dict()
    assert (record["decided"], record["standing_above"]) == (False, ["top"])
    lower = compare({"good": fitted(SCALERL, 1), "dead": _at_level(0.1, 1)}, rng=0)
    assert lower.decided
    assert lower.standing_above == ()


@pytest.mark.parametrize("shared_R0", [True, False])
@pytest.mark.parametrize("level", [0.0, 0.10, 0.90])
def test_bug_a_flat_run_keeps_its_own_level(level, shared_R0):
    """A run at 0.10 was given a pass rate of 0.348, because the R0 of the others was forced on it."""
    flat = fit_sigmoid(C, np.zeros(len(C))) if level == 0.0 else _at_level(level)
    found = compare({"good": fitted(SCALERL, 1), "x": flat}, rng=0, shared_R0=shared_R0)
    row = next(row for row in found.to_dict()["recipes"] if row["recipe"] == "x")
    low, high = row["extrapolation"][0]["ci"]
    assert low <= level + 1e-9
    assert high >= level - 0.003
    assert high - low < 0.01
    assert row["A"] == row["R0"] == pytest.approx(level, abs=0.002)
    assert pytest.approx(0.35, abs=0.03) == found.recipe("good").summary["R0"]
    assert f"flat, at {level:.1f}"[:9] in str(found)


def test_within_the_data_a_run_without_a_curve_is_compared_by_what_was_observed():
    found = compare({"good": fitted(SCALERL, 1), "dead": _at_level(0.35)}, rng=0, compute=float(C[-1]))
    assert found.pair_verdict("dead", "good", on="R") == "lower"
    assert compare({"good": fitted(SCALERL, 1), "dead": _at_level(0.35)}, rng=0).pair_verdict(
        "dead", "good", on="R"
    ) == "undecided"  # fmt: skip
