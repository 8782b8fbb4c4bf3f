"""Tests of `rlscaling/comparing/tables.py`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers.recipe_fits import fitted
from rlscaling import compare


def test_json_table_and_html_are_complete(three):
    comparison = compare(three, rng=0, seed_sd=0.005)
    saved = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert saved["decided"] is True
    assert saved["best"] == "slow"
    assert [r["recipe"] for r in saved["recipes"]] == ["slow", "fast", "like"]
    assert len(saved["pairs"]) == 3
    assert {"verdict", "verdict_at", "A", "at", "multiplier", "crossover", "compute_to_share"} <= set(saved["pairs"][0])
    assert list(comparison.to_frame().index) == ["slow", "fast", "like"]
    assert comparison.to_frame()["p_best"].sum() == pytest.approx(1.0)
    pairs = comparison.pairs_to_frame().set_index(["x", "y"])
    assert pairs.loc[("slow", "fast"), "A_verdict"] == "higher"
    assert pairs.loc[("slow", "fast"), "R_p_greater"] == comparison.probability_better("slow", "fast")
    match = comparison.pair("slow", "fast")
    assert str(match).startswith("higher: at 100,000 GPU-hours slow beats fast with probability 1.00")
    assert "A of slow against fast: higher" in str(match)
    assert "draws" not in repr(match) + repr(match.crossover) + repr(match.multiplier)
    html = comparison._repr_html_()
    assert html.count("<table>") >= 5
    assert "decided: slow is best" in html
    assert str(comparison).splitlines()[0].startswith("decided: slow is best at 100,000 GPU-hours")
    assert "slow best at" in repr(comparison)


def test_many_recipes_show_the_leader_against_the_others(three):
    rng = np.random.default_rng(3)
    more = {f"r{k}": fitted((rng.uniform(0.58, 0.60), 1.9, 2500.0, 0.35), [40, k]) for k in range(6)}
    text = str(compare({**three, **more}, rng=0, n_resamples=200))
    assert "slow - r3" in text
    assert "r1 - r3" not in text


def test_the_old_names_hold_until_1_0(comparison):
    assert comparison.at == comparison.compute == (100_000.0,)
    assert comparison.verdict("slow", "fast") is comparison.pair_verdict("slow", "fast")
    better = comparison.probability_better("slow", "fast", at=8000)
    assert better == comparison.probability_better("slow", "fast", 8000)
    assert comparison.probability_best(at=8000) == comparison.probability_best(8000)
    refit = comparison.with_common_ceiling("fast", "like")
    assert refit.verdict("fast", "like") is refit.pair_verdict("fast", "like")
    with pytest.raises(TypeError, match="both compute= and at="):
        comparison.probability_best(compute=8000, at=8000)


def test_the_sentence_on_ceilings_stands_above_their_table(comparison):
    lines = str(comparison).splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("  highest ceiling A: slow"))
    assert lines[place + 1].startswith("  A ")
