"""The digitised runs of Figure 1, and that they give the paper's own numbers [ScaleRL, Figure 1, A.4, A.7, Table 1]."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlscaling import extrapolate, fit_power_law, fit_trace
from rlscaling.datasets import figure1, load_demo, table1

# The paper's "50k": the evaluation nearest to it lies at 50,640, and compute is read to 1 %.
TO_50K = 51_000
DIGITISED = Path(__file__).parents[2].parent / "shared" / "data" / "traces2"

RUN, MOE = figure1()["scalerl-8b"], figure1()["scalerl-moe"]


def test_figure1_says_what_it_is():
    runs = figure1()
    assert list(runs) == ["scalerl-8b", "scalerl-moe"]
    assert sum(map(len, runs.values())) == 66
    for name, run in runs.items():
        assert run.name == name
        assert run.compute_unit == "gpu-hours"
        assert run.notes == ()
        assert run.metadata["simulated"] is False
        assert "Figure 1 of arXiv 2510.13786" in run.metadata["about"]
        assert "arXiv 2510.13786" in run.metadata["source"]
        assert run.metadata["license"].startswith("CC BY 4.0")
        assert "0.001 in pass rate, 1 % in compute" in run.metadata["accuracy"]
    assert not set(runs) & set(load_demo())


@pytest.mark.skipif(not DIGITISED.is_dir(), reason="the shared data lie beside a checkout only")
@pytest.mark.parametrize(("name", "file"), [("scalerl-8b", "scalerl_fig1_8b"), ("scalerl-moe", "scalerl_fig1_moe")])
def test_figure1_is_as_digitised(name, file):
    C, R = np.loadtxt(DIGITISED / f"{file}.csv", delimiter=",", skiprows=1, unpack=True)
    np.testing.assert_array_equal(figure1()[name].compute, C)
    np.testing.assert_array_equal(figure1()[name].pass_rate, R)


@pytest.mark.parametrize(
    ("low", "high", "A", "B"),
    [
        (1500, TO_50K, 0.645, 1.70),
        (0, TO_50K, 0.645, 1.70),
        (5000, TO_50K, 0.645, 1.67),
        (0, 100_000, 0.655, 1.56),
    ],
)
def test_paper_a7_windows(low, high, A, B):
    fit = fit_trace(RUN, min_compute=low, max_compute=high)
    assert fit.A == pytest.approx(A, abs=0.0065)
    assert fit.B == pytest.approx(B, abs=0.065)
    interval = fit.confidence_interval
    assert interval["A"][0] < A < interval["A"][1]
    assert interval["B"][0] < B < interval["B"][1]


@pytest.mark.parametrize(("low", "high", "A"), [(1500, 50_000, 1.0), (5000, 50_000, 0.74), (30_000, 60_000, 0.645)])
def test_paper_a4_power_law(low, high, A):
    # 1.0 is the bound; 0.74 from 22 points read off a picture is .725
    power_law = fit_power_law(RUN.compute, RUN.pass_rate, min_compute=low, max_compute=high)
    assert power_law.A == pytest.approx(A, abs=0.02)
    assert ("A" in power_law.at_bound) == (A == 1.0)


@pytest.mark.parametrize(
    ("run", "high", "A", "C_mid", "B"), [(RUN, TO_50K, 0.640, 10_579, 1.72), (MOE, 16_000, 0.710, 6_952, 1.65)]
)
def test_paper_grid(run, high, A, C_mid, B):
    fit = fit_trace(run, method="paper-grid", R0=run.metadata["R0_of_drawn_curve"], max_compute=high)
    assert fit.A == pytest.approx(A, abs=1e-9)
    assert round(fit.C_mid) == C_mid
    assert round(fit.B, 2) == B


def test_table1_of_the_moe_is_not_the_curve_of_figure1():
    # A and B of Table 1 are the grid's; its C_mid of 4,242 is not: at 6,000 hours that curve lies .03 above the points
    printed = table1(R0=MOE.metadata["R0_of_drawn_curve"])["scout-moe"]
    fit = fit_trace(MOE, method="paper-grid", R0=printed.R0, max_compute=16_000)
    assert (round(fit.A, 3), round(fit.B, 2)) == (printed.A, printed.B) == (0.710, 1.65)
    assert printed.C_mid == 4242
    middle = (MOE.compute > 4000) & (MOE.compute < 8000)
    residuals = printed.predict(MOE.compute[middle]) - MOE.pass_rate[middle]
    assert residuals.min() > 0.015
    assert np.mean(residuals) > 0.02
    drawn = fit.predict(MOE.compute[middle]) - MOE.pass_rate[middle]
    assert abs(np.mean(drawn)) < 0.004


def test_the_forecast_from_50k_holds_to_100k():
    forecast = extrapolate(fit_trace(RUN, max_compute=50_000), 100_000, rng=0)
    later = RUN.compute > 50_000
    assert later.sum() == 9
    error = forecast.fit.predict(RUN.compute[later]) - RUN.pass_rate[later]
    assert np.mean(np.abs(error)) < 0.01
    low, high = forecast.confidence_interval.at(0)
    whole = fit_trace(RUN).predict(100_000)
    assert low < whole < high


def test_the_moe_to_8k_is_not_identified():
    early = fit_trace(MOE, max_compute=8000)
    assert early.verdict == "ceiling-not-identified"
    later = MOE.compute > 8000
    assert MOE.pass_rate[later].max() < early.confidence_interval["A"][1]
