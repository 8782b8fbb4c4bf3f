"""The ScaleRL row of Table 1: parameters, a simulated trace, the demo run."""

from __future__ import annotations

import numpy as np

from rlscaling import datasets, fit_sigmoid, simulate
from rlscaling.datasets import table1

P = table1()["scalerl"]
C = 216.2 * np.arange(75)
TRACE = simulate(P, compute=C, rho=0.5, wander_sd=0.004, rng=3)
TRUTH = datasets.table1()["scalerl"]
RUN = datasets.load_demo()["scalerl"]


def run_fit(end: float, seed: int = 0, step: float = 216.2, sd: float = 0.006):
    trace = simulate(TRUTH, compute=np.arange(0, end, step), rho=0.6, wander_sd=sd, rng=seed)
    return fit_sigmoid(trace.compute, trace.pass_rate)
