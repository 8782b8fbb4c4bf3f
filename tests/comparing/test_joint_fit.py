"""Tests of `rlscaling/comparing/joint_fit.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from helpers.recipe_fits import SCALERL, C, fitted, noisy
from rlscaling import compare, fit_sigmoid
from rlscaling.comparing.joint_fit import JointData, common_ceiling, fit_group, refit_with_fixed
from rlscaling.comparing.recipe_estimate import Scope
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.solver.intervals import half_width_68
from rlscaling.solver.variable_projection import solve


def test_series_with_held_R0_and_A_fit_as_the_plain_solver_does():
    model = fitted(SCALERL, 5).fitted_model()
    Y = np.array([noisy(SCALERL, seed)[model.series.compute[0] <= C] for seed in range(4)])[:, -model.n :]
    for R0, A in ((0.34, None), (0.36, None), (0.35, 0.62), (0.35, 0.60)):
        problem = replace(model.problem, compute=model.series.compute, weights=model.series.weights, R0=R0, A=A)
        plain = solve(problem, Y, rtol=1e-13).draws()
        held = refit_with_fixed(model, Y, np.full(4, R0), None if A is None else np.full(4, A), point=True)
        np.testing.assert_allclose(held, plain, rtol=2e-5)


def test_A_stays_at_its_bound_when_R0_is_held():
    steep = fit_sigmoid(C, np.clip(0.3 + 0.04 * C / 1000, 0, 1)[: len(C)])
    model = steep.fitted_model()
    held = refit_with_fixed(model, model.series.y[None, :], np.array([0.3]), None, point=True)
    assert held[0, 0] <= 1.0 + 1e-12


def test_common_ceiling_is_stationary_in_every_draw(three):
    pair = compare({name: three[name] for name in ("fast", "like")}, rng=0, n_resamples=100)
    group, R0 = pair.group, pair.R0_draws
    series = [group.series(i) for i in range(2)]
    models = group.averaged  # the replicates have the rows of their averages
    A, _ = common_ceiling(models, group.series, R0, pair.recipes[0].ceilings(Scope.RECIPE))

    def cost(ceiling):
        total = np.zeros(len(ceiling))
        for model, Y in zip(models, series, strict=True):
            p = refit_with_fixed(model, Y, R0, ceiling)
            r = Y[:, : model.n] - sigmoid(model.series.compute[None, :], *(p[:, j : j + 1] for j in range(4)))
            total += (r * r).sum(axis=1) / model.noise.sd_long_run**2
        return total

    best = cost(A)
    for step in (-2e-3, 2e-3):
        assert np.all(cost(A + step) > best * (1 - 1e-7))


def test_shared_R0_is_the_joint_least_squares_fit_to_first_order():
    fits = [fitted(SCALERL, 70 + k, R0="free", min_compute=0) for k in range(4)]
    group = JointData(tuple(fit.fitted_model() for fit in fits), tuple((k,) for k in range(4)), 400, 1)
    found = fit_group(group, shared_R0=True, levels=[None] * 4)
    own = np.array([fit.R0 for fit in fits])
    assert own.min() < found.R0 < own.max()
    assert half_width_68(found.R0_draws) < found.R0_error.min()
