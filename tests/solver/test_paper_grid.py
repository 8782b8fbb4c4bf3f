"""The paper's procedure against its own words: a double loop over A and C_mid with curve_fit for B."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import curve_fit

from rlscaling import FitError, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.datasets import simulate, table1
from rlscaling.solver.paper_grid import GridSpec, fit_on_grid
from rlscaling.solver.problem import Problem

R0 = 0.35
HOURS = 216.2 * np.arange(7, 75)


def literal_loop(C, y, grid):
    """Lowest cell of the double loop [ScaleRL, A.5]: B by scipy's curve_fit with its default start of 1."""
    best = (np.inf, None)
    for A in grid.A:
        for C_mid in grid.C_mid:

            def law(C, B):
                return R0 + (A - R0) / (1.0 + (C_mid / C) ** B)  # noqa: B023

            try:
                (B,), _ = curve_fit(law, C, y, p0=[1.0], ftol=1e-13, xtol=1e-13, gtol=1e-13)
            except RuntimeError:  # no convergence: the paper's loop has no such cell
                continue
            ssr = float(np.sum((y - law(C, B)) ** 2))
            if ssr < best[0]:
                best = (ssr, (float(A), float(B), float(C_mid)))
    return best


def series():
    for k, name in enumerate(["scalerl", "batch-2048", "generations-8"]):
        p = table1(R0=R0)[name]
        C = HOURS[::4] * (1 if k != 1 else 3)
        yield name, C, simulate(p, compute=C, rho=0.6, wander_sd=0.005, rng=k).pass_rate


def compare(grid, C, y):
    problem = Problem(compute=C, weights=np.ones(len(C)), R0=R0)
    ours = fit_on_grid(problem, y, grid)
    ssr, (A, B, C_mid) = literal_loop(C, y, grid)
    assert (ours.params[0], ours.params[2]) == (A, C_mid)  # the same cell
    assert ours.params[1] == pytest.approx(B, rel=1e-6)
    assert ours.ssr == pytest.approx(ssr, rel=1e-9)
    assert ours.params[3] == R0


@pytest.mark.parametrize(("name", "C", "y"), list(series()), ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.filterwarnings("ignore:Covariance of the parameters:scipy.optimize.OptimizeWarning")
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_a_reduced_grid_equals_the_double_loop(name, C, y):
    compare(GridSpec(np.arange(110, 141, 3) * 0.005, np.linspace(100, 40000, 100)[2:33:3]), C, y)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "C", "y"), list(series()), ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.filterwarnings("ignore:Covariance of the parameters:scipy.optimize.OptimizeWarning")
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_the_full_grid_equals_the_double_loop(name, C, y):
    compare(GridSpec.of(None), C, y)


def test_the_default_grid_is_the_papers():
    grid = GridSpec.of(None)
    assert (len(grid.A), len(grid.C_mid)) == (71, 100)
    np.testing.assert_allclose(grid.A[[0, 1, -1]], [0.45, 0.455, 0.8])
    np.testing.assert_allclose(grid.C_mid[[0, -1]], [100, 40000])


def test_noise_free_data_on_a_cell_are_found_exactly():
    grid = GridSpec(np.arange(90, 161) * 0.005, np.array([1000.0, 2542.0, 5000.0]))
    y = sigmoid(HOURS, 0.61, 1.92, 2542.0, R0)
    found = fit_on_grid(Problem(compute=HOURS, weights=np.ones(len(HOURS)), R0=R0), y, grid)
    np.testing.assert_allclose(found.params, (0.61, 1.92, 2542.0, R0), rtol=1e-7)
    assert found.at_edge == ()


def test_the_edge_of_the_grid_is_said():
    y = sigmoid(HOURS, 0.9, 1.92, 2542.0, R0)
    fit = fit_sigmoid(HOURS, y, R0=R0, method="paper-grid")
    assert fit.A == pytest.approx(0.8)
    assert "A" in fit.at_bound
    assert any("edge of the grid" in note for note in fit.notes)


def test_weights_count_in_the_grid():
    y = simulate(table1(R0=R0)["scalerl"], compute=HOURS, rng=5).pass_rate
    w = np.linspace(0.1, 3.0, len(y))
    grid = {"A": [0.58, 0.60, 0.61, 0.62], "C_mid": [2000.0, 2500.0, 3000.0]}
    fit = fit_sigmoid(HOURS, y, R0=R0, method="paper-grid", grid=grid, weights=w)
    w = w / w.mean()
    best = np.inf
    for A in grid["A"]:
        for C_mid in grid["C_mid"]:
            for B in np.linspace(1.0, 3.0, 4001):
                best = min(best, float(np.sum(w * (y - sigmoid(HOURS, A, B, C_mid, R0)) ** 2)))
    assert fit.ssr <= best * (1 + 1e-12)
    assert fit.ssr == pytest.approx(best, rel=1e-4)


def test_fit_sigmoid_on_the_grid_reports_the_cell_and_its_residuals():
    y = simulate(table1(R0=R0)["scalerl"], compute=HOURS, rng=6).pass_rate
    fit = fit_sigmoid(HOURS, y, R0=R0, method="paper-grid")
    np.testing.assert_allclose(fit.residual, y - fit.predict(HOURS), atol=1e-14)
    assert fit.ssr == pytest.approx(float(fit.residual @ fit.residual))
    free = fit_sigmoid(HOURS, y, R0=R0)
    assert fit.ssr >= free.ssr
    assert abs(fit.A - free.A) < 0.01
    assert fit.verdict == free.verdict
    assert any("grid" in note for note in fit.notes)


def test_the_evaluation_at_compute_zero_fixes_R0():
    C = np.append(0.0, HOURS)
    y = sigmoid(C, 0.61, 1.92, 2542.0, 0.33)
    assert fit_sigmoid(C, y, method="paper-grid").R0 == pytest.approx(0.33)
    assert fit_sigmoid(C, y, method="paper-grid").R0_source == "fixed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a fixed R0"),
        ({"R0": "free"}, "needs a fixed R0"),
        ({"R0": 0.3, "R0_se": 0.02}, "needs a fixed R0"),
        ({"R0": 0.3, "A": 0.6}, "searches A and B itself"),
        ({"R0": 0.3, "B": 2.0}, "searches A and B itself"),
        ({"R0": 0.3, "grid": {"A": [0.6]}}, "grid must be a mapping"),
        ({"R0": 0.3, "grid": {"A": [], "C_mid": [1.0]}}, r"grid\['A'\] must hold"),
        ({"R0": 0.3, "grid": {"A": [0.6], "C_mid": [-1.0]}}, r"grid\['C_mid'\] must hold"),
    ],
)
def test_what_the_grid_cannot_do_is_refused(options, message):
    y = sigmoid(HOURS, 0.61, 1.92, 2542.0, R0)
    with pytest.raises(FitError, match=message):
        fit_sigmoid(HOURS, y, method="paper-grid", **options)


def test_bug_a_grid_below_R0_is_refused_in_words():
    """The paper's grid ends at A = 0.8; a run that starts above has no cell."""
    y = sigmoid(HOURS, 0.95, 1.92, 2542.0, 0.85)
    with pytest.raises(FitError, match="grid"):
        fit_sigmoid(HOURS, y, R0=0.85, method="paper-grid")


def test_bug_a_grid_above_A_max_does_not_give_an_A_above_it():
    """Values of A above A_max are no pass rates: refused, or never chosen."""
    y = sigmoid(HOURS, 0.95, 1.92, 2542.0, R0)
    grid = {"A": [0.9, 1.2], "C_mid": [2500.0, 20000.0]}
    assert fit_sigmoid(HOURS, y, R0=R0, method="paper-grid", grid=grid).A <= 1.0
    with pytest.raises(FitError, match="grid"):
        fit_sigmoid(HOURS, y, R0=R0, method="paper-grid", grid={"A": [1.2, 1.5], "C_mid": [2500.0]})
