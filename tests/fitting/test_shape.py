"""Flat, falling and misfit: public reports of wrong first words, each with its kind of fault."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest

from helpers.verdict_runs import chain
from rlscaling import fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid

STEPS = {"compute_unit": "steps", "min_compute": 0}


def law(C):
    return sigmoid(C, 0.61, 1.92, 2542.0, 0.35)


def verdicts(make, n):
    return Counter(str(fit_sigmoid(*make(np.random.default_rng(k)), **STEPS).verdict) for k in range(n))


@pytest.mark.parametrize("n", [12, 40])
def test_constants_are_flat_whatever_their_noise(n):
    C, said = np.arange(1.0, n + 1), Counter()
    for rho in (0.0, 0.4, 0.6):
        said += verdicts(lambda rng, rho=rho: (C, 0.4 + chain(n, rho, 0.02, rng)), 15)
    assert said["flat"] >= (36 if n == 12 else 40), said


def test_constants_of_unbounded_scores_are_flat_too():
    C = np.arange(1.0, 41)
    flat = 0
    for k in range(12):
        y = 4.0 + chain(40, 0.5, 2.0, np.random.default_rng(k))
        flat += fit_sigmoid(C, y, A_max=np.inf, **STEPS).verdict == "flat"
    assert flat >= 10


def test_a_rise_is_never_called_flat():
    t = np.linspace(0.0, 1.0, 12)
    said = verdicts(lambda rng: (t + 1, np.clip(0.05 + 0.35 * t + rng.normal(0, 0.03, 12), 0, 1)), 20)
    assert said["flat"] <= 1, said
    t = np.linspace(0.0, 1.0, 24)
    said = verdicts(lambda rng: (t + 1, np.clip(0.04 + 0.83 * t**2 + rng.normal(0, 0.05, 24), 0, 1)), 10)
    assert said["flat"] == 0, said


def test_ten_thousand_flat_rows_are_flat_within_two_seconds():
    began = time.process_time()
    y = -30.0 + np.random.default_rng(0).normal(0, 5.0, 9_751)
    assert fit_sigmoid(np.arange(1.0, 9_752), y, A_max=np.inf, **STEPS).verdict == "flat"
    assert time.process_time() - began < 20, "a guard: two seconds are usual"


@pytest.mark.parametrize("n", [8, 14, 24])
def test_a_hump_is_falling_or_a_misfit(n):
    C = np.linspace(0, 16000, n + 1)
    hump = law(C) - 0.2 * np.clip((C - 9000) / 7000, 0, 1)
    said = Counter()
    for k in range(10):
        fit = fit_sigmoid(C, hump + np.random.default_rng(k).normal(0, 0.008, n + 1))
        said[str(fit.verdict)] += 1
    assert said["falling"] + said["misfit"] >= 9, said


def test_a_healthy_plateau_is_no_decline():
    C = np.arange(0.0, 16001, 200)
    said = Counter(
        str(fit_sigmoid(C, law(C) + chain(len(C), 0.7, 0.006, np.random.default_rng(k))).verdict) for k in range(20)
    )
    assert said["falling"] + said["flat"] + said["misfit"] <= 2, said


@pytest.mark.parametrize(("bad", "drop"), [(1, 0.3), (2, 0.2), (4, 0.1), (6, 0.3)])
@pytest.mark.parametrize("n", [31, 81])
def test_bad_evaluations_in_the_middle_are_named_and_the_ceiling_of_the_others_is_given(n, bad, drop):
    C = np.linspace(0, 16000, n)
    y = law(C) + np.random.default_rng(0).normal(0, 0.004, n)
    y[n // 2 : n // 2 + bad] -= drop
    fit = fit_sigmoid(C, y)
    assert fit.verdict == "misfit"
    assert f"{C[n // 2]:.10g}" in fit.reason
    assert "--exclude" in fit.reason
    assert fit.compute_needed is None
    assert "; without" in fit.reason
    assert float(fit.reason.rsplit(" ", 1)[1]) == pytest.approx(0.61, abs=0.02)


def test_a_run_on_its_floor_has_no_ceiling():
    C = np.arange(1.0, 41)
    y = np.clip(0.01 + 0.04 * sigmoid(C, 1, 3, 12, 0) + np.random.default_rng(0).normal(0, 0.002, 40), 0, 1)
    fit = fit_sigmoid(C, y, **STEPS)
    assert fit.verdict == "ceiling-not-identified"
    assert "may not have begun" in fit.reason
