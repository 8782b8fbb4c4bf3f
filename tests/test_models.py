"""Choosing a form: criteria against hand-computed values, recovery of each form, the paper's A.4, published fits."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from rlscaling import FitError, datasets, fit_curve, fit_power_law, fit_sigmoid, fit_trace, select_model, simulate
from rlscaling.curves import gompertz, power_law, richards, sigmoid
from rlscaling.models import N_PARAMETERS, aicc, log_likelihood_of
from test_reference_values import DNASE1_X, DNASE1_Y

C = np.append(0.0, np.arange(1500.0, 16_000, 220.0))

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


@pytest.mark.parametrize("R0", [None, 0.3])
def test_gompertz_and_richards_recover_themselves(R0):
    fit = fit_curve(C[1:], gompertz(C[1:], 0.62, 1.2, 3000.0, 0.3), form="gompertz", R0=R0)
    np.testing.assert_allclose([fit.params[k] for k in ("A", "B", "C_0", "R0")], (0.62, 1.2, 3000.0, 0.3), rtol=1e-5)
    fit = fit_curve(C[1:], richards(C[1:], 0.62, 1.8, 3000.0, 0.6, 0.3), form="richards", R0=R0)
    np.testing.assert_allclose(fit.predict(C[1:]), richards(C[1:], 0.62, 1.8, 3000.0, 0.6, 0.3), atol=1e-6)
    assert fit.params["A"] == pytest.approx(0.62, abs=1e-3)


def test_richards_at_nu_1_is_the_sigmoid():
    np.testing.assert_allclose(
        richards(C, 0.61, 1.92, 2542.0, 1.0, 0.35), sigmoid(C, 0.61, 1.92, 2542.0, 0.35), rtol=1e-14
    )
    assert float(gompertz(0.0, 0.6, 1.0, 100.0, 0.3)) == 0.3
    assert float(gompertz(1e30, 0.6, 1.0, 100.0, 0.3)) == pytest.approx(0.6)


def test_a_ceiling_at_its_bound_is_kept_and_said():
    y = gompertz(C[1:], 1.5, 1.0, 9000.0, 0.1)
    assert y.max() < 1.0
    for form in ("gompertz", "richards"):
        fit = fit_curve(C[1:], y, form=form)
        assert fit.params["A"] == 1.0
        assert "A" in fit.at_bound
        assert "at its bound: A" in str(fit)


def test_R0_of_a_form_without_one_is_refused():
    with pytest.raises(FitError, match=r"R0=0\.3: the power-law form has no R0 to fix"):
        fit_curve(C[1:], power_law(C[1:], 0.6, 1.0, 500.0), form="power-law", R0=0.3)


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
    trace = simulate(datasets.table1()["scalerl"], compute=C, rng=1)
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
    y = curve(C[1:]) + np.random.default_rng(2).normal(0, 0.0003, len(C) - 1)
    found = select_model(C[1:], y)
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
    assert saved["verdict"] == "undecided"
    assert len(saved["forms"]) == 7
    assert found.to_frame().loc["log-linear", "A"] != found.to_frame().loc["log-linear", "A"]


def test_fits_traces_and_arrays_agree_and_R0_may_be_missing():
    trace = datasets.load_demo()["scalerl"]
    one = select_model(trace)
    assert select_model(fit_trace(trace)).to_dict() == one.to_dict()
    free = select_model(trace.compute[8:], trace.pass_rate[8:])
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
        select_model(trace.compute[7:15], trace.pass_rate[7:15])


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
