"""pass@k and differences on the same prompts."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from rlscaling import FitError, PromptCounts, paired_difference, pass_at_k
from rlscaling.uncertainty.pass_at_k import first_k_no_better, unbiased_pass_at_k

RNG = np.random.default_rng(1)
P = RNG.beta(0.2, 0.2, 600)


def counts(p: np.ndarray, n: int = 32, seed: int = 0, name: str = "x") -> PromptCounts:
    return PromptCounts([100.0], np.random.default_rng(seed).binomial(n, p), n, name=name)


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_the_estimate_is_that_of_binomials(k: int) -> None:
    exact = [1 - comb(10 - c, k) / comb(10, k) for c in range(11)]
    assert unbiased_pass_at_k(np.arange(11), 10, k) == pytest.approx(exact)


def test_the_estimate_is_unbiased() -> None:
    rng = np.random.default_rng(0)
    found = unbiased_pass_at_k(rng.binomial(8, 0.2, 40_000), 8, 4)
    assert found.mean() == pytest.approx(1 - 0.8**4, abs=4 * found.std() / 200)


def test_intervals_hold_over_prompts_and_the_band_over_k() -> None:
    """Prompts from a known distribution: pass@k of the population is E[1 - (1 - p)^k]."""
    rng, ks, held, inside = np.random.default_rng(2), [1, 4, 16], 0, 0
    population = rng.beta(0.5, 0.5, 400_000)
    true = np.array([np.mean(1 - (1 - population) ** k) for k in ks])
    for seed in range(100):
        found = pass_at_k(counts(rng.beta(0.5, 0.5, 150), 16, seed), ks, rng=seed)
        low, high = found.confidence_interval.T
        held += int(low[0] <= true[0] <= high[0])
        low, high = found.band.T
        inside += bool(np.all((low <= true) & (true <= high)))
    assert 88 <= held <= 99  # 95 of 100, 99.9 % binomial
    assert inside >= 88


def test_the_curve_rises_with_k_and_prints() -> None:
    found = pass_at_k(counts(P), rng=0)
    assert found.k.tolist() == [1, 2, 4, 8, 16, 32]
    assert np.all(np.diff(found.value) >= 0)
    assert found.value[0] == pytest.approx(counts(P).rates(0).mean())
    assert "pass@32" in str(found)
    assert found.to_dict()["n_prompts"] == 600


def test_pairs_are_sharper_and_hold() -> None:
    better = np.clip(P + 0.02, 0, 1)
    found = paired_difference(counts(better, seed=1, name="new"), counts(P, seed=2, name="old"), rng=0)
    low, high = found.confidence_interval
    assert low < np.mean(better - P) < high
    assert found.sharper > 3
    assert found.probability > 0.99
    assert "times narrower" in str(found)


def test_pairs_are_made_by_name() -> None:
    x = PromptCounts([1.0], [4, 0, 2], 4, ("a", "b", "c"), name="x")
    y = PromptCounts([1.0], [2, 4, 0, 1], 4, ("c", "a", "b", "d"), name="y")
    assert paired_difference(x, y, rng=0).value == 0.0
    with pytest.raises(FitError, match="share 0 prompts"):
        paired_difference(x, PromptCounts([1.0], [1, 1], 4, ("p", "q")))
    with pytest.raises(FitError, match="give runs in one unit"):
        paired_difference(x, PromptCounts([1.0], [4, 0, 2], 4, ("a", "b", "c"), "steps"))
    with pytest.raises(FitError, match="k=5: the prompts have 4 samples"):
        pass_at_k(x, [5])


def test_the_first_k_at_which_a_sharper_model_is_no_better() -> None:
    """Training that makes the likely likelier and the unlikely impossible gains at k = 1 and loses at large k."""
    sharp = np.where(P > 0.3, np.minimum(P + 0.2, 1.0), 0.0)
    k = first_k_no_better(counts(sharp, 64, 3, "rl"), counts(P, 64, 4, "base"), rng=0)
    assert k is not None
    assert 2 <= k <= 32
    assert first_k_no_better(counts(np.clip(P + 0.3, 0, 1), 64, 3), counts(P, 64, 4), rng=0) in (None, 32, 64)
