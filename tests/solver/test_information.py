"""Tests of `rlscaling/solver/information.py`."""

from __future__ import annotations

import numpy as np

from helpers.verdict_runs import run
from rlscaling import fit_trace


def test_compute_needed_is_what_the_run_then_needs():
    # METHOD section 7: ScaleRL with this noise needs about 3.7 C_mid = 9,500 GPU-hours; the plan is made at 2 C_mid
    medians = []
    for seed in range(12):
        fit = fit_trace(run(2.0, rho=0.6, sd=0.006, seed=seed))
        if fit.compute_needed is not None:
            medians.append(fit.compute_needed.median)
    assert len(medians) >= 9
    assert 6_000 < np.median(medians) < 30_000
