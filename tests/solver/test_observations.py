"""Averages of neighbouring evaluations."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling import fit_sigmoid
from rlscaling.solver.fitted_model import MAX_AVERAGES
from rlscaling.solver.observations import Observations


def series(n, **more):
    C = np.linspace(10.0, 1000.0, n)
    return Observations(C, np.sqrt(C), np.ones(n), C, **more)


def test_few_evaluations_are_left_as_they_are():
    few = series(40)
    assert few.averaged(48) is few
    assert few.weight_of_average(48) == 1.0


def test_averages_keep_order_mean_and_the_weight_of_all():
    many = series(1000, se=np.full(1000, 0.1), n_rollouts=np.full(1000, 16.0))
    few = many.averaged(48)
    assert len(few) == 48
    assert np.all(np.diff(few.compute) > 0)
    assert few.weights.mean() == pytest.approx(1.0)
    assert np.average(few.y, weights=few.weights) == pytest.approx(many.y.mean())
    assert few.se.mean() == pytest.approx(0.1 / np.sqrt(1000 / 48), rel=0.02)
    assert few.n_rollouts.sum() == 16_000
    assert many.weight_of_average(48) == pytest.approx(1000 / 48)


def test_a_fit_on_averages_has_the_same_parameters_and_the_anchor_its_weight():
    C = np.linspace(0.0, 16_000.0, 801)
    fit = fit_sigmoid(C, 0.35 + 0.26 / (1 + (2542 / np.maximum(C, 1e-9)) ** 1.92))
    model = fit.fitted_model()
    few = model.averaged
    assert few.params == model.params
    assert few.n == MAX_AVERAGES
    assert len(few.problem.compute) == MAX_AVERAGES + 1
    share = [m.problem.weights[-1] / m.problem.weights[:-1].sum() for m in (model, few)]
    assert share[1] == pytest.approx(share[0])
