"""Tests of `rlscaling/fitting/standing.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling import fit_sigmoid
from rlscaling.fitting.standing import standing

C = np.arange(0, 16_001, 400.0)


def test_a_flat_run_stands_at_its_weighted_mean() -> None:
    """The error is that of a mean of independent evaluations, sd / sqrt(n), as their correlation is estimated."""
    inside = 0
    for seed in range(40):
        fit = fit_sigmoid(C, 0.1 + np.random.default_rng(seed).normal(0, 0.004, len(C)))
        if str(fit.verdict) != "flat":
            continue
        level, error = standing(fit)
        assert level == pytest.approx(fit.data.pass_rate[fit.data.used].mean())
        assert 0.5 < error / (0.004 / np.sqrt(fit.n_points)) < 4.0
        inside += abs(level - 0.1) < 2.0 * error
    assert inside >= 34
    w = np.where(C < 8000, 1.0, 3.0)
    noisy = 0.1 + np.random.default_rng(1).normal(0, 0.004, len(C))
    used = C >= 1500
    weighted = fit_sigmoid(C, noisy, weights=w)
    assert standing(weighted)[0] == pytest.approx(np.average(noisy[used], weights=w[used]))


def test_a_falling_run_stands_where_it_ends() -> None:
    fit = fit_sigmoid(C, 0.6 - 0.3 * C / C[-1] + np.random.default_rng(0).normal(0, 0.004, len(C)))
    assert str(fit.verdict) == "falling"
    level, error = standing(fit)
    assert abs(level - 0.3) < 2.0 * error < 0.05
    assert standing(fit, until=8000)[0] == pytest.approx(0.45, abs=0.02)
    assert standing(fit, until=0)[0] == pytest.approx(fit.data.pass_rate[fit.data.used][:3].mean())
