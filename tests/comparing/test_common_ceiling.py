"""Tests of `rlscaling/comparing/common_ceiling.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.recipe_fits import fitted
from rlscaling import compare
from rlscaling.comparing.joint_fit import common_ceiling


def test_common_ceiling_agrees_with_lmfit(three):
    pair = compare({name: three[name] for name in ("fast", "like")}, rng=0)
    refit = pair.with_common_ceiling("fast", "like")
    group = pair.group
    A, params = common_ceiling(group.models, group.observed, np.array([pair.R0]), np.array([0.5]), point=True)
    assert refit.A == pytest.approx(float(A[0]), abs=1e-7)
    np.testing.assert_allclose(refit.B, params[:, 0, 1], rtol=1e-5)
    assert "A:" in refit.report
    assert "B_fast" in refit.report
    np.testing.assert_allclose(refit.B_shift, refit.B - refit.B_free)


def test_own_R0_common_ceiling_of_noise_free_runs():
    fits = {"x": fitted((0.61, 1.92, 2542.0, 0.35)), "y": fitted((0.61, 2.3, 3000.0, 0.30), R0=0.30)}
    found = compare(fits, rng=0, shared_R0=False).with_common_ceiling()
    assert pytest.approx(0.61, abs=1e-7) == found.A
    np.testing.assert_allclose(found.B, [1.92, 2.3], rtol=1e-6)
    assert found.pair_verdict("x", "y") == "undecided"
    assert found.footnotes() == ["B is not compared: each run has its own R0"]


def test_recipes_whose_ceilings_are_equal_are_refitted_together(three):
    found = compare({name: three[name] for name in ("fast", "like")}, rng=0)
    assert found.leaders_by_A == ("fast", "like")
    assert found.common_ceiling is not None
    assert found.common_ceiling.pair_verdict("fast", "like") == "undecided"
    assert "one common ceiling" in str(found)
    assert "no difference of B is shown" in str(found)
    steep = compare({"fast": three["fast"], "steep": fitted((0.610, 2.9, 2542.0, 0.35), 80)}, rng=0)
    assert "B of fast is lower than that of steep: difference -" in str(steep.with_common_ceiling())
