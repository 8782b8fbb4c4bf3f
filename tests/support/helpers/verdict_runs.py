"""Simulated runs of a given length and noise, and what every printed fit obeys."""

from __future__ import annotations

import math

import numpy as np

from helpers.scalerl import P
from rlscaling.datasets import simulate
from rlscaling.fitting.sigmoid_fit import NO_BARE_CEILING
from rlscaling.fitting.verdict import Verdict
from rlscaling.printing.numbers import plus_minus


def chain(n, rho, sd, rng):
    """AR(1) noise written as its recursion."""
    e = np.empty(n)
    e[0] = rng.normal(0, sd)
    for i in range(1, n):
        e[i] = rho * e[i - 1] + rng.normal(0, sd * math.sqrt(1 - rho**2))
    return e


def run(end, rho=0.3, sd=0.003, seed=0, params=P, step=216.2):
    """A simulated run of Table 1 that ends at ``end`` times its C_mid."""
    compute = np.arange(0.0, end * params.C_mid, step)
    return simulate(params, compute=compute, rho=rho, wander_sd=sd, rng=seed)


def check_printed(fit):
    """The verdict leads every face of a result, and an unknown ceiling is never printed as a number."""
    name = f" [{fit.name}]" if fit.name else ""
    assert str(fit).splitlines()[0] == f"{fit.verdict}{name}: {fit.reason}"
    assert f"<b>{fit.verdict}{name}: " in fit._repr_html_()
    assert repr(fit).startswith(f"SigmoidFit({fit.verdict}, ")
    row = next(line for line in str(fit).splitlines() if line.strip().startswith("A "))
    if str(fit.verdict) in NO_BARE_CEILING:
        assert "not identified" in row
        assert "±" not in row
        assert "A = " not in fit.reason
    if str(fit.verdict) == "ceiling-not-identified" and fit.confidence_interval:
        assert " at least " in row
        assert f"(twice the data): {plus_minus(fit.at_twice[0], (fit.at_twice[2] - fit.at_twice[1]) / 4)}" in str(fit)
    if fit.verdict in (Verdict.FLAT, Verdict.FALLING):
        for name in ("B", "C_mid"):
            assert "not identified" in next(line for line in str(fit).splitlines() if line.strip().startswith(name))
