"""Comparisons: known answers, calibration by simulation, lmfit, seeds, and what is refused."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from rlscaling import FailedFit, FitError, RLScalingWarning, compare, datasets, fit_sigmoid
from rlscaling.curves import sigmoid
from rlscaling.fit import model_of
from rlscaling.format import robust_error
from rlscaling.joint import Group, common_ceiling, fit_group, refit_held
from rlscaling.pairs import differences
from rlscaling.rivals import Of
from rlscaling.varpro import solve

C = np.arange(0, 75) * 216.2
SCALERL = (0.610, 1.92, 2542.0, 0.35)
FIELDS = ("A", "B", "C_mid", "R0")


def noisy(params, seed, *, compute=C, rho=0.6, sd=0.006):
    """One run: the curve, AR(1) wander, and the sampling noise of 16,000 rollouts."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(len(compute))
    for t in range(1, len(z)):
        z[t] = rho * z[t - 1] + math.sqrt(1 - rho * rho) * z[t]
    mean = sigmoid(compute, *params)
    return np.clip(mean + sd * z + np.sqrt(mean * (1 - mean) / 32000) * rng.standard_normal(len(z)), 0, 1)


def fitted(params, seed=None, *, compute=C, **options):
    y = sigmoid(compute, *params) if seed is None else noisy(params, seed, compute=compute)
    return fit_sigmoid(compute, y, **options)


@pytest.fixture(scope="module")
def three():
    """A slow horse with the higher ceiling, and two that are alike."""
    long = np.arange(0, 77) * 650.0
    return {
        "slow": fitted((0.645, 1.70, 10909.0, 0.35), 1, compute=long),
        "fast": fitted(SCALERL, 2),
        "like": fitted((0.607, 1.95, 2600.0, 0.35), 3),
    }


@pytest.fixture(scope="module")
def comparison(three):
    return compare(three, rng=0)


# --- known answers ------------------------------------------------------------------------------------------


def test_noise_free_recipes_come_back_at_one_R0():
    truths = {"x": SCALERL, "y": (0.645, 1.70, 10909.0, 0.35), "z": (0.585, 2.44, 2542.0, 0.35)}
    found = compare({name: fitted(p) for name, p in truths.items()}, rng=0, at=50_000)
    for name, truth in truths.items():
        np.testing.assert_allclose([found.rival(name).summary[k] for k in FIELDS], truth, rtol=1e-6)
        assert found.rival(name).share_compute(0.9)[0] == pytest.approx(truth[2] * 9 ** (1 / truth[1]), rel=1e-6)
    assert pytest.approx(0.35, abs=1e-7) == found.R0
    assert found.leader == "y"
    assert found.verdict("y", "z") == "higher"


def test_crossover_of_two_known_curves():
    # equal B and R0: gain_x / (1 + (m_x / C)^B) = gain_y / (1 + (m_y / C)^B) solves for C^B
    B, R0, (A_x, m_x), (A_y, m_y) = 1.8, 0.35, (0.61, 2500.0), (0.65, 9000.0)
    closed = ((A_x - R0) * m_y**B - (A_y - R0) * m_x**B) / ((A_y - R0) - (A_x - R0))
    closed **= 1 / B
    compute = np.arange(0, 60) * 800.0
    fits = {"x": fitted((A_x, B, m_x, R0), compute=compute), "y": fitted((A_y, B, m_y, R0), compute=compute)}
    crossing = compare(fits, rng=0).crossover("x", "y")
    assert crossing.compute == pytest.approx(closed, rel=1e-6)
    assert (crossing.leader_before, crossing.leader_after) == ("x", "y")
    assert crossing.probability == 1.0
    low, high = crossing.confidence_interval
    assert low <= crossing.compute * (1 + 1e-6)
    assert high >= crossing.compute * (1 - 1e-6)
    assert str(crossing).startswith("y overtakes x at")


def test_curves_that_do_not_cross_say_so():
    fits = {"x": fitted((0.65, 1.9, 2500.0, 0.35)), "y": fitted((0.60, 1.9, 2500.0, 0.35))}
    crossing = compare(fits, rng=0).crossover("y", "x")
    assert math.isinf(crossing.compute)
    assert crossing.leader_after == "x"
    assert "do not cross" in str(crossing)
    assert crossing.to_dict()["compute"] is None


def test_three_crossings_are_all_found():
    from rlscaling.crossing import find_crossover

    def wave(compute):
        return np.sin(np.log(compute / 150.0)) + 0.0 * compute

    crossing = find_crossover(("x", "y"), wave, wave, (100.0, 100.0 * math.exp(10)), 0.95, "gpu-hours")
    np.testing.assert_allclose(np.log(np.array(crossing.all_compute) / 150.0), np.pi * np.arange(0, 4), atol=1e-9)
    assert crossing.compute == crossing.all_compute[-1]


def test_compute_multiplier_of_shifted_curves_is_the_shift():
    fits = {"x": fitted((0.61, 1.92, 2000.0, 0.35)), "y": fitted((0.61, 1.92, 3000.0, 0.35))}
    found = compare(fits, rng=0)
    assert found.multiplier("x", "y", 0.5).value == pytest.approx(1.5, rel=1e-6)
    assert found.multiplier("y", "x").value == pytest.approx(1 / 1.5, rel=1e-6)
    assert found.match("x", "y").share_ratio[0.9][0] == pytest.approx(1.5, rel=1e-6)


def test_multiplier_is_infinite_where_one_never_reaches_the_target(comparison):
    times = comparison.multiplier("slow", "fast", 0.63)
    assert math.isinf(times.value)
    assert math.isinf(times.confidence_interval[1])
    assert times.to_dict()["multiplier"] is None


# --- the solver against other solvers -----------------------------------------------------------------------


def test_series_with_held_R0_and_A_fit_as_the_plain_solver_does():
    model = model_of(fitted(SCALERL, 5))
    Y = np.array([noisy(SCALERL, seed)[model.series.compute[0] <= C] for seed in range(4)])[:, -model.n :]
    for R0, A in ((0.34, None), (0.36, None), (0.35, 0.62), (0.35, 0.60)):
        problem = replace(model.problem, compute=model.series.compute, weights=model.series.weights, R0=R0, A=A)
        plain = solve(problem, Y, rtol=1e-13).draws()
        held = refit_held(model, Y, np.full(4, R0), None if A is None else np.full(4, A), point=True)
        np.testing.assert_allclose(held, plain, rtol=2e-5)


def test_A_stays_at_its_bound_when_R0_is_held():
    steep = fit_sigmoid(C, np.clip(0.3 + 0.04 * C / 1000, 0, 1)[: len(C)])
    model = model_of(steep)
    held = refit_held(model, model.series.y[None, :], np.array([0.3]), None, point=True)
    assert held[0, 0] <= 1.0 + 1e-12


def test_common_ceiling_agrees_with_lmfit(three):
    pair = compare({name: three[name] for name in ("fast", "like")}, rng=0)
    refit = pair.with_common_ceiling("fast", "like")
    group = pair.group
    A, params = common_ceiling(group.models, group.observed, np.array([pair.R0]), np.array([0.5]), point=True)
    assert refit.A == pytest.approx(float(A[0]), abs=1e-7)
    np.testing.assert_allclose(refit.B, params[:, 0, 1], rtol=1e-5)
    assert "A:" in refit.report
    assert "B_fast" in refit.report
    np.testing.assert_allclose(refit.B_shift, refit.B - refit.B_free)


def test_common_ceiling_is_stationary_in_every_draw(three):
    pair = compare({name: three[name] for name in ("fast", "like")}, rng=0, n_resamples=100)
    group, R0 = pair.group, pair.R0_draws
    series = [group.series(i) for i in range(2)]
    A, _ = common_ceiling(group.models, group.series, R0, pair.rivals[0].ceilings(Of.RECIPE))

    def cost(ceiling):
        total = np.zeros(len(ceiling))
        for model, Y in zip(group.models, series, strict=True):
            p = refit_held(model, Y, R0, ceiling)
            r = Y[:, : model.n] - sigmoid(model.series.compute[None, :], *(p[:, j : j + 1] for j in range(4)))
            total += (r * r).sum(axis=1) / model.noise.sd_long_run**2
        return total

    best = cost(A)
    for step in (-2e-3, 2e-3):
        assert np.all(cost(A + step) > best * (1 - 1e-7))


def test_own_R0_common_ceiling_of_noise_free_runs():
    fits = {"x": fitted((0.61, 1.92, 2542.0, 0.35)), "y": fitted((0.61, 2.3, 3000.0, 0.30), R0=0.30)}
    found = compare(fits, rng=0, shared_R0=False).with_common_ceiling()
    assert pytest.approx(0.61, abs=1e-7) == found.A
    np.testing.assert_allclose(found.B, [1.92, 2.3], rtol=1e-6)
    assert found.verdict("x", "y") == "undecided"
    assert found.lines() == ["B is not compared: each run has its own R0"]


# --- verdicts -----------------------------------------------------------------------------------------------


def test_what_the_three_recipes_say(comparison):
    assert comparison.leader == "slow"
    assert comparison.best["slow"] > 0.95
    assert comparison.verdict("slow", "fast") == "higher"
    assert comparison.verdict("fast", "slow") == "lower"
    assert comparison.verdict("fast", "like") == "equal"
    assert comparison.probability_better("slow", "fast") + comparison.probability_better("fast", "slow") == 1.0
    assert comparison.probability_better("slow", "fast", at=8000) < 0.05
    assert comparison.probability_better("slow", "fast", new_run=True) < comparison.probability_better("slow", "fast")
    crossing = comparison.crossover("fast", "slow")
    truth = compare({"fast": fitted(SCALERL), "slow": fitted((0.645, 1.70, 10909.0, 0.35))}, rng=0)
    low, high = crossing.confidence_interval
    assert low < truth.crossover("fast", "slow").compute < high


def test_an_unknown_ceiling_is_never_called_higher_or_lower(three):
    early = fitted((0.645, 1.70, 10909.0, 0.35), 4, compute=C[:38])
    assert early.verdict == "ceiling-not-identified"
    found = compare(three | {"early": early}, rng=0)
    for name in three:
        assert found.verdict("early", name) == "undecided"
    assert "early" not in found.leaders_by_A
    assert "not identified" in str(found)
    assert not found.supported("early", 100_000)


def test_a_given_ceiling_is_no_evidence(three):
    found = compare({"given": fitted(SCALERL, 6, A=0.9), "slow": three["slow"]}, rng=0)
    assert found.verdict("given", "slow") == "undecided"


def test_recipes_whose_ceilings_are_equal_are_refitted_together(three):
    found = compare({name: three[name] for name in ("fast", "like")}, rng=0)
    assert found.leaders_by_A == ("fast", "like")
    assert found.common_ceiling is not None
    assert found.common_ceiling.verdict("fast", "like") == "undecided"
    assert "one common ceiling" in str(found)
    assert "no difference of B is shown" in str(found)
    steep = compare({"fast": three["fast"], "steep": fitted((0.610, 2.9, 2542.0, 0.35), 80)}, rng=0)
    assert "B of fast is lower than that of steep: difference -" in str(steep.with_common_ceiling())


def test_runs_that_are_no_sigmoid_are_shown_and_never_decided(three):
    rng = np.random.default_rng(81)
    odd = {
        "flat": 0.4 + rng.normal(0, 0.004, len(C)),
        "falling": 0.6 - 0.1 * C / C[-1] + rng.normal(0, 0.004, len(C)),
        "misfit": np.where(np.arange(len(C)) == 40, 0.2, noisy(SCALERL, 82)),
    }
    fits = {name: fit_sigmoid(C, y) for name, y in odd.items()}
    assert [str(fit.verdict) for fit in fits.values()] == ["flat", "falling", "misfit"]
    found = compare({**three, **fits}, rng=0)  # without a warning: where they begin says nothing of the base model
    for name in odd:
        assert found.verdict(name, "slow") == "undecided"
        assert found.verdict(name, "slow", on="R") == "undecided"
        assert math.isnan(found.best[name])
    assert sum(p for p in found.best.values() if p == p) == pytest.approx(1.0)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["probability_best"]["flat"] is None
    assert "flat takes no part: no rise beyond the noise" in str(found)
    assert "slow - flat" not in str(found)
    only = compare(fits, rng=0)
    assert sum(only.best.values()) == pytest.approx(1.0)


def test_family_of_pairs_is_controlled():
    # 45 pairs of ten equal recipes: some pair differs "significantly" in most draws of the data, in few after control
    rng = np.random.default_rng(0)
    once, family = [], []
    for _ in range(200):
        truth = rng.standard_normal(10)  # estimates with error 1 around a common 0
        draws = truth[:, None] + rng.standard_normal((10, 400))
        d = differences(truth, draws, np.ones(10, dtype=bool), margin=0.1, confidence_level=0.95)
        once.append(np.any((d.low > 0) | (d.high < 0)))
        family.append(np.any(d.p_family <= 0.05))
    assert np.mean(once) > 0.4
    assert sum(family) <= stats.binom.ppf(0.999, 200, 0.05)
    assert sum(family) >= stats.binom.ppf(0.001, 200, 0.02)


def test_one_pair_is_judged_by_its_interval():
    rng = np.random.default_rng(1)
    draws = np.array([rng.normal(2.2, 1.0, 4000), np.zeros(4000)])
    d = differences(np.array([2.2, 0.0]), draws, np.ones(2, dtype=bool), margin=0.1, confidence_level=0.95)
    assert d.p_family[0] == pytest.approx(2 * stats.norm.sf(2.2), abs=0.01)


def calibration(n_pairs):
    """Stated probability that x beats y at 100k and whether it does, for random pairs of runs of 8k to 16k."""
    stated, actual = [], []
    for k in range(n_pairs):
        rng = np.random.default_rng([7, k])
        truths = [(rng.uniform(0.56, 0.66), rng.uniform(1.5, 2.5), rng.uniform(1800, 4000), 0.3) for _ in range(2)]
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


@pytest.mark.slow
def test_a_difference_of_the_margin_is_seldom_called_equal():
    called = 0
    for k in range(60):
        fits = {"x": fitted(SCALERL, [8, k]), "y": fitted((0.590, *SCALERL[1:]), [9, k])}
        called += compare(fits, rng=k).verdict("x", "y") == "equal"
    assert called <= stats.binom.ppf(0.999, 60, 0.10)


# --- seeds --------------------------------------------------------------------------------------------------


def seeds(A, n, start, spread=0.0):
    rng = np.random.default_rng(start)
    return [fitted((A + spread * rng.standard_normal(), 1.92, 2542.0, 0.35), np.append(start, j)) for j in range(n)]


def test_several_seeds_are_judged_by_their_spread():
    found = compare({"x": seeds(0.61, 3, 10, 0.015), "y": seeds(0.62, 3, 20, 0.015)}, rng=0)
    assert found.spread is not None
    assert found.spread.dof == 4
    x = found.rival("x")
    assert robust_error(x.ceilings(Of.RECIPE)) > 1.3 * robust_error(x.draws[:, :, 0].mean(axis=0))
    assert "A differs between seeds" in str(found)
    assert found.table.loc["x", "seeds"] == 3
    A, B = (found.rival(name) for name in "xy")
    runs_alone = np.mean(A.draws[:, :, 0].mean(axis=0) > B.draws[:, :, 0].mean(axis=0))
    assert abs(found.A_pairs.p_greater[0] - 0.5) < abs(runs_alone - 0.5)  # the seeds say less than their runs seem to


@pytest.mark.slow
def test_equal_recipes_with_three_seeds_are_seldom_called_different():
    called = 0
    for k in range(60):
        found = compare({"x": seeds(0.61, 3, [11, k], 0.015), "y": seeds(0.61, 3, [12, k], 0.015)}, rng=k, margin=0.001)
        called += found.verdict("x", "y") in ("higher", "lower")
    assert called <= stats.binom.ppf(0.999, 60, 0.05)


def test_one_seed_takes_the_papers_spread(comparison):
    assert comparison.spread is None
    assert np.all(comparison.rivals[0].spread == 0.015)
    assert "sd 0.015 of A; no recipe has two seeds that tell it" in str(comparison)


def test_another_spread_may_be_given(three, comparison):
    calm = compare(three, rng=0, seed_sd=0.0)
    assert calm.probability_best(new_run=True) == calm.best == comparison.best


def test_seeds_of_which_one_is_a_misfit_know_no_ceiling():
    good, y = seeds(0.61, 1, 30), noisy(SCALERL, 31)
    y[40] -= 0.2
    bad = fit_sigmoid(C, y)
    assert bad.verdict == "misfit"
    found = compare({"x": [*good, bad], "y": seeds(0.5, 1, 32)}, rng=0)
    assert found.rival("x").verdict == "misfit"
    assert found.verdict("x", "y") == "undecided"


def test_runs_off_the_law_decide_nothing(three):
    C, rng = np.arange(0.0, 16_001.0, 400.0), np.random.default_rng(0)
    noise = 0.005 * rng.standard_normal((2, len(C)))
    off = {"flat": 0.4 + noise[0], "down": 0.6 - 0.2 * C / 16_000 + noise[1]}
    fits = {name: fit_sigmoid(C, y) for name, y in off.items()}
    alone = compare(fits, rng=0, n_resamples=200)
    assert not alone.decided
    assert str(alone).startswith("undecided: every run is flat, falling or no sigmoid")
    assert alone.to_dict()["verdict"] == "undecided"
    with_them, without = compare(three | fits, rng=0, n_resamples=200), compare(three, rng=0, n_resamples=200)
    assert with_them.R0 == pytest.approx(without.R0, abs=1e-12)
    assert with_them.rival("slow").summary == pytest.approx(without.rival("slow").summary, rel=1e-9)


# --- numbers do not depend on what they should not ----------------------------------------------------------


def test_order_and_company_do_not_matter(three, comparison):
    turned = compare(dict(reversed(three.items())), rng=0)
    for name in three:
        assert turned.best[name] == pytest.approx(comparison.best[name], abs=1e-12)
        np.testing.assert_allclose(turned.rival(name).draws, comparison.rival(name).draws, rtol=1e-9)


def test_unit_of_compute_does_not_matter(three, comparison):
    def scaled(fit, factor):
        return fit_sigmoid(fit.data.compute * factor, fit.data.pass_rate, min_compute=1500 * factor)

    found = compare({name: scaled(fit, 1024.0) for name, fit in three.items()}, rng=0, at=1024e5)
    assert found.best == pytest.approx(comparison.best, abs=0.003)
    assert found.rival("slow").summary["C_mid"] == pytest.approx(1024 * comparison.rival("slow").summary["C_mid"])


def test_unbounded_scores_are_compared():
    def score(A, seed):
        y = sigmoid(C, A, 1.9, 2500.0, -2.0) + np.random.default_rng(seed).normal(0, 0.02, len(C))
        return fit_sigmoid(C, y, A_max=math.inf)

    found = compare({"x": score(3.0, 1), "y": score(2.0, 2)}, rng=0)
    assert found.verdict("x", "y") == "higher"
    assert found.margin == pytest.approx(0.02 * np.ptp(score(3.0, 1).data.pass_rate[C >= 1500]))


def test_json_table_and_html_are_complete(comparison):
    saved = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert saved["verdict"] == "decided"
    assert saved["best"] == "slow"
    assert [r["recipe"] for r in saved["recipes"]] == ["slow", "fast", "like"]
    assert len(saved["pairs"]) == 3
    assert {"verdict", "verdict_at", "A", "at", "multiplier", "crossover", "compute_to_share"} <= set(saved["pairs"][0])
    assert list(comparison.table.index) == ["slow", "fast", "like"]
    assert comparison.table["p_best"].sum() == pytest.approx(1.0)
    pairs = comparison.pairs.set_index(["x", "y"])
    assert pairs.loc[("slow", "fast"), "A_verdict"] == "higher"
    assert pairs.loc[("slow", "fast"), "R_p_greater"] == comparison.probability_better("slow", "fast")
    match = comparison.match("slow", "fast")
    assert str(match).startswith("higher: at 100,000 GPU-hours slow beats fast with probability 1.00")
    assert "A of slow against fast: higher" in str(match)
    assert "draws" not in repr(match) + repr(match.crossover) + repr(match.multiplier)
    html = comparison._repr_html_()
    assert html.count("<table>") >= 5
    assert "decided: slow is best" in html
    assert str(comparison).splitlines()[0].startswith("decided: slow is best at 100,000 GPU-hours")
    assert "slow best at" in repr(comparison)


def test_many_recipes_show_the_leader_against_the_others(three):
    rng = np.random.default_rng(3)
    more = {f"r{k}": fitted((rng.uniform(0.58, 0.60), 1.9, 2500.0, 0.35), [40, k]) for k in range(6)}
    text = str(compare({**three, **more}, rng=0, n_resamples=200))
    assert "slow - r3" in text
    assert "r1 - r3" not in text


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


# --- what is refused ----------------------------------------------------------------------------------------


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
    one = fit_sigmoid([2000.0], [0.4], on_failure="return")
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
    with pytest.raises(FitError, match=r"no default budget; give at= \(--at\)"):
        compare({"a": tokens, "b": other})


def test_no_common_compute(three):
    late = fit_sigmoid(C[1:] + 20_000, noisy(SCALERL, 54)[1:])
    with pytest.raises(FitError, match=r"no common compute: fast ends at 16,000 GPU-hours, late begins at 20,220"):
        compare({"fast": three["fast"], "late": late})


def test_options_out_of_range(three):
    for options, message in (
        ({"margin": 0}, "margin=0 is not a positive number"),
        ({"n_resamples": 10}, "n_resamples=10 must be a whole number of 100 or more"),
        ({"confidence_level": 95}, "confidence_level=95 is not between 0 and 1"),
        ({"at": -1}, r"compute\[0\] is -1: a budget is a positive"),
        ({"rng": -1}, "rng=-1 is not a seed"),
        ({"seed_sd": -0.1}, "seed_sd=-0.1 must be a finite number of 0 or more"),
    ):
        with pytest.raises(FitError, match=message):
            compare(three, **options)


def test_names_that_are_not_there(comparison):
    with pytest.raises(FitError, match="'nope' is none of the compared recipes: slow, fast, like"):
        comparison.verdict("nope", "slow")
    with pytest.raises(FitError, match="'slow' is compared with itself"):
        comparison.probability_better("slow", "slow")
    with pytest.raises(FitError, match="on='B' is unknown"):
        comparison.verdict("slow", "fast", on="B")
    with pytest.raises(FitError, match="needs two recipes or more"):
        comparison.with_common_ceiling("slow")


def on_device(fit, **metadata):
    return replace(fit, metadata=dict(fit.metadata) | metadata)


def test_hours_of_other_devices_need_a_factor(three):
    runs = {"a": on_device(three["fast"], device="GB200"), "b": on_device(three["slow"], device="H100")}
    with pytest.raises(FitError, match=r"a ran on GB200, b on H100: their GPU-hours are not the same compute"):
        compare(runs)
    priced = compare(runs, device_factors={"GB200": 1.0, "H100": 0.5}, rng=0)
    plain = compare({"a": three["fast"], "b": three["slow"]}, rng=0)
    assert priced.rival("b").summary["C_mid"] == pytest.approx(0.5 * plain.rival("b").summary["C_mid"], rel=1e-6)
    assert priced.rival("b").last_compute == pytest.approx(0.5 * plain.rival("b").last_compute)
    assert priced.crossover("a", "b").compute < plain.crossover("a", "b").compute
    with pytest.raises(FitError, match="b ran on H100, and device_factors= names only GB200; add it"):
        compare(runs, device_factors={"GB200": 1.0})
    with pytest.raises(FitError, match="is -1: a factor is a positive, finite number"):
        compare(runs, device_factors={"GB200": 1.0, "H100": -1})
    with pytest.raises(FitError, match="c does not tell its device"):
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
        compare(wall, at=1e5)


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


def test_shared_R0_is_the_joint_least_squares_fit_to_first_order():
    fits = [fitted(SCALERL, 70 + k, R0="free") for k in range(4)]
    group = Group(tuple(model_of(fit) for fit in fits), tuple((k,) for k in range(4)), 400, 1)
    found = fit_group(group, shared_R0=True, has_curve=np.ones(4, dtype=bool))
    own = np.array([fit.R0 for fit in fits])
    assert own.min() < found.R0 < own.max()
    assert robust_error(found.R0_draws) < found.R0_error.min()
