"""The solver against noise-free truth, multi-start SciPy and lmfit, and its own symmetries."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares

from rlscaling.curves import sigmoid
from rlscaling.datasets import table1
from rlscaling.model import Anchor, Series, fit_model
from rlscaling.problem import Problem
from rlscaling.varpro import solve

TABLE1 = table1(R0=0.3)
HOURS = 216.2 * np.arange(7, 75)  # 1,513 to 16,000 GPU-hours


def problem(C, **options):
    return Problem(compute=np.asarray(C, dtype=float), weights=np.ones(len(C)), **options)


def solved(C, y, *, n_starts=4, weights=None, **options):
    """Parameters A, B, C_mid, R0 and the sum of squares of one series."""
    p = problem(C, **options)
    if weights is not None:
        p = replace(p, weights=np.asarray(weights, dtype=float))
    found = solve(p, np.asarray(y)[None, :], n_starts=n_starts)
    return found.draws()[0], float(found.ssr[0])


def noisy(params, C, seed, rho=0.6, sd=0.006):
    """A series of Table 1 with AR(1) noise, as in the simulations behind the defaults."""
    rng = np.random.default_rng(seed)
    e = np.empty(len(C))
    e[0] = rng.normal(0, sd)
    for i in range(1, len(C)):
        e[i] = rho * e[i - 1] + rng.normal(0, sd * np.sqrt(1 - rho**2))
    return np.clip(sigmoid(C, *params.as_tuple()) + e, 0.0, 1.0)


# --- noise-free truth ------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [0.6, 1.5, 4.0])
@pytest.mark.parametrize("R0", [None, 0.3])
@pytest.mark.parametrize("name", TABLE1)
def test_noise_free_rows_of_table1_are_recovered(name, R0, end):
    p = TABLE1[name]
    C = np.linspace(0.05 * p.C_mid, end * p.C_mid, 40)
    found, ssr = solved(C, sigmoid(C, *p.as_tuple()), R0=R0)
    np.testing.assert_allclose(found, p.as_tuple(), rtol=1e-9)
    assert ssr < 1e-20


@pytest.mark.parametrize("name", TABLE1)
def test_noise_free_rows_are_recovered_with_an_anchor(name):
    p = TABLE1[name]
    C = np.linspace(0.3 * p.C_mid, 4 * p.C_mid, 40)
    y = sigmoid(C, *p.as_tuple())
    model = fit_model(problem(C), Series(C, y, np.ones(40), C), Anchor(0.0, 0.3, 0.02))
    np.testing.assert_allclose(model.params, p.as_tuple(), rtol=1e-9)


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


# --- the lowest sum of squares ---------------------------------------------------------------------------


def multistart(C, y, R0, B_bounds=(0.1, 10.0)):
    """Lowest sum of squares of 18 bounded starts of scipy's least_squares, in (A, log B, log C_mid[, R0])."""
    x = np.log(C)

    def residual(z):
        base = R0 if R0 is not None else z[3]
        return base + (z[0] - base) / (1 + np.exp(-np.exp(z[1]) * (x - z[2]))) - y

    low = [0.0 if R0 is None else R0, math.log(B_bounds[0]), x.min() - math.log(1e3)]
    high = [1.0, math.log(B_bounds[1]), x.max() + math.log(1e3)]
    if R0 is None:
        low, high = [*low, 0.0], [*high, 1.0]
    best = np.inf
    for B in (0.5, 1.6, 5.0):
        for C_mid in np.geomspace(C[0], 3 * C[-1], 6):
            start = [min(y.max() + 0.02, 0.99), math.log(B), math.log(C_mid)]
            start += [max(y.min() - 0.02, 0.01)] if R0 is None else []
            found = least_squares(
                residual, start, bounds=(low, high), x_scale="jac", ftol=1e-14, xtol=1e-14, gtol=1e-14, max_nfev=200
            )
            feasible = R0 is not None or found.x[0] >= found.x[3]
            best = min(best, 2 * found.cost) if feasible else best
    return best


def cases(n):
    """Early and late series of several rows, with the noise of real runs."""
    names = ["scalerl", "batch-2048", "math-code-code", "generations-8"]
    for k in range(n):
        p = TABLE1[names[k % 4]]
        end = (0.5, 0.9, 1.5, 3.0, 6.0)[k % 5] * p.C_mid
        C = np.linspace(0.1 * p.C_mid, end, 12 + 7 * (k % 3))
        yield C, noisy(p, C, seed=k, rho=(0.0, 0.6, 0.8)[k % 3], sd=(0.003, 0.006, 0.01)[k % 3])


@pytest.mark.parametrize("R0", [None, 0.3])
def test_no_start_of_scipy_finds_a_lower_sum_of_squares(R0):
    for k, (C, y) in enumerate(cases(10)):
        _, ours = solved(C, y, R0=R0)
        assert ours <= multistart(C, y, R0) * (1 + 1e-9), k


@pytest.mark.slow
@pytest.mark.parametrize("R0", [None, 0.3])
def test_no_start_of_scipy_finds_a_lower_sum_of_squares_in_many_series(R0):
    worse = [k for k, (C, y) in enumerate(cases(60)) if solved(C, y, R0=R0)[1] > multistart(C, y, R0) * (1 + 1e-9)]
    assert worse == []


@pytest.mark.parametrize("vary_R0", [True, False])
def test_lmfit_finds_no_lower_sum_of_squares(vary_R0):
    import lmfit

    model = lmfit.Model(lambda C, A, B, C_mid, R0: R0 + (A - R0) / (1 + (C_mid / C) ** B))
    for k, (C, y) in enumerate(cases(20)):
        params = model.make_params(
            A={"value": min(y.max() + 0.01, 0.99), "min": 0.3, "max": 1.0},
            B={"value": 1.5, "min": 0.1, "max": 10},
            C_mid={"value": float(np.median(C)), "min": C[0] * 1e-3, "max": C[-1] * 1e3},
            R0={"value": 0.3, "min": 0, "max": 1, "vary": vary_R0},
        )
        theirs = float(model.fit(y, params, C=C).chisqr)
        assert solved(C, y, R0=None if vary_R0 else 0.3)[1] <= theirs * (1 + 1e-9), k


SLOW = {  # Gauss-Newton contracts slowly here: large residuals, or five points near a step
    "five points": (0.3, [51, 206, 838, 3401, 13806], [0.3003, 0.3139, 0.304, 0.4952, 0.5908]),
    "loud noise": (
        None,
        [51, 86, 144, 242, 408, 687, 1156, 1945, 3273, 5509, 9273, 15607],
        [0.3343, 0.2987, 0.3796, 0.316, 0.2642, 0.2208, 0.3547, 0.4334, 0.4992, 0.4802, 0.5724, 0.5875],
    ),
}


@pytest.mark.parametrize(("R0", "C", "y"), SLOW.values(), ids=SLOW)
def test_bug_slow_convergence_is_followed_to_the_end(R0, C, y):
    C, y = np.array(C, dtype=float), np.array(y)
    assert solved(C, y, R0=R0)[1] <= multistart(C, y, R0) * (1 + 1e-9)


def test_bug_B_is_never_above_its_bound():
    """exp(log(10)) is one bit above 10."""
    C = np.geomspace(100, 20000, 40)
    found, _ = solved(C, np.where(C < 1500, 0.3, 0.6))
    assert found[1] <= 10.0


# --- bounds ----------------------------------------------------------------------------------------------


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


# --- weights ---------------------------------------------------------------------------------------------


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


# --- batches ---------------------------------------------------------------------------------------------


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
    monkeypatch.setattr("rlscaling.varpro.MAX_BLOCK_ROWS", 7)
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
