"""The solver against noise-free truth, multi-start SciPy and lmfit, and its own symmetries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import least_squares

from helpers.solver_series import TABLE1, multistart, noisy, problem, solved
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.solver.problem import Problem
from rlscaling.solver.variable_projection import solve

HOURS = 216.2 * np.arange(7, 75)  # 1,513 to 16,000 GPU-hours


@pytest.mark.parametrize("end", [0.6, 1.5, 4.0])
@pytest.mark.parametrize("R0", [None, 0.3])
@pytest.mark.parametrize("name", TABLE1)
def test_noise_free_rows_of_table1_are_recovered(name, R0, end):
    p = TABLE1[name]
    C = np.linspace(0.05 * p.C_mid, end * p.C_mid, 40)
    found, ssr = solved(C, sigmoid(C, *p.as_tuple()), R0=R0)
    np.testing.assert_allclose(found, p.as_tuple(), rtol=1e-9)
    assert ssr < 1e-20


def test_fixed_parameters_stay_and_the_others_follow():
    p = TABLE1["scalerl"]
    truth = dict(zip(("A", "B", "C_mid", "R0"), p.as_tuple(), strict=True))
    y = sigmoid(HOURS, *p.as_tuple())
    for given in ({"A"}, {"B"}, {"A", "B"}, {"A", "R0"}, {"B", "R0"}, {"A", "B", "R0"}):
        options = {k: truth[k] for k in given & {"A", "R0"}}
        if "B" in given:
            options["B_bounds"] = (truth["B"], truth["B"])
        found, _ = solved(HOURS, y, **options)
        np.testing.assert_allclose(found, p.as_tuple(), rtol=1e-9, err_msg=str(given))


def test_bug_B_is_never_above_its_bound():
    """exp(log(10)) is one bit above 10."""
    C = np.geomspace(100, 20000, 40)
    found, _ = solved(C, np.where(C < 1500, 0.3, 0.6))
    assert found[1] <= 10.0


def test_a_run_that_has_not_bent_stops_at_A_max():
    C = np.geomspace(100, 5000, 30)
    y = np.clip(0.1 + 0.1 * np.log(C / 100), 0, 1)  # straight in log C
    for bound in (1.0, 0.8):
        found, _ = solved(C, y, A_max=bound)
        assert found[0] <= bound
    found, _ = solved(C, y, A_max=0.5)
    assert found[0] == 0.5


def test_R0_stops_at_zero():
    C = np.geomspace(1000, 20000, 30)
    y = np.maximum(sigmoid(C, 0.6, 1.5, 3000.0, -0.2), 0.0)
    found, ssr = solved(C, y)
    assert found[3] == 0.0
    assert ssr <= multistart(C, y, None) * (1 + 1e-9)


def test_B_stops_at_its_bounds():
    C = np.geomspace(100, 20000, 40)
    step, _ = solved(C, np.where(C < 1500, 0.3, 0.6))
    assert step[1] == pytest.approx(10.0)
    found, _ = solved(C, sigmoid(C, 0.6, 1.9, 2000.0, 0.3), B_bounds=(0.1, 1.2))
    assert found[1] == pytest.approx(1.2)
    found, _ = solved(C, sigmoid(C, 0.6, 1.0, 2000.0, 0.3), B_bounds=(2.0, 5.0))
    assert found[1] == pytest.approx(2.0)


def test_a_falling_series_is_flat_when_ordered_and_followed_when_not():
    C = np.geomspace(100, 20000, 40)
    y = sigmoid(C, 0.2, 1.5, 2000.0, 0.7)
    ordered, ssr = solved(C, y)
    assert ordered[0] == pytest.approx(ordered[3], abs=1e-9)
    assert ssr == pytest.approx(float(np.sum((y - y.mean()) ** 2)), rel=1e-6)
    found, _ = solved(C, y, A_max=math.inf, R0_min=-math.inf)
    np.testing.assert_allclose(found, (0.2, 1.5, 2000.0, 0.7), rtol=1e-9)


@pytest.mark.parametrize("truth", [(700.0, 1.4, 3000.0, -250.0), (-40.0, 2.2, 900.0, 15.0), (1e6, 1.0, 5e3, 0.0)])
def test_unbounded_scores_of_any_size_and_sign(truth):
    found, _ = solved(HOURS, sigmoid(HOURS, *truth), A_max=math.inf, R0_min=-math.inf)
    np.testing.assert_allclose(found, truth, rtol=1e-8, atol=1e-6)


def test_bug_a_constant_unbounded_score_has_a_finite_fit():
    """A run whose reward never moves: nothing to solve for, but every number must be finite."""
    for value in (-2.0, 0.0, 3.0):
        found, ssr = solved(np.arange(1.0, 9.0), np.full(8, value), A_max=math.inf, R0_min=-math.inf)
        assert np.all(np.isfinite(found)), found
        assert ssr <= 1e-20


def test_weights_of_replicates_are_copies_of_rows():
    p = TABLE1["scalerl"]
    y = noisy(p, HOURS, 3)
    counts = np.random.default_rng(1).multinomial(len(y), np.full(len(y), 1 / len(y)))
    keep = np.repeat(np.arange(len(y)), counts)
    W = counts[None, :].astype(float)
    for R0 in (None, 0.3):
        weighted = solve(problem(HOURS, R0=R0), y[None, :], W=W, n_starts=4)
        copied, ssr = solved(HOURS[keep], y[keep], R0=R0)
        np.testing.assert_allclose(weighted.draws()[0], copied, rtol=2e-5)
        assert weighted.ssr[0] == pytest.approx(ssr, rel=1e-9)


def test_weights_of_the_problem_do_what_W_does():
    p = TABLE1["scalerl"]
    y = noisy(p, HOURS, 4)
    w = np.random.default_rng(2).uniform(0.2, 5.0, len(y))
    by_problem, ssr = solved(HOURS, y, weights=w)
    by_rows = solve(problem(HOURS), y[None, :], W=w[None, :], n_starts=4)
    np.testing.assert_allclose(by_rows.draws()[0], by_problem, rtol=1e-9)
    assert by_rows.ssr[0] == pytest.approx(ssr, rel=1e-12)


@pytest.mark.parametrize("factor", [1e-6, 7.0, 1e6])
def test_a_common_factor_of_the_weights_changes_nothing(factor):
    y = noisy(TABLE1["scalerl"], HOURS, 5)
    one, ssr = solved(HOURS, y)
    other, ssr_other = solved(HOURS, y, weights=np.full(len(y), factor))
    np.testing.assert_allclose(other, one, rtol=1e-6)
    assert ssr_other == pytest.approx(factor * ssr, rel=1e-9)


def test_a_heavy_point_is_met():
    y = noisy(TABLE1["scalerl"], HOURS, 6)
    w = np.ones(len(y))
    w[30] = 1e8
    found, _ = solved(HOURS, y, weights=w)
    assert sigmoid(HOURS[30], *found) == pytest.approx(y[30], abs=1e-6)


def batch(n=60):
    return np.stack([noisy(TABLE1["scalerl"], HOURS, seed=k, sd=0.01) for k in range(n)])


def test_a_batch_gives_what_one_at_a_time_gives():
    Y = batch()
    together = solve(problem(HOURS), Y)
    for k in range(0, len(Y), 7):
        alone = solve(problem(HOURS), Y[k : k + 1])
        np.testing.assert_allclose(together.ssr[k], alone.ssr[0], rtol=1e-10)
        np.testing.assert_allclose(together.draws()[k], alone.draws()[0], rtol=1e-5)


def test_permuting_the_rows_permutes_the_results():
    Y = batch()
    order = np.random.default_rng(0).permutation(len(Y))
    straight, shuffled = solve(problem(HOURS), Y), solve(problem(HOURS), Y[order])
    np.testing.assert_allclose(shuffled.ssr, straight.ssr[order], rtol=1e-10)
    np.testing.assert_allclose(shuffled.draws(), straight.draws()[order], rtol=1e-5)


def test_more_rows_than_a_block_holds(monkeypatch):
    Y = batch()
    whole = solve(problem(HOURS), Y)
    monkeypatch.setattr("rlscaling.solver.variable_projection.MAX_BLOCK_ROWS", 7)
    blocks = solve(problem(HOURS), Y)
    np.testing.assert_allclose(blocks.ssr, whole.ssr, rtol=1e-10)


def test_the_prior_on_log_B_is_the_penalised_minimum():
    # oracle: scipy on the residuals with one more row, sqrt(strength) (log B - mean)
    p = TABLE1["batch-2048"]
    C = np.linspace(1500, 8000, 25)
    y = noisy(p, C, 8)
    mean, strength = math.log(1.6), 1e-3  # problem.LOG_B_CENTRE

    def residual(z):
        s = 1 / (1 + np.exp(-np.exp(z[1]) * (np.log(C) - z[2])))
        return np.append(0.3 + (z[0] - 0.3) * s - y, math.sqrt(strength) * (z[1] - mean))

    starts = [[0.6, math.log(b), math.log(c)] for b in (0.8, 1.6, 4.0) for c in (2000.0, 6000.0, 15000.0)]
    bounds = ([0.3, math.log(0.1), 0.0], [1.0, math.log(10), 20.0])
    theirs = min(
        2 * least_squares(residual, s, bounds=bounds, x_scale="jac", ftol=1e-14, xtol=1e-14).cost for s in starts
    )
    solution = solve(Problem(C, np.ones(len(C)), R0=0.3), y[None], n_starts=4, prior=np.array([strength]))
    found, ours = solution.draws()[0], float(solution.ssr[0])
    assert ours == pytest.approx(theirs, rel=1e-8)
    r = y - sigmoid(C, *found)
    assert ours == pytest.approx(float(r @ r) + strength * (math.log(found[1]) - mean) ** 2, rel=1e-9)


def test_compute_zero_rows_hold_R0():
    p = TABLE1["scalerl"]
    C = np.append(0.0, HOURS)
    y = sigmoid(C, *p.as_tuple())
    found, _ = solved(C, y)
    np.testing.assert_allclose(found, p.as_tuple(), rtol=1e-9)
    y[0] = 0.31
    w = np.ones(len(C))
    w[0] = 1e10
    found, _ = solved(C, y, weights=w)
    assert found[3] == pytest.approx(0.31, abs=1e-7)
