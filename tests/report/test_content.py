"""Tests of `rlscaling/report/content.py`."""

from __future__ import annotations

import numpy as np

from rlscaling import make_report, simulate
from rlscaling.fitting.sigmoid_fit import SigmoidParams


def test_the_runs_with_pictures_are_the_best_ones() -> None:
    C = np.arange(0.0, 16_000.0, 400.0)
    truths = {f"r{k:02}": SigmoidParams(0.50 + 0.01 * k, 1.9, 2500.0, 0.35) for k in range(12)}
    runs = {name: simulate(p, compute=C, rng=0, wander_sd=0.002) for name, p in truths.items()}
    shown = [run.name for run in make_report(runs, rng=0, n_resamples=100).runs if run.detailed]
    assert shown == sorted(runs, reverse=True)[:8]
