"""Noise, wander and departures from the law: what their posterior learns from a run, and what its draws look like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.scalerl import P
from helpers.verdict_runs import chain
from rlscaling import fit_sigmoid
from rlscaling.solver.departures import HORIZON, SIZES, Departures, SizePrior, drift_clock, join


def late_run(n=70, end=40_000.0, noise=0.003, seed=0, extra=lambda C: 0.0 * C):
    C = np.linspace(0.0, end, n)
    y = P.predict(C) + extra(C) + np.random.default_rng(seed).normal(0, noise, n)
    return fit_sigmoid(C, y).fitted_model().averaged


def test_the_prior_of_a_size_is_a_distribution():
    prior = SizePrior(none=0.25, median=0.02, spread=0.7)
    sizes = np.concatenate([[0.0], 0.02 * 2.0 ** np.arange(-12, 13)])
    assert np.exp(prior.log_density(sizes)).sum() == pytest.approx(1.0, abs=1e-3)


def test_the_clock_stands_still_on_the_floor_and_runs_like_log_compute_after_the_bend():
    clock = drift_clock(np.array([0.0, 10.0, 1e6, 2e6]), 1.9, 2500.0)
    assert clock[0] == 0.0
    assert clock[1] < 1e-4
    assert clock[3] - clock[2] == pytest.approx(np.log(2.0), rel=1e-4)


def test_probabilities_add_up_and_draws_have_the_shape_of_the_run():
    model = late_run()
    errors = model.errors
    assert errors.probability.sum() == pytest.approx(1.0)
    assert errors.probability.shape == errors.rss.shape
    assert errors.probability.shape[1:] == (len(SIZES), len(SIZES))
    drawn, departures = errors.draw(np.random.default_rng(0), 300)
    assert drawn.shape == (300, model.n)
    assert departures.of_ceiling().shape == (300,)
    again, _ = model.errors.draw(np.random.default_rng(0), 300)
    np.testing.assert_array_equal(drawn, again)


def test_the_noise_of_the_draws_is_that_of_the_run():
    drawn, _ = late_run(noise=0.004).errors.draw(np.random.default_rng(0), 2000)
    last_third = np.diff(drawn[:, 30:], axis=1)
    assert float(np.sqrt(np.mean(last_third**2) / 2)) == pytest.approx(0.004, rel=0.3)


def test_a_long_plateau_shows_that_a_run_drifts_little():
    short, long = late_run(end=12_000), late_run(end=200_000, n=200)
    drift = [np.std(model.errors.draw(np.random.default_rng(0), 2000)[1].rate) for model in (short, long)]
    assert drift[1] < 0.8 * drift[0]


def test_the_same_wander_logged_more_often_gives_no_narrower_interval():
    """An independent check: 40 to 640 evaluations of one wander held .965 to .59 when each counted for itself."""
    C = np.linspace(0.0, 16_000.0, 641)
    widths = []
    for every in (16, 4, 1):
        of_seeds = []
        for seed in range(6):
            wander = chain(641, float(np.exp(-25 / 400)), 0.006, np.random.default_rng(seed))
            fit = fit_sigmoid(C[::every], (P.predict(C) + wander)[::every])
            of_seeds.append(np.ptp(fit.confidence_interval["A"]))
        widths.append(np.mean(of_seeds))
    assert min(widths) > 0.6 * max(widths), widths


def test_a_drift_that_shows_is_learned():
    law = late_run(end=100_000, n=120)
    drifting = late_run(end=100_000, n=120, extra=lambda C: 0.02 * np.sin(np.log1p(C) * 4.0) * (C > 5000))
    drift = [np.std(model.errors.draw(np.random.default_rng(0), 2000)[1].rate) for model in (law, drifting)]
    assert drift[1] > 1.5 * drift[0]


def test_departures_grow_beyond_the_data_and_are_continuous_at_their_end():
    one = Departures(np.array([0.01]), np.array([0.02]), 1.9, 2500.0, 20_000.0)
    inside, at_end, just_after, far = one.at(np.array([100.0, 20_000.0, 20_000.01, HORIZON * 20_000.0]))[0]
    assert abs(inside) < 0.001
    assert at_end == pytest.approx(0.01)
    assert just_after == pytest.approx(0.01, abs=1e-4)
    assert far == pytest.approx(one.of_ceiling()[0])
    assert far > 0.03
    both = join([one, replace(one, rate=np.array([0.0]))])
    assert both.of_ceiling().tolist() == [far, pytest.approx(0.01)]


def test_runs_leave_their_plateau_further_upwards():
    _, departures = late_run().errors.draw(np.random.default_rng(0), 4000)
    low, high = np.quantile(departures.rate, [0.025, 0.975])
    assert high > 2.0 * abs(low)


def test_a_constant_run_has_no_departures():
    C = np.linspace(0.0, 16_000.0, 41)
    fit = fit_sigmoid(C, 0.4 + 0.0 * C)
    _, departures = fit.fitted_model().averaged.errors.draw(np.random.default_rng(0), 50)
    assert np.all(departures.of_ceiling() == 0.0)


def test_standard_errors_that_vary_along_the_run_are_used():
    """Half of the evaluations on few prompts: their noise is large, and that of the others is not."""
    from rlscaling import Trace, fit_trace

    C = np.linspace(0.0, 30_000.0, 45)
    se = np.where(np.arange(45) % 2 == 0, 0.002, 0.02)
    y = P.predict(C) + se * np.random.default_rng(3).standard_normal(45)
    known = fit_trace(Trace(C, y, columns={"pass_rate_se": se})).fitted_model()
    drawn, _ = known.errors.draw(np.random.default_rng(0), 2000)
    noisy = known.series.se > 0.01
    spread = np.std(drawn[:, 20:], axis=0)
    assert spread[noisy[20:]].mean() > 3.0 * spread[~noisy[20:]].mean()


def test_wander_and_independent_noise_are_told_apart():
    C = np.linspace(0.0, 60_000.0, 400)
    rng = np.random.default_rng(0)
    white = fit_sigmoid(C, P.predict(C) + rng.normal(0, 0.01, 400)).fitted_model().averaged
    wander = fit_sigmoid(C, P.predict(C) + chain(400, 0.98, 0.01, rng)).fitted_model().averaged
    assert white.errors.probability[0].sum() > 0.3
    assert wander.errors.probability[0].sum() < 0.05
