"""Tests of `rlscaling/fitting/residual_checks.py`."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.scalerl import C, P
from helpers.verdict_runs import chain, check_printed
from rlscaling import fit_sigmoid, refit
from rlscaling.fitting.verdict import Verdict


@pytest.mark.parametrize("i", [20, 40, 60])
@pytest.mark.parametrize("size", [-0.1, 0.08])
def test_a_single_outlier_is_named(i, size, rng):
    y = P.predict(C) + chain(len(C), 0.3, 0.004, rng)
    y[i] += size
    fit = fit_sigmoid(C, y)
    assert fit.verdict is Verdict.MISFIT
    assert fit.reason.startswith("the point at ")
    assert f"GPU-hours (pass rate {y[i]:.4g}" in fit.reason
    assert "exclude" in fit.reason
    check_printed(fit)
    cleaned = refit(fit, exclude=[(C[i], C[i])])
    assert cleaned.verdict in (Verdict.IDENTIFIED, Verdict.APPROXIMATE)
    assert pytest.approx(P.A, abs=0.02) == cleaned.A


def test_bug_the_outlier_is_named_so_that_it_can_be_excluded(rng):
    """12,972 GPU-hours is not 12,970: a range pasted from the sentence must hold the point."""
    y = P.predict(C) + chain(len(C), 0.3, 0.004, rng)
    y[60] -= 0.1
    reason = fit_sigmoid(C, y).reason
    named = float(reason.split("the point at ")[1].split(" GPU-hours")[0].replace(",", ""))
    assert named == pytest.approx(C[60], rel=1e-9)


def collapsed(rng, drop, start=50, sd=0.004):
    y = P.predict(C) + chain(len(C), 0.2, sd, rng)
    y[start:] -= np.linspace(0, drop, len(C) - start)
    return y


@pytest.mark.parametrize("drop", [0.1, 0.25])
def test_bug_a_rise_and_collapse_is_a_misfit_or_falling(drop, rng):
    """A run that loses its gain is no noise around a sigmoid, however smoothly it falls (rho 0.95 absorbs it)."""
    fit = fit_sigmoid(C, collapsed(rng, drop))
    assert fit.verdict in (Verdict.MISFIT, Verdict.FALLING)
    check_printed(fit)


def test_a_sudden_collapse_is_a_misfit(rng):
    y = P.predict(C) + chain(len(C), 0.2, 0.004, rng)
    y[60:] = 0.1 + chain(15, 0.2, 0.004, rng)
    assert fit_sigmoid(C, y).verdict in (Verdict.MISFIT, Verdict.FALLING)


@pytest.mark.parametrize("n_late", [3, 4, 6])
@pytest.mark.parametrize("drop", [0.06, 0.1, 0.3])
def test_a_run_that_collapses_at_its_end_is_falling(n_late, drop):
    """A healthy run whose last few evaluations fall step by step: the reason says from where on, and what to do."""
    falling = named = 0
    compute = C[:65]
    for seed in range(20):
        y = P.predict(compute) + chain(len(compute), 0.3, 0.004, np.random.default_rng(seed))
        y[-n_late:] -= np.linspace(drop / n_late, drop, n_late)
        fit = fit_sigmoid(compute, np.clip(y, 0, 1))
        falling += fit.verdict is Verdict.FALLING
        found = re.search(r"from ([\d.]+) GPU-hours on.*\(--max-compute ([\d.]+)\) fits the part before", fit.reason)
        if found:
            first, last_good = (int(np.argmin(np.abs(compute - float(g)))) for g in found.groups())
            assert float(found[1]) == pytest.approx(compute[first], rel=1e-9)
            assert last_good == first - 1
            # the first step down can be as small as the noise: then the second is the first to be seen
            named += first - (len(compute) - n_late) in (0, 1)
    assert falling >= 18
    assert named >= 18


def test_what_is_left_of_a_collapsed_run_can_be_fitted():
    compute = C[:65]
    y = P.predict(compute) + chain(len(compute), 0.3, 0.004, np.random.default_rng(0))
    y[-6:] -= np.linspace(0.05, 0.3, 6)
    fit = fit_sigmoid(compute, y)
    check_printed(fit)
    before = refit(fit, max_compute=float(re.search(r"--max-compute ([\d.]+)", fit.reason)[1]))
    assert before.verdict.identifies_ceiling
    assert before.A == pytest.approx(P.A, abs=0.02)


@pytest.mark.slow
def test_healthy_runs_are_not_taken_for_collapses():
    """150 runs of 65 evaluations, with correlations of the noise up to 0.8: about one in a hundred at most."""
    rng = np.random.default_rng(65)
    falling = 0
    for k in range(150):
        rho, sd = ((0.0, 0.004), (0.3, 0.004), (0.6, 0.006), (0.8, 0.010))[k % 4]
        y = P.predict(C[:65]) + chain(65, rho, sd, rng)
        falling += fit_sigmoid(C[:65], np.clip(y, 0, 1)).verdict is Verdict.FALLING
    assert falling <= 2
