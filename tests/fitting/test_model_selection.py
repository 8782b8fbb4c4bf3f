"""Choosing a form: criteria against hand-computed values, recovery of each form, the paper's A.4, published fits."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from helpers.curve_points import HOURS
from rlscaling import FitError, datasets, fit_power_law, fit_sigmoid, fit_trace, select_model, simulate
from rlscaling.curves.forms import power_law
from rlscaling.curves.growth import gompertz
from rlscaling.fitting.model_selection import N_PARAMETERS
from rlscaling.solver.noise import aicc, log_likelihood_of


def test_criteria_against_hand_computed_values():
    # n = 10, SSR = 0.004: -2 log L = n log(2 pi SSR / n) + n
    residual = np.array([0.02, -0.02] * 5)
    minus_two = 10 * math.log(2 * math.pi * 0.004 / 10) + 10
    log_likelihood = log_likelihood_of(residual, np.ones(9), "iid")
    assert -2 * log_likelihood == pytest.approx(minus_two, rel=1e-12)
    assert aicc(log_likelihood, 4, 10) == pytest.approx(minus_two + 8 + 2 * 4 * 5 / 5, rel=1e-12)


def test_correlated_likelihood_against_the_multivariate_normal():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(0)
    residual = np.cumsum(rng.normal(0, 0.01, 30)) - 0.02
    best = -math.inf
    for rho in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        corr = rho ** np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
        variance = residual @ np.linalg.solve(corr, residual) / 30
        best = max(best, multivariate_normal.logpdf(residual, np.zeros(30), variance * corr))
    assert log_likelihood_of(residual, np.ones(29), "ar1") == pytest.approx(best, rel=1e-10)


def test_the_table_holds_what_the_formulas_say():
    trace = simulate(datasets.table1()["scalerl"], compute=HOURS, rng=1)
    found = select_model(trace, noise="iid")
    for c in found.candidates:
        n, k = found.n_points, N_PARAMETERS[c.form] + 1
        minus_two = n * math.log(2 * math.pi * c.ssr / n) + n
        assert c.aicc == pytest.approx(minus_two + 2 * k + 2 * k * (k + 1) / (n - k - 1), rel=1e-12)
        assert c.bic == pytest.approx(minus_two + k * math.log(n), rel=1e-12)
    assert sum(c.weight for c in found.candidates) == pytest.approx(1.0)
    assert [c.aicc for c in found.candidates] == sorted(c.aicc for c in found.candidates)
    free = fit_sigmoid(trace.compute, trace.pass_rate, R0="free")
    ours = next(c for c in found.candidates if c.form == "sigmoid, R0 free")
    assert ours.ssr == pytest.approx(free.ssr, rel=1e-9)


@pytest.mark.parametrize(
    ("curve", "form"),
    [
        (lambda c: power_law(c, 0.62, 0.6, 25.0), "power-law"),
        (lambda c: 0.1 + 0.05 * np.log(c), "log-linear"),
        (lambda c: gompertz(c, 0.62, 2.5, 2500.0, 0.3), "gompertz"),
    ],
)
def test_the_true_form_is_chosen_when_the_data_tell(curve, form):
    y = curve(HOURS[1:]) + np.random.default_rng(2).normal(0, 0.0003, len(HOURS) - 1)
    found = select_model(HOURS[1:], y)
    assert found.choice.form == form
    assert found.candidates[0].out_of_sample < 0.01


def test_a_short_run_cannot_tell_and_says_so():
    found = select_model(datasets.load_demo()["scalerl-8k"])
    assert not found.decided
    assert found.choice.form.startswith("sigmoid")
    assert str(found).startswith("undecided: the data cannot tell sigmoid")
    assert "A ranges from" in found.headline
    assert "<table>" in found._repr_html_()
    saved = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert saved["decided"] is False
    assert {entry["form"] for entry in saved["forms"]} == set(N_PARAMETERS)
    assert found.to_frame().loc["log-linear", "A"] != found.to_frame().loc["log-linear", "A"]


def test_fits_traces_and_arrays_agree_and_R0_may_be_missing():
    trace = datasets.load_demo()["scalerl"]
    one = select_model(trace)
    assert select_model(fit_trace(trace)).to_dict() == one.to_dict()
    free = select_model(trace.compute[11:], trace.pass_rate[11:])
    assert "left out" in free.notes[0]
    assert "sigmoid, R0 fixed" not in [c.form for c in free.candidates]


def test_what_cannot_be_chosen_from_is_refused():
    trace = datasets.load_demo()["scalerl"]
    with pytest.raises(FitError, match="noise='white' is unknown"):
        select_model(trace, noise="white")
    with pytest.raises(FitError, match="a Trace holds its pass rates"):
        select_model(trace, [0.1])
    with pytest.raises(FitError, match="pass_rate is missing"):
        select_model([1.0, 2.0])
    with pytest.raises(FitError, match="8 points are too few to choose among the forms"):
        select_model(trace.compute[10:18], trace.pass_rate[10:18])


def test_paper_a4_with_noise():
    # [ScaleRL, A.4]: a power law on 1.5k-50k says 1.0 and on 5k-50k 0.74; the sigmoid 0.645
    p = datasets.table1()["batch-2048"]
    compute = np.arange(0, 232) * 216.2
    early, late, ours = [], [], []
    for seed in range(12):
        run = simulate(p, compute=compute, rho=0.6, wander_sd=0.006, rng=seed)
        early.append(fit_power_law(run.compute, run.pass_rate, min_compute=1500, max_compute=50_000).A)
        late.append(fit_power_law(run.compute, run.pass_rate, min_compute=5000, max_compute=50_000).A)
        ours.append(fit_trace(run, max_compute=50_000).A)
    assert np.all(np.array(early) == 1.0)
    assert np.median(late) == pytest.approx(0.745, abs=0.015)
    assert 0.70 < min(late) < max(late) < 0.80
    assert np.median(ours) == pytest.approx(0.645, abs=0.004)


def weighted_run() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    C = np.arange(0, 16_001, 400.0)
    sd = np.where(np.arange(len(C)) % 2 == 0, 0.002, 0.02)
    rng = np.random.default_rng(0)
    return C, 0.35 + 0.26 / (1 + (2542 / np.maximum(C, 1e-9)) ** 1.92) + rng.normal(0, 1, len(C)) * sd, 1.0 / sd**2


def test_bug_weights_act_on_every_form():
    """SciML/CurveFit.jl#96, ESPEI#176, curveball#113: weights were ignored without a word."""
    from scipy.optimize import least_squares

    C, y, w = weighted_run()
    by_option, by_fit = select_model(C, y, weights=w), select_model(fit_sigmoid(C, y, weights=w))
    plain = select_model(C, y)
    assert str(by_option) == str(by_fit) != str(plain)
    assert "evaluations weighted as given" in str(by_option)
    for a, b in zip(by_option.candidates, by_fit.candidates, strict=True):
        assert a.form == b.form
        assert a.A == pytest.approx(plain_of(plain, a.form).A, abs=0.2) or math.isnan(a.A)
    used = C >= 1500
    root = np.sqrt(w[used])
    best = least_squares(
        lambda p: root * (p[0] - (p[0] - p[2]) * np.exp(-C[used] / np.exp(p[1])) - y[used]),
        [0.6, 8.0, 0.3], x_scale=[0.1, 1.0, 0.1],
    )  # fmt: skip
    assert plain_of(by_option, "exponential").A == pytest.approx(best.x[0], abs=1e-6)


def plain_of(selection, form):
    return next(candidate for candidate in selection.candidates if candidate.form == form)


def test_the_likelihood_of_weighted_points_is_that_of_their_variances():
    C, y, w = weighted_run()
    chosen = select_model(C, y, weights=w, noise="iid").candidates[0]
    n = int((C >= 1500).sum())
    v = np.mean(w[C >= 1500]) / w[C >= 1500]
    expected = -0.5 * (n * (math.log(2 * math.pi * chosen.ssr / n) + 1) + np.log(v).sum())
    assert chosen.log_likelihood == pytest.approx(expected, rel=1e-12)


def test_options_with_a_fit_change_it():
    C, y, _ = weighted_run()
    assert select_model(fit_sigmoid(C, y), max_compute=12_000).n_points == int(((C >= 1500) & (C <= 12_000)).sum())
