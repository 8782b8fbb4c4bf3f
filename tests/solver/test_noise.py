"""AR(1) noise against its explicit covariance, its theory, and long simulated chains."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling.solver.noise import RHO_GRID, NoisePosterior, noise_posterior, simulate_ar1, spacing_ratio, whiten


def ar1_correlation(rho, ratio):
    """Correlation matrix rho**|t_i - t_j| of a chain observed at uneven times."""
    t = np.concatenate([[0.0], np.cumsum(ratio)])
    return rho ** np.abs(t[:, None] - t[None, :])


def chain(n, rho, sd, seed):
    """A stationary AR(1) chain written as its recursion."""
    rng = np.random.default_rng(seed)
    e = np.empty(n)
    e[0] = rng.normal(0, sd)
    for i in range(1, n):
        e[i] = rho * e[i - 1] + rng.normal(0, sd * np.sqrt(1 - rho**2))
    return e


UNEVEN = np.array([1.0, 0.3, 2.5, 1.0, 0.7, 4.0, 1.0, 1.0, 0.05])


def test_spacing_ratio():
    np.testing.assert_allclose(spacing_ratio(np.array([0.0, 2.0, 4.0, 10.0])), [1.0, 1.0, 3.0])
    logged = np.round(216.2 * np.arange(50) * 1e6) / 1e6
    assert spacing_ratio(logged).tolist() == [1.0] * 49  # even up to rounding is even
    for factor in (1e-9, 1e24):
        assert spacing_ratio(logged * factor).tolist() == [1.0] * 49


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("ratio", [np.ones(9), UNEVEN], ids=["even", "uneven"])
def test_whitening_is_the_inverse_cholesky_factor_of_the_covariance(rho, ratio):
    # oracle: numpy's Cholesky factor of the AR(1) correlation; innovation variance is 1 - rho^2 at the median gap
    covariance = ar1_correlation(rho, ratio) / (1.0 - rho**2)
    z = np.random.default_rng(1).normal(size=(10, 3))
    expected = np.linalg.solve(np.linalg.cholesky(covariance), z)
    np.testing.assert_allclose(whiten(z, rho, ratio), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(whiten(z[:, 0], rho, ratio), expected[:, 0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ratio", [np.ones(19), np.tile(UNEVEN, 3)[:19]], ids=["even", "uneven"])
def test_posterior_is_the_marginal_likelihood_of_the_explicit_covariance(ratio):
    # oracle: log p(rho) = -log|S|/2 - log|X' S^-1 X|/2 - (n - k)/2 log RSS, with S written out
    rng = np.random.default_rng(2)
    n, k = 20, 3
    X, e = rng.normal(size=(n, k)), rng.normal(size=n)
    log_p = []
    for rho in RHO_GRID:
        S = ar1_correlation(rho, ratio) / (1.0 - rho**2)
        inverse = np.linalg.inv(S)
        M = X.T @ inverse @ X
        rss = e @ inverse @ e - e @ inverse @ X @ np.linalg.solve(M, X.T @ inverse @ e)
        log_p.append(-0.5 * np.linalg.slogdet(S)[1] - 0.5 * np.linalg.slogdet(M)[1] - 0.5 * (n - k) * np.log(rss))
    expected = np.exp(np.array(log_p) - max(log_p))
    found = noise_posterior(e, X, ratio)
    np.testing.assert_allclose(found.probability, expected / expected.sum(), rtol=1e-7)
    assert found.dof == n - k
    assert found.n_points == n


def test_whitened_sum_of_squares_is_that_of_generalised_least_squares():
    rng = np.random.default_rng(3)
    X, e = rng.normal(size=(10, 2)), rng.normal(size=10)
    found = noise_posterior(e, X, UNEVEN)
    for rho, rss in zip(found.rho, found.rss, strict=True):
        Xw, ew = whiten(X, rho, UNEVEN), whiten(e, rho, UNEVEN)
        assert rss == pytest.approx(np.linalg.lstsq(Xw, ew, rcond=None)[1][0], rel=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8])
def test_posterior_finds_the_correlation_of_a_long_chain(rho):
    n, sd = 2000, 0.006
    found = noise_posterior(chain(n, rho, sd, seed=4), np.ones((n, 1)), np.ones(n - 1))
    assert found.rho_mean == pytest.approx(rho, abs=0.06)
    # the estimate of sd has relative error sqrt((1 + rho^2) / (1 - rho^2) / 2n)
    assert found.sd_marginal == pytest.approx(sd, rel=0.12)
    expected = sd * np.sqrt((1 + rho) / (1 - rho))
    assert found.sd_long_run == pytest.approx(expected, rel=0.25)


def test_posterior_finds_the_correlation_at_uneven_times():
    rng = np.random.default_rng(5)
    n, rho = 3000, 0.6
    ratio = rng.choice([0.5, 1.0, 1.0, 3.0], n - 1)
    e = simulate_ar1(rng, np.array([rho]), np.array([0.01]), ratio)[0]
    found = noise_posterior(e, np.ones((n, 1)), ratio)
    assert found.rho_mean == pytest.approx(rho, abs=0.06)
    assert found.sd_marginal == pytest.approx(0.01, rel=0.1)


def test_the_scale_of_the_columns_and_empty_columns_do_not_matter():
    rng = np.random.default_rng(6)
    X, e = rng.normal(size=(30, 3)), rng.normal(size=30)
    plain = noise_posterior(e, X, np.ones(29))
    scaled = noise_posterior(e, X * np.array([1e-5, 1e5, 1.0]), np.ones(29))
    np.testing.assert_allclose(scaled.probability, plain.probability, rtol=1e-8)
    padded = noise_posterior(e, np.column_stack([X, np.zeros(30)]), np.ones(29))
    np.testing.assert_allclose(padded.probability, plain.probability, rtol=1e-12)
    assert padded.dof == plain.dof


def test_a_prior_row_restrains_a_parameter_without_being_noise():
    # oracle: a very tight row on the mean is the same as fitting no mean at all
    e = chain(60, 0.5, 0.01, seed=7) + 0.02
    tight = noise_posterior(e, np.ones((60, 1)), np.ones(59), np.array([[1e6]]))
    none = noise_posterior(e, np.zeros((60, 1)), np.ones(59))
    np.testing.assert_allclose(tight.probability, none.probability, rtol=1e-4)
    assert tight.dof == none.dof == 60


@pytest.mark.parametrize("ratio", [np.ones(4), np.array([1.0, 0.5, 3.0, 1.0])], ids=["even", "uneven"])
def test_simulated_chains_have_the_covariance_of_the_theory(ratio):
    size, rho, sd = 40_000, 0.6, 2.0
    x = simulate_ar1(np.random.default_rng(8), np.full(size, rho), np.full(size, sd), ratio)
    assert x.shape == (size, 5)
    expected = sd**2 * ar1_correlation(rho, ratio)
    # the sampling error of a covariance is at most sd^2 sqrt(2 / size)
    np.testing.assert_allclose(x.T @ x / size, expected, atol=4.5 * sd**2 * np.sqrt(2 / size))


def test_every_chain_has_its_own_correlation_and_size():
    rho, sd = np.repeat([0.0, 0.9], 20_000), np.repeat([1.0, 3.0], 20_000)
    x = simulate_ar1(np.random.default_rng(9), rho, sd, np.ones(2))
    for rows, r, s in ((slice(0, 20_000), 0.0, 1.0), (slice(20_000, None), 0.9, 3.0)):
        assert x[rows].std() == pytest.approx(s, rel=0.02)
        assert np.corrcoef(x[rows, 0], x[rows, 1])[0, 1] == pytest.approx(r, abs=0.03)


def test_draws_follow_the_posterior():
    posterior = NoisePosterior(
        rho=np.array([0.2, 0.7]), probability=np.array([0.25, 0.75]), rss=np.array([4.0, 9.0]), dof=50, ratio=np.ones(9)
    )
    rho, sd = posterior.draw(np.random.default_rng(10), 20_000)
    assert (rho == 0.7).mean() == pytest.approx(0.75, abs=0.015)
    # innovation variance is RSS / chi2(dof), so its mean is RSS / (dof - 2)
    for r, rss in ((0.2, 4.0), (0.7, 9.0)):
        assert np.mean(sd[rho == r] ** 2) == pytest.approx(rss / 48, rel=0.03)
    assert posterior.simulate(np.random.default_rng(11), 3).shape == (3, 10)


def test_no_noise_gives_a_finite_posterior():
    found = noise_posterior(np.zeros(12), np.ones((12, 1)), np.ones(11))
    assert found.probability.sum() == pytest.approx(1.0)
    assert np.all(np.isfinite(found.simulate(np.random.default_rng(0), 5)))
    assert found.sd_marginal < 1e-100
