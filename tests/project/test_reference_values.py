"""Right values from outside: NIST StRD, R's documented fits, and the numbers of the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from rlscaling import bootstrap, fit_curve, fit_power_law, fit_sigmoid, fit_trace
from rlscaling.datasets import simulate, table1
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.solver.observations import Observations
from rlscaling.solver.problem import Problem
from rlscaling.solver.variable_projection import solve

# NIST StRD nonlinear regression, Misra1d: y = b1 b2 x / (1 + b2 x), so A = b1, C_mid = 1 / b2, B = 1, R0 = 0
MISRA1D_X = [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0]
MISRA1D_Y = [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.4, 75.47, 81.78]

# NIST StRD, Rat42: y = b1 / (1 + exp(b2 - b3 x)), so C = exp(x), A = b1, B = b3, ln C_mid = b2 / b3, R0 = 0
RAT42_X = [9.0, 14.0, 21.0, 28.0, 42.0, 57.0, 63.0, 70.0, 79.0]
RAT42_Y = [8.93, 10.8, 18.59, 22.33, 39.35, 56.11, 61.73, 64.62, 67.08]

# R, datasets::Puromycin (treated) with SSmicmen, and datasets::DNase (run 1) with SSlogis(log(conc)): two readings each
PUROMYCIN_X = np.repeat([0.02, 0.06, 0.11, 0.22, 0.56, 1.1], 2)
PUROMYCIN_Y = np.array([76.0, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200])
DNASE1_X = np.repeat([0.04882812, 0.1953125, 0.390625, 0.78125, 1.5625, 3.125, 6.25, 12.5], 2)
DNASE1_Y = np.array(
    [0.017, 0.018, 0.121, 0.124, 0.206, 0.215, 0.377, 0.374, 0.614, 0.609, 1.019, 1.001, 1.334, 1.364, 1.73, 1.71]
)


def test_nist_misra1d():
    fit = fit_sigmoid(MISRA1D_X, MISRA1D_Y, B=1.0, R0=0.0, A_max=math.inf, min_compute=0)
    assert fit.A == pytest.approx(4.3736970754e02, rel=1e-6)
    assert 1 / fit.C_mid == pytest.approx(3.0227324449e-04, rel=1e-6)
    assert fit.ssr == pytest.approx(5.6419295283e-02, rel=1e-6)
    assert fit.standard_error["A"] == pytest.approx(3.6489174345e00, rel=1e-4)
    # b2 = 1 / C_mid, so se(b2) = se(C_mid) / C_mid^2
    assert fit.standard_error["C_mid"] / fit.C_mid**2 == pytest.approx(2.9334354479e-06, rel=1e-4)
    assert fit.standard_error["B"] == fit.standard_error["R0"] == 0.0


def test_nist_rat42():
    fit = fit_sigmoid(np.exp(RAT42_X), RAT42_Y, R0=0.0, A_max=math.inf, B_bounds=(1e-3, 10.0), min_compute=0)
    log_mid = math.log(fit.C_mid)
    assert fit.A == pytest.approx(7.2462237576e01, rel=1e-6)
    assert fit.B * log_mid == pytest.approx(2.6180768402e00, rel=1e-6)
    assert fit.B == pytest.approx(6.7359200066e-02, rel=1e-6)
    assert fit.ssr == pytest.approx(8.0565229338e00, rel=1e-6)
    assert fit.standard_error["A"] == pytest.approx(1.7340283401e00, rel=1e-4)
    assert fit.standard_error["B"] == pytest.approx(3.4465663377e-03, rel=1e-4)
    # b2 = B ln C_mid: gradient (ln C_mid, B / C_mid) by (B, C_mid)
    scale = np.array([1.0, fit.C_mid])
    V = fit.covariance[1:3, 1:3] / np.outer(scale, scale)
    g = np.array([log_mid, fit.B])
    assert math.sqrt(g @ V @ g) == pytest.approx(8.8295217536e-02, rel=1e-4)


def least_squares_model(x, y, **constraints):
    """The solver on data with repeated compute, which `fit_sigmoid` refuses (its points are a chain)."""
    problem = Problem(compute=x, weights=np.ones(len(x)), A_max=math.inf, R0_min=-math.inf, **constraints)
    params = tuple(solve(problem, y[None, :], n_starts=4).draws()[0].tolist())
    return FittedModel(problem, Observations(x, y, np.ones(len(x)), x), params, params)


def test_r_puromycin():
    model = least_squares_model(PUROMYCIN_X, PUROMYCIN_Y, R0=0.0, B_bounds=(1.0, 1.0))
    A, _, C_mid, _ = model.params
    assert A == pytest.approx(212.68370711, rel=1e-6)
    assert C_mid == pytest.approx(0.06412123, rel=1e-6)
    se = np.sqrt(np.diag(model.covariance()))
    assert se[0] == pytest.approx(6.947, abs=5e-4)
    assert se[2] == pytest.approx(0.008281, abs=5e-7)
    assert float(model.residual @ model.residual) == pytest.approx(1195.449, abs=5e-4)


def test_r_dnase1():
    model = least_squares_model(DNASE1_X, DNASE1_Y, R0=0.0)
    A, B, C_mid, _ = model.params
    assert A == pytest.approx(2.34518, abs=5e-6)
    assert math.log(C_mid) == pytest.approx(1.48309, abs=5e-6)
    assert 1 / B == pytest.approx(1.04146, abs=1e-5)  # R stops at a tolerance of 1e-5
    assert math.sqrt(float(model.residual @ model.residual) / 13) == pytest.approx(0.01919, abs=5e-6)


@pytest.mark.parametrize(
    ("x", "y", "options", "expected"),
    [
        (PUROMYCIN_X, PUROMYCIN_Y, {"B": 1.0}, (212.68370711, 1.0, 0.06412123)),
        (DNASE1_X, DNASE1_Y, {}, (2.34518, 1 / 1.04146, math.exp(1.48309))),
    ],
    ids=["Puromycin", "DNase1"],
)
def test_means_of_equally_repeated_readings_have_the_same_fit(x, y, options, expected):
    C, R = x[::2], y.reshape(-1, 2).mean(axis=1)
    fit = fit_sigmoid(C, R, R0=0.0, A_max=math.inf, min_compute=0, **options)
    np.testing.assert_allclose((fit.A, fit.B, fit.C_mid), expected, rtol=6e-6)


BS2048 = table1(R0=0.35)["batch-2048"]  # A 0.645, B 1.70, C_mid 10909
HOURS = 216.2 * np.arange(1, 463)  # to 100,000 GPU-hours


@pytest.mark.parametrize(("window", "A"), [((1500, 50_000), 1.000), ((5000, 50_000), 0.745), ((30_000, 60_000), 0.648)])
def test_paper_a4_power_law_depends_on_the_window_and_the_sigmoid_does_not(window, A):
    # [ScaleRL, A.4] reports 1.0, 0.74 and "the correct" value; to three digits for R0 = 0.35 they are these
    R = BS2048.predict(HOURS)
    options = {"min_compute": window[0], "max_compute": window[1]}
    power_law = fit_power_law(HOURS, R, **options)
    assert round(power_law.A, 3) == A
    assert ("A" in power_law.at_bound) == (A == 1.0)
    sigmoid = fit_sigmoid(HOURS, R, R0="free", **options)
    assert round(sigmoid.A, 3) == 0.645
    assert sigmoid.params.as_tuple() == pytest.approx(BS2048.as_tuple(), rel=1e-7)


@pytest.mark.parametrize("how", ["fixed", "free", "anchored"])
@pytest.mark.parametrize("name", table1())
def test_table1_without_noise_comes_back(name, how):
    p = table1()[name]
    C = np.append(0.0, np.linspace(1500.0, max(4 * p.C_mid, 16_000), 60))
    options = {"fixed": {"R0": p.R0}, "free": {"R0": "free"}, "anchored": {}}[how]
    fit = fit_sigmoid(C, p.predict(C), **options)
    assert fit.R0_source == how
    np.testing.assert_allclose(fit.params.as_tuple(), p.as_tuple(), rtol=1e-9)
    assert fit.verdict == "identified"


def covered(n_seeds, end):
    """How many of the 95 % intervals of A, over Table 1 and seeds, hold the truth; and how many there are."""
    inside = total = 0
    for row, p in enumerate(table1().values()):
        C = np.append(0.0, np.linspace(1500.0, max(end * p.C_mid, 8000.0), 50))
        for seed in range(n_seeds):
            trace = simulate(p, compute=C, rho=0.5, wander_sd=0.005, rng=1000 * row + seed)
            low, high = fit_trace(trace).confidence_interval["A"]
            inside += low <= p.A <= high
            total += 1
    return inside, total


@pytest.mark.parametrize("end", [1.5, 4.0])
def test_table1_with_noise_lies_within_the_interval(end):
    inside, n = covered(6, end)
    assert inside >= stats.binom.ppf(1e-3, n, 0.93)


@pytest.mark.slow
@pytest.mark.parametrize("end", [0.7, 1.5, 4.0])
def test_table1_with_noise_lies_within_the_interval_in_many_series(end):
    inside, n = covered(40, end)
    assert inside >= stats.binom.ppf(1e-3, n, 0.93)


def test_the_demo_row_is_within_the_bootstrap_interval():
    p = table1()["scalerl"]
    trace = simulate(p, compute=216.2 * np.arange(75), rho=0.3, wander_sd=0.003, rng=7)
    boot = bootstrap(fit_trace(trace), rng=0)
    for name in ("A", "B", "C_mid", "R0"):
        low, high = boot.confidence_interval[name]
        assert low < getattr(p, name) < high


# NIST StRD, Rat43 (Ratkowsky 1983): y = b1 / (1 + exp(b2 - b3 x))^(1 / b4)
RAT43_Y = [
    16.08,
    33.83,
    65.8,
    97.2,
    191.55,
    326.2,
    386.87,
    520.53,
    590.03,
    651.92,
    724.93,
    699.56,
    689.96,
    637.56,
    717.41,
]


def test_nist_rat43_is_richards():
    x = np.arange(1.0, 16.0)
    fit = fit_curve(np.exp(x), RAT43_Y, form="richards", R0=0.0, A_max=math.inf, min_compute=0)
    p = fit.params
    assert p["A"] == pytest.approx(6.9964151270e02, rel=1e-6)
    assert p["B"] * math.log(p["C_0"]) == pytest.approx(5.2771253025e00, rel=1e-5)
    assert p["B"] == pytest.approx(7.5962938329e-01, rel=1e-5)
    assert p["nu"] == pytest.approx(1.2792483859e00, rel=1e-5)
    assert fit.ssr == pytest.approx(8.7864049080e03, rel=1e-8)


def test_R_ssgompertz_on_dnase_run_1():
    # R, example(SSgompertz): density ~ SSgompertz(log(conc), Asym, b2, b3) = Asym exp(-b2 b3^x), printed to 5 digits;
    # least squares on the means of the pairs of readings has the same solution
    fit = fit_curve(
        DNASE1_X[::2], DNASE1_Y.reshape(-1, 2).mean(axis=1), form="gompertz", R0=0.0, A_max=math.inf, min_compute=0
    )
    p = fit.params
    assert round(p["A"], 4) == 4.6033
    assert round(p["C_0"] ** p["B"], 4) == 2.2713
    assert round(math.exp(-p["B"]), 4) == 0.7165
