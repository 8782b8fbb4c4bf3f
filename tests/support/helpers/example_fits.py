"""Fits of one simulated run, one of each kind that a result may show."""

from __future__ import annotations

import math

import numpy as np

from helpers.scalerl import C, P
from rlscaling import fit_sigmoid, fit_trace
from rlscaling.datasets import simulate
from rlscaling.traces.trace import Trace

TRACE = simulate(P, compute=C, rho=0.3, wander_sd=0.003, rng=3, name="run7")
Y = TRACE.pass_rate

FITS = {
    "default": lambda: fit_sigmoid(C, Y),
    "trace": lambda: fit_trace(TRACE),
    "counts": lambda: fit_trace(Trace(C, Y, columns={"n_prompts": np.full(75, 100.0), "n_samples": np.full(75, 8.0)})),
    "steps": lambda: fit_trace(
        Trace(C, Y, columns={"step": np.arange(75) * 100.0}, metadata={"seed": 3, "tags": ["a", 1]})
    ),
    "R0 fixed": lambda: fit_sigmoid(C, Y, R0=0.31),
    "R0 free": lambda: fit_sigmoid(C, Y, R0="free"),
    "R0 anchored": lambda: fit_sigmoid(C, Y, R0=0.31, R0_se=0.05),
    "A given": lambda: fit_sigmoid(C, Y, A=0.61),
    "B given": lambda: fit_sigmoid(C, Y, B=1.9),
    "unbounded": lambda: fit_sigmoid(C, 100 * Y - 50, A_max=math.inf),
    "A_max": lambda: fit_sigmoid(C, Y, A_max=0.9, B_bounds=(0.5, 4.0)),
    "window": lambda: fit_sigmoid(C, Y, min_compute=2000, max_compute=12_000),
    "exclude": lambda: fit_sigmoid(C, Y, exclude=[(3000, 3500), (14_000, math.inf)]),
    "weights": lambda: fit_sigmoid(C, Y, weights=np.linspace(1, 3, 75)),
    "paper-grid": lambda: fit_sigmoid(C, Y, R0=0.35, method="paper-grid"),
    "own grid": lambda: fit_sigmoid(C, Y, R0=0.35, method="paper-grid", grid={"A": [0.6, 0.61], "C_mid": [2500, 2600]}),
    "tokens": lambda: fit_sigmoid(C * 1e9, Y, compute_unit="tokens", min_compute=1500e9),
    "early": lambda: fit_sigmoid(C[:16], Y[:16]),
    "too early": lambda: fit_sigmoid(C[:15], 0.35 + C[:15] * 1e-6),
    "few": lambda: fit_sigmoid(C[7:13], Y[7:13]),
    "flat": lambda: fit_sigmoid(C, 0.4 + 0.004 * np.sin(np.arange(75.0) ** 2)),
    "failed digits": lambda: fit_sigmoid(C / 3.0, Y, min_compute=500.1),
}
