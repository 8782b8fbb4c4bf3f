"""Published fits as printed; simulated runs with the noise they claim; demo traces that say what they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rlscaling.datasets import simulate
from rlscaling.errors import TraceError
from rlscaling.fitting.sigmoid_fit import SigmoidParams

PARAMS = SigmoidParams(A=0.61, B=1.92, C_mid=2542, R0=0.35)
HOURS = 216.2 * np.arange(75)


def test_without_noise_the_points_lie_on_the_law():
    t = simulate(PARAMS, compute=HOURS, n_prompts=None)
    with np.errstate(divide="ignore"):
        law = 0.35 + 0.26 / (1 + (2542 / HOURS) ** 1.92)
    np.testing.assert_allclose(t.pass_rate, law, rtol=1e-13)
    assert t.columns == {}


@pytest.mark.parametrize(
    ("mean", "n_prompts", "n_samples", "options"),
    [
        (0.5, 1000, 16, {}),
        (0.35, 1000, 16, {"concentration": 1.0}),
        (0.3, 10, 4, {"concentration": 0.52}),
        (0.9, 50, 2, {"concentration": 3}),
    ],
)
def test_generation_noise_has_the_variance_of_beta_prompts(mean, n_prompts, n_samples, options):
    # oracle: fixed prompts p_i ~ Beta(a, b) of this mean and a + b = concentration, and binomial counts
    flat = SigmoidParams(A=mean, B=1, C_mid=1, R0=mean)
    n = 20_000
    t = simulate(flat, compute=np.arange(n), n_prompts=n_prompts, n_samples=n_samples, rng=5, **options)
    total = options.get("concentration", 0.4)
    p = stats.beta(total * mean, total * (1 - mean))
    variance = (p.mean() - p.var() - p.mean() ** 2) / (n_prompts * n_samples)  # E p (1 - p), divided
    sem = np.sqrt(variance / n)
    assert abs(t.pass_rate.mean() - mean) < 4 * sem
    assert t.pass_rate.var() / variance == pytest.approx(1, abs=4 * np.sqrt(2 / n))
    np.testing.assert_allclose(t.pass_rate_se, np.sqrt(variance), rtol=1e-6)
    counts = t.pass_rate * n_prompts * n_samples
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)


@pytest.mark.parametrize("mean", [0.35, 0.5, 0.645])
def test_default_noise_is_that_of_a_public_run(mean):
    # measured over 1,060 prompts x 128 samples: a + b of 0.52 before training and 0.35 after it; mean@16 over 1,000
    # prompts then has a standard deviation of .0019 to .0023
    flat = SigmoidParams(A=mean, B=1, C_mid=1, R0=mean)
    before, default, after = (
        simulate(flat, compute=[0], concentration=total).pass_rate_se[0] for total in (0.52, 0.4, 0.35)
    )
    assert 0.0019 <= after < default < before <= 0.0024
    assert simulate(flat, compute=[0]).pass_rate_se[0] == default


@pytest.mark.parametrize("mean", [0.0, 1.0, 0.001, 0.999])
def test_at_the_ends_pass_rates_stay_fractions_and_unbiased(mean):
    flat = SigmoidParams(A=mean, B=1, C_mid=1, R0=mean)
    t = simulate(flat, compute=np.arange(20_000), n_prompts=10, n_samples=4, rng=1)
    assert t.pass_rate.min() >= 0
    assert t.pass_rate.max() <= 1
    assert t.pass_rate.mean() == pytest.approx(mean, abs=2e-4)


def test_wander_is_a_stationary_chain():
    flat = SigmoidParams(A=0.5, B=1, C_mid=1, R0=0.5)
    n, rho, sd = 50_000, 0.6, 0.006
    w = simulate(flat, compute=np.arange(n), n_prompts=None, rho=rho, wander_sd=sd, rng=2).pass_rate - 0.5
    assert w.std() == pytest.approx(sd, rel=0.03)
    for lag in (1, 2, 3):
        assert np.corrcoef(w[:-lag], w[lag:])[0, 1] == pytest.approx(rho**lag, abs=0.02)
    first = [
        simulate(flat, compute=[0], n_prompts=None, rho=rho, wander_sd=sd, rng=s).pass_rate[0] for s in range(2000)
    ]
    assert np.std(first) == pytest.approx(sd, rel=0.08)


def test_seeds():
    def run(rng):
        return simulate(PARAMS, compute=HOURS, rho=0.5, wander_sd=0.004, rng=rng).pass_rate.tolist()

    assert run(3) == run(3) == run(np.random.default_rng(3)) == run(np.int64(3))
    assert run(3) != run(4)
    assert run(None) != run(None)


def test_simulated_runs_say_so():
    t = simulate(PARAMS, compute=HOURS, rng=3, name="x", compute_unit="tokens")
    assert t.metadata["simulated"] is True
    assert t.metadata["true_params"] == {"A": 0.61, "B": 1.92, "C_mid": 2542, "R0": 0.35}
    assert t.metadata["seed"] == 3
    assert (t.name, t.compute_unit) == ("x", "tokens")
    assert t.n_prompts[0] == 1000
    assert t.n_samples[0] == 16


def test_unbounded_scores_have_no_prompts():
    params = SigmoidParams(A=700, B=1, C_mid=10, R0=-5)
    t = simulate(params, compute=[0, 10], n_prompts=None)
    assert t.pass_rate.tolist() == [-5, 347.5]
    assert t.scale == "reward"
    with pytest.raises(TraceError, match=r"not pass rates.*n_prompts=None"):
        simulate(params, compute=[0, 10])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 1.0}, "rho=1.0: a correlation"),
        ({"wander_sd": -1}, "wander_sd=-1: a standard deviation"),
        ({"concentration": 0}, "concentration=0: a . b of a Beta distribution is a finite number above 0"),
        ({"concentration": np.inf}, "concentration=inf"),
        ({"n_prompts": 0}, "n_prompts=0, n_samples=16: both count from 1"),
        ({"compute": [2, 1]}, "sort by compute"),
        ({"compute": ["a"]}, r"compute\[0\] is 'a'"),
    ],
)
def test_simulate_refuses(options, message):
    with pytest.raises(TraceError, match=message):
        simulate(PARAMS, **{"compute": [1, 2], **options})
