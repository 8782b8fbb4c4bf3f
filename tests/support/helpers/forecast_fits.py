"""A fit, its bootstrap, and the fit of the first hours of the same run."""

from __future__ import annotations

from helpers.scalerl import C, P
from rlscaling import bootstrap, fit_trace
from rlscaling.datasets import simulate

TRACE = simulate(P, compute=C, rho=0.3, wander_sd=0.003, rng=3)
FIT = fit_trace(TRACE)
BOOT = bootstrap(FIT, rng=0, n_resamples=400)
EARLY = fit_trace(TRACE.up_to(2600))
