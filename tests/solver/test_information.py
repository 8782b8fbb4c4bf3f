"""Tests of `rlscaling/solver/information.py`."""

from __future__ import annotations

import numpy as np

from helpers.verdict_runs import run
from rlscaling import fit_trace
from rlscaling.solver.information import compute_needed


def test_compute_needed_is_what_the_run_then_needs():
    # METHOD section 7: ScaleRL with this noise needs about 3.7 C_mid = 9,500 GPU-hours; the plan is made at 2 C_mid
    medians = []
    for seed in range(12):
        fit = fit_trace(run(2.0, rho=0.6, sd=0.006, seed=seed))
        if fit.compute_needed is not None:
            medians.append(fit.compute_needed.median)
    assert len(medians) >= 9
    assert 6_000 < np.median(medians) < 30_000


def test_weights_count_as_information():
    """Evaluations of a tenth of the weight from half of the run on: more of them are needed than at equal weights."""
    trace = run(2.0, rho=0.0, sd=0.006, seed=1)
    later = np.arange(len(trace)) >= len(trace) // 2
    needed = []
    for weights in (None, np.full(len(trace), 3.0), np.where(later, 0.1, 1.0)):
        model = fit_trace(trace, weights=weights).fitted_model()
        draws = np.tile(fit_trace(trace).params.as_tuple(), (50, 1))
        needed.append(np.median(compute_needed(model, draws, 0.005)))
    assert needed[1] == needed[0] < needed[2]
