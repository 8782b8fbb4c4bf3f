"""Tests of `rlscaling/comparing/pairwise.py`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from helpers.recipe_fits import SCALERL, C, fitted
from rlscaling import compare
from rlscaling.comparing.pairwise import pairwise_differences


def test_an_unknown_ceiling_is_never_called_higher_or_lower(three):
    early = fitted((0.645, 1.70, 10909.0, 0.35), 4, compute=C[:38])
    assert early.verdict == "ceiling-not-identified"
    found = compare(three | {"early": early}, rng=0)
    for name in three:
        assert found.pair_verdict("early", name) == "undecided"
    assert "early" not in found.leaders_by_A
    assert "not identified" in str(found)
    assert not found.supported("early", 100_000)


def test_a_given_ceiling_is_no_evidence(three):
    found = compare({"given": fitted(SCALERL, 6, A=0.9), "slow": three["slow"]}, rng=0)
    assert found.pair_verdict("given", "slow") == "undecided"


def test_family_of_pairs_is_controlled():
    # 45 pairs of ten equal recipes: some pair differs "significantly" in most draws of the data, in few after control
    rng = np.random.default_rng(0)
    once, family = [], []
    for _ in range(200):
        truth = rng.standard_normal(10)  # estimates with error 1 around a common 0
        draws = truth[:, None] + rng.standard_normal((10, 400))
        d = pairwise_differences(truth, draws, np.ones(10, dtype=bool), margin=0.1, confidence_level=0.95)
        once.append(np.any((d.low > 0) | (d.high < 0)))
        family.append(np.any(d.p_family <= 0.05))
    assert np.mean(once) > 0.4
    assert sum(family) <= stats.binom.ppf(0.999, 200, 0.05)
    assert sum(family) >= stats.binom.ppf(0.001, 200, 0.02)


def test_one_pair_is_judged_by_its_interval():
    rng = np.random.default_rng(1)
    draws = np.array([rng.normal(2.2, 1.0, 4000), np.zeros(4000)])
    d = pairwise_differences(np.array([2.2, 0.0]), draws, np.ones(2, dtype=bool), margin=0.1, confidence_level=0.95)
    assert d.p_family[0] == pytest.approx(2 * stats.norm.sf(2.2), abs=0.01)


@pytest.mark.slow
def test_a_difference_of_the_margin_is_seldom_called_equal():
    called = 0
    for k in range(60):
        fits = {"x": fitted(SCALERL, [8, k]), "y": fitted((0.590, *SCALERL[1:]), [9, k])}
        called += compare(fits, rng=k).verdict("x", "y") == "equal"
    assert called <= stats.binom.ppf(0.999, 60, 0.10)
