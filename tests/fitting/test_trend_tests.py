"""Tests of `rlscaling/fitting/trend_tests.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.scalerl import C
from helpers.verdict_runs import chain, check_printed
from rlscaling import fit_sigmoid
from rlscaling.fitting.verdict import Verdict


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_flat(rho, rng):
    fit = fit_sigmoid(C, 0.4 + chain(len(C), rho, 0.004, rng))
    assert fit.verdict is Verdict.FLAT
    assert "no rise beyond the noise" in fit.reason
    assert fit.compute_needed is None
    check_printed(fit)


@pytest.mark.parametrize("value", [0.0, 0.25, 0.3, 0.4, 0.7, 1.0])
@pytest.mark.parametrize("options", [{}, {"R0": "free"}, {"min_compute": 0}], ids=str)
def test_bug_exactly_constant_is_flat(value, options):
    fit = fit_sigmoid(C, np.full(len(C), value), **options)
    assert fit.verdict is Verdict.FLAT
    check_printed(fit)


@pytest.mark.parametrize("sd", [0.003, 0.008])
@pytest.mark.parametrize("options", [{}, {"R0": "free"}], ids=str)
def test_bug_falling_is_not_a_misfit_of_its_first_point(options, sd, rng):
    """The best rising curve is a constant there: its Jacobian is rounding noise, and no leverage follows from it."""
    fit = fit_sigmoid(C, 0.6 - C / 1e5 + chain(len(C), 0.2, sd, rng), **options)
    assert fit.verdict is Verdict.FALLING
    assert "the pass rate declines" in fit.reason
    check_printed(fit)


def test_falling_from_a_constant(rng):
    y = np.clip(0.4 - 0.25 / (1 + (6000 / np.maximum(C, 1)) ** 3) + chain(len(C), 0.2, 0.01, rng), 0, 1)
    assert fit_sigmoid(C, y).verdict in (Verdict.FALLING, Verdict.MISFIT)
