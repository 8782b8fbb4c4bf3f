"""Tests of `rlscaling/forecasting/monitor.py`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from helpers.scalerl import RUN, TRUTH
from rlscaling import FitError, Trace, fit_trace, monitor, simulate
from rlscaling.forecasting.monitor import reference_fit


def test_monitor_is_quiet_on_the_curve_and_notices_a_fall() -> None:
    fit = fit_trace(RUN, max_compute=9000)
    healthy = monitor(RUN, fit)
    assert healthy.status == "healthy"
    assert healthy.cusum.max() < healthy.limit
    late = np.maximum(np.cumsum(RUN.compute > 12_000), 0)
    fallen = monitor(Trace(RUN.compute, RUN.pass_rate - 0.01 * late), fit)
    assert fallen.status == "alarm"
    assert fallen.direction == "below"
    noticed = fallen.alarms[0].compute
    assert np.sum((RUN.compute > 12_000) & (RUN.compute <= noticed)) <= 12
    assert fallen.headline.startswith("alarm: the run has left its curve: below it")
    assert fallen.to_dict()["alarms"][0]["kind"] == "left-curve"
    assert str(healthy).splitlines()[0].startswith("healthy")


def test_residuals_of_healthy_runs_are_standard_normal() -> None:
    """Sum of squares of 8 runs' residuals, chi-square: between 0.6 and 1.3 of its mean (the noise is taken large)."""
    z = []
    for seed in range(8):
        trace = simulate(TRUTH, compute=np.arange(0, 16_000, 216.2), rho=0.5, wander_sd=0.005, rng=seed)
        z.append(monitor(trace, fit_trace(trace, max_compute=8500)).z)
    assert 0.6 < np.mean(np.concatenate(z) ** 2) < 1.3


def with_columns(**columns: np.ndarray) -> Trace:
    return dataclasses.replace(RUN, columns={**RUN.columns, **columns})


def test_monitor_warns_of_truncation_entropy_and_a_stall() -> None:
    fit, n = fit_trace(RUN, max_compute=9000), len(RUN)
    trace = with_columns(truncation_rate=np.linspace(0.02, 0.15, n), entropy=np.geomspace(1.0, 0.01, n))
    kinds = [alarm.kind for alarm in monitor(trace, fit).alarms]
    assert kinds == ["truncation", "entropy"]
    fine = with_columns(truncation_rate=np.full(n, 0.09), entropy=np.geomspace(1.0, 0.1, n))
    assert monitor(fine, fit).healthy
    logged = with_columns(wall_time=600.0 * np.arange(n))
    assert monitor(logged, fit, idle=2900.0).healthy
    (alarm,) = monitor(logged, fit, idle=3100.0).alarms
    assert "no row for 3,100 s, where one came every 600 s" in alarm.message


def test_monitor_refuses_what_it_cannot_watch() -> None:
    fit = fit_trace(RUN, max_compute=9000)
    with pytest.raises(FitError, match="the trace is in tokens"):
        monitor(dataclasses.replace(RUN, compute_unit="tokens"), fit)
    with pytest.raises(FitError, match="too few to watch"):
        monitor(RUN, fit_trace(RUN, max_compute=2200))
    with pytest.raises(FitError, match="takes a Trace and a SigmoidFit"):
        monitor(fit, RUN)  # type: ignore[arg-type]
    C = np.arange(0.0, 8001.0, 200.0)
    flat = Trace(C, 0.4 + 0.005 * np.random.default_rng(0).standard_normal(len(C)))
    with pytest.raises(FitError, match="no curve to leave"):
        monitor(flat, fit_trace(flat))
    assert monitor(RUN.up_to(9000), fit).status == "waiting"
    assert "make the fit anew" in monitor(RUN, fit_trace(RUN, max_compute=5000)).notes[0]


def test_reference_lies_well_before_the_end() -> None:
    assert reference_fit(RUN.up_to(3200)) is None
    for end in (6000.0, 9000.0, 16_000.0):
        last = RUN.up_to(end).compute[-1]
        assert 1.3 < last / reference_fit(RUN.up_to(end)).compute_range[1] < 2.2


UNEQUAL = {
    "alternating": np.where(np.arange(81) % 2 == 0, 0.002, 0.02),
    "fewer prompts later": np.where(np.arange(81) < 30, 0.004, 0.02),
}


@pytest.mark.parametrize("sd", UNEQUAL.values(), ids=list(UNEQUAL))
def test_bug_weighted_runs_on_their_curve_raise_no_alarm(sd: np.ndarray) -> None:
    """Every later evaluation was judged by the noise of one of mean weight: most healthy runs raised an alarm."""
    C = np.arange(0, 16_001, 200.0)
    z = []
    for seed in range(6):
        run = Trace(C, TRUTH.predict(C) + np.random.default_rng(100 + seed).normal(0, 1, len(C)) * sd)
        report = monitor(run, fit_trace(run, weights=1.0 / sd**2, max_compute=8000))
        assert report.status == "healthy", seed
        z.append(report.z)
    assert 0.5 < np.mean(np.concatenate(z) ** 2) < 1.3  # standard normal, the noise taken large


def test_later_evaluations_of_a_weighted_fit_need_weights() -> None:
    w = np.linspace(1.0, 3.0, len(RUN))
    part = RUN.up_to(9000)
    fit = fit_trace(part, weights=w[: len(part)])
    with pytest.raises(FitError, match="weights of the later evaluations are not known; give weights="):
        monitor(RUN, fit)
    known = monitor(RUN, fit_trace(RUN, weights=w, max_compute=9000))
    np.testing.assert_allclose(monitor(RUN, fit, weights=w).z, known.z, atol=1e-6)
    with pytest.raises(FitError, match="the fit is not weighted"):
        monitor(RUN, fit_trace(part), weights=w)


def test_the_reference_fit_cuts_the_weights() -> None:
    w = np.linspace(1.0, 3.0, len(RUN))
    fit = reference_fit(RUN, weights=w)
    assert fit is not None
    np.testing.assert_array_equal(fit.data.weights, w[: len(fit.data)])


@pytest.mark.parametrize("kind", ["grows", "outliers"])
def test_other_noise_is_no_alarm(kind: str) -> None:
    """Runs whose noise grows, or with 3 % outliers, raised an alarm in .03 to .05."""
    C, alarms = np.linspace(0.0, 15_000.0, 100), 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 17])
        noise = 0.005 * rng.standard_normal(len(C))
        if kind == "grows":
            noise = noise * (1.0 + C / C[-1])
        else:
            noise += 0.03 * rng.standard_normal(len(C)) * (rng.random(len(C)) < 0.03)
        run = Trace(C, TRUTH.predict(C) + noise)
        fit = fit_trace(run, max_compute=7500, min_compute=0)
        alarms += fit.verdict.has_curve and not monitor(run, fit).healthy
    assert alarms <= 1
