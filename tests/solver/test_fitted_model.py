"""Tests of `rlscaling/solver/fitted_model.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.scalerl import C, P
from helpers.solver_series import TABLE1, problem
from rlscaling import fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.fitting.data import build
from rlscaling.solver.fitted_model import fit_model
from rlscaling.solver.observations import Observations, R0Observation


def test_the_anchor_is_as_uncertain_as_one_evaluation():
    """The evaluation before RL has the noise of every other one, on top of how far it may sit off the sigmoid."""
    from rlscaling.solver.fitted_model import fit_model

    y = np.clip(P.predict(C) + np.random.default_rng(0).normal(0, 0.035, len(C)), 0, 1)
    fit = fit_sigmoid(C, y)
    anchor = fit.fitted_model().anchor
    assert anchor.standard_error == pytest.approx(math.hypot(0.015, 0.035), rel=0.15)
    assert not anchor.evaluated, "the noise is added once"
    problem, series, evaluated = build(fit.data, fit.options)
    assert (evaluated.standard_error, evaluated.evaluated) == (0.015, True)
    assert vars(fit_model(problem, series, evaluated).anchor) == vars(anchor)
    # a value given with its own error is taken at its word
    assert fit_sigmoid(C, y, R0=0.35, R0_se=0.02).fitted_model().anchor.standard_error == 0.02


def test_the_interval_of_R0_holds_the_truth_on_noisy_data():
    inside = 0
    for seed in range(40):
        y = P.predict(C) + np.random.default_rng(seed).normal(0, 0.035, len(C))
        low, high = fit_sigmoid(C, np.clip(y, 0, 1)).confidence_interval["R0"]
        inside += low <= P.R0 <= high
    assert inside >= 34


@pytest.mark.parametrize("name", TABLE1)
def test_noise_free_rows_are_recovered_with_an_anchor(name):
    p = TABLE1[name]
    C = np.linspace(0.3 * p.C_mid, 4 * p.C_mid, 40)
    y = sigmoid(C, *p.as_tuple())
    model = fit_model(problem(C), Observations(C, y, np.ones(40), C), R0Observation(0.0, 0.3, 0.02))
    np.testing.assert_allclose(model.params, p.as_tuple(), rtol=1e-9)
