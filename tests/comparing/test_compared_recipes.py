"""Tests of `rlscaling/comparing/compared_recipes.py`."""

from __future__ import annotations

import pytest

from rlscaling import FitError


def test_names_that_are_not_there(comparison):
    with pytest.raises(FitError, match="'nope' is none of the compared recipes: slow, fast, like"):
        comparison.pair_verdict("nope", "slow")
    with pytest.raises(FitError, match="'slow' is compared with itself"):
        comparison.probability_better("slow", "slow")
    with pytest.raises(FitError, match="on='B' is unknown"):
        comparison.pair_verdict("slow", "fast", on="B")
    with pytest.raises(FitError, match="needs two recipes or more"):
        comparison.with_common_ceiling("slow")
