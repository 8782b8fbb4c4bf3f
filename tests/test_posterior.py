"""The posterior on a grid: known truths, what was fixed, priors, and the forecast made of it."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling import FitError, Prior, bootstrap, datasets, extrapolate, fit_sigmoid, learn_prior, refit, simulate
from rlscaling.curves import sigmoid
from rlscaling.fit import model_of
from rlscaling.posterior import posterior
from rlscaling.priors import DEFAULT, SIGMOID_ONLY

TRUTH = datasets.table1()["scalerl"]


def run(end: float, seed: int = 0, step: float = 216.2, sd: float = 0.006):
    trace = simulate(TRUTH, compute=np.arange(0, end, step), rho=0.6, wander_sd=sd, rng=seed)
    return fit_sigmoid(trace.compute, trace.pass_rate)


def test_late_run_agrees_with_least_squares_and_the_truth() -> None:
    fit = run(20_000)
    boot = bootstrap(fit, scheme="posterior", rng=0)
    assert boot.scheme == "posterior"
    assert abs(np.median(boot.distribution[:, 0]) - fit.A) < 0.005
    low, high = boot.confidence_interval["A"]
    assert low < TRUTH.A < high
    ours, reference = high - low, np.ptp(bootstrap(fit, rng=0).confidence_interval["A"])
    assert 0.5 < ours / reference < 2.0


def test_where_the_rest_is_given_the_posterior_of_A_is_least_squares() -> None:
    """One shape, B given and C_mid near certain: A is normal with the mean of linear least squares."""
    C = np.arange(400.0, 16_000.0, 400.0)
    rng = np.random.default_rng(1)
    y = sigmoid(C, 0.61, 1.92, 2542.0, 0.35) + 0.005 * rng.standard_normal(len(C))
    fit = fit_sigmoid(C, y, R0=0.35, B=1.92, min_compute=0)
    prior = Prior(log_C_mid=(np.log(2542.0), 1e-3), relative=False, shapes=(("sigmoid", 1.0),), wander=(0.0,))
    A = posterior(model_of(fit), prior).draw(np.random.default_rng(0), 4000).parameters()[:, 0]
    s = (C / 2542.0) ** 1.92 / (1.0 + (C / 2542.0) ** 1.92)
    mean = float(s @ (y - 0.35 * (1 - s)) / (s @ s))  # independent noise: correlation only widens it
    assert A.mean() == pytest.approx(mean, abs=0.001)
    assert 0.7 < A.std() / (0.005 / np.sqrt(s @ s)) < 2.0


def test_early_forecasts_are_nearer_than_least_squares() -> None:
    """METHOD: data that end before 0.75 C_mid; least squares is far off at 12 times the data."""
    errors = []
    for seed in range(3):
        fit = run(0.75 * TRUTH.C_mid + 1500.0, seed)
        at = 12.0 * fit.compute_range[1]
        truth = float(TRUTH.predict(at))
        errors.append([abs(float(extrapolate(fit, at, method="auto", rng=0).pass_rate[0]) - truth),
                       abs(float(fit.predict(at)) - truth)])  # fmt: skip
    ours, least_squares = np.mean(errors, axis=0)
    assert ours < least_squares


@pytest.mark.slow
def test_intervals_of_auto_hold_the_truth() -> None:
    """Binomial: 24 intervals at 95 %, fewer than 19 would happen once in 1,000."""
    held = 0
    for seed in range(24):
        fit = run(6000.0, seed + 100)
        low, high = extrapolate(fit, 12_000.0, method="auto", rng=seed).confidence_interval[0]
        held += low <= float(TRUTH.predict(12_000.0)) <= high
    assert held >= 19


def test_same_seed_same_numbers() -> None:
    fit = run(8000.0)
    first, again, other = (extrapolate(fit, [9000, 16_000], method="auto", rng=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.distribution, again.distribution)
    assert not np.array_equal(first.distribution, other.distribution)
    assert first.method == "auto"
    assert np.all(np.diff(first.prediction_interval) > np.diff(first.confidence_interval) * 0.9)


def test_a_given_ceiling_and_exponent_stay_given() -> None:
    fit = refit(run(8000.0), A=0.6, B=2.0)
    draws = bootstrap(fit, scheme="posterior", rng=0).distribution
    assert np.abs(draws[:, 0] - 0.6).max() < 1e-3
    assert np.allclose(draws[:, 1], 2.0)


@pytest.mark.parametrize("R0", ["measured", "given", "free"])
def test_unbounded_scores_follow_their_scale(R0: str) -> None:
    """Another unit of the score moves the forecast and its interval by that unit, whatever R0 is."""
    C = np.arange(0.0 if R0 == "measured" else 400.0, 16_001.0, 400.0)
    y = sigmoid(C, 0.61, 1.92, 2542.0, 0.35) + 0.004 * np.random.default_rng(0).standard_normal(len(C))
    small, large = (
        fit_sigmoid(
            C, unit * y + shift, A_max=np.inf, min_compute=500, R0=unit * 0.35 + shift if R0 == "given" else None
        )
        for unit, shift in ((1.0, 0.0), (1000.0, -7.0))
    )
    a, b = (extrapolate(fit, 32_000.0, method="auto", rng=0) for fit in (small, large))
    assert b.pass_rate[0] == pytest.approx(1000.0 * a.pass_rate[0] - 7.0, rel=0.005)
    assert np.ptp(b.confidence_interval[0]) == pytest.approx(1000.0 * np.ptp(a.confidence_interval[0]), rel=0.02)


def test_the_interval_of_a_new_run_follows_the_spread_between_seeds() -> None:
    fit = run(8000.0)
    none, much = (extrapolate(fit, 16_000.0, method="auto", seed_sd=sd, rng=0) for sd in (0.0, 0.1))
    assert np.array_equal(none.distribution, much.distribution)
    assert np.array_equal(none.distribution_new_run, none.distribution)
    assert much.distribution_new_run.std() > 0.08
    with pytest.raises(FitError, match="seed_sd=-0.1 must be"):
        extrapolate(fit, 16_000.0, method="auto", seed_sd=-0.1)


def test_many_points_are_averaged_and_free_R0_works() -> None:
    fit = fit_sigmoid(
        *(lambda t: (t.compute, t.pass_rate))(simulate(TRUTH, compute=np.arange(1600, 16_000, 20.0), rng=0))
    )
    assert fit.R0_source == "free"
    found = extrapolate(fit, 30_000.0, method="auto", rng=0)
    assert abs(found.pass_rate[0] - float(TRUTH.predict(30_000.0))) < 0.02


def test_a_family_of_runs_gives_a_prior() -> None:
    family = [run(20_000.0, seed) for seed in range(3)]
    prior = learn_prior(family)
    assert prior.A[0] == pytest.approx(0.61, abs=0.01)
    assert not prior.relative
    early = run(3300.0, 9)
    at = 20_000.0
    with_family, without = (extrapolate(early, at, method="auto", prior=p, rng=0) for p in (prior, None))
    truth = float(TRUTH.predict(at))
    assert abs(with_family.pass_rate[0] - truth) < 0.02
    assert np.ptp(with_family.confidence_interval) < np.ptp(without.confidence_interval)
    assert "3 runs" in with_family.notes[-1]


def test_errors_of_priors_and_methods() -> None:
    fit = run(8000.0)
    with pytest.raises(FitError, match="a prior needs 3"):
        learn_prior([fit])
    with pytest.raises(FitError, match="takes SigmoidFits, not int"):
        learn_prior([1])  # type: ignore[list-item]
    with pytest.raises(FitError, match="no mean with a positive sd"):
        Prior(A=(0.6, 0.0))
    with pytest.raises(FitError, match="must name sigmoid or slow"):
        Prior(shapes=(("cubic", 1.0),))
    with pytest.raises(FitError, match="finite sizes"):
        Prior(wander=())
    with pytest.raises(FitError, match="length=0 must be positive"):
        Prior(length=0.0)
    with pytest.raises(FitError, match="unknown; choose"):
        extrapolate(fit, 1e4, method="magic")
    with pytest.raises(FitError, match='used with method="auto" only'):
        extrapolate(fit, 1e4, prior=DEFAULT)
    with pytest.raises(FitError, match="replicates of the sigmoid"):
        extrapolate(fit, 1e4, method="auto", bootstrap=bootstrap(fit, n_resamples=10, rng=0))
    with pytest.raises(FitError, match="takes a Prior"):
        extrapolate(fit, 1e4, method="auto", prior=0.5)  # type: ignore[arg-type]
    with pytest.raises(FitError, match="unbounded scores"):
        learn_prior([refit(fit, A_max=np.inf)])


@pytest.mark.parametrize("truth", ["sigmoid", "slow"])
def test_a_long_run_tells_its_shape(truth: str) -> None:
    C = np.arange(0.0, 40_001.0, 400.0)
    slow = 0.35 + 0.26 * (0.5 + np.arctan(1.92 * np.log(np.maximum(C, 1e-9) / 2542.0)) / np.pi)
    curve = slow if truth == "slow" else sigmoid(C, 0.61, 1.92, 2542.0, 0.35)
    model = model_of(fit_sigmoid(C, curve + 0.004 * np.random.default_rng(0).standard_normal(len(C)), min_compute=500))
    found = posterior(model, DEFAULT)
    assert found.shape_probability(truth) > 0.95
    assert found.shape_probability("sigmoid") + found.shape_probability("slow") == pytest.approx(1.0)
    assert posterior(model, SIGMOID_ONLY).shape_probability("slow") == 0.0
