"""Where a gain in compute comes from."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling import FitError, SigmoidParams, Trace, compare, decompose, fit_trace

STEP = np.arange(0, 1601, 20)


def run(hours_per_step: float, C_mid: float, seed: int, *, jitter: float = 0.0, steps: bool = True) -> object:
    rng = np.random.default_rng(seed)
    gaps = hours_per_step * np.diff(STEP) * (1.0 + jitter * rng.standard_normal(len(STEP) - 1))
    C = np.concatenate([[0.0], np.cumsum(gaps)])
    y = SigmoidParams(0.6, 1.9, C_mid, 0.35).predict(C) + rng.normal(0, 0.003, len(C))
    return fit_trace(Trace(C, y, columns={"step": STEP} if steps else {}, name=f"run{seed}"), min_compute=0)


def test_the_product_is_the_multiplier_and_the_parts_are_found() -> None:
    """1.5 times the compute per step, and twice the steps: C_mid of 2,000 hours is 200 steps of 10, 400 of 15 6,000."""
    found = decompose(run(10.0, 2000.0, 1), run(15.0, 6000.0, 2), 0.5, names=("a", "b"), rng=0)
    assert found.steps * found.per_step == pytest.approx(found.multiplier.value)
    assert found.per_step == pytest.approx(1.5)
    low, high = found.confidence_interval["steps"]
    assert low < 2.0 < high
    low, high = found.confidence_interval["compute"]
    assert low < 3.0 < high
    assert found.headline.startswith("to reach 0.500, b needs 3")
    assert "= steps" in str(found)
    assert set(found.to_dict()) == {"x", "y", "pass_rate", "compute", "steps", "compute_per_step"}


def test_compute_per_step_has_an_interval_where_it_varies() -> None:
    steady, uneven = (decompose(run(10.0, 2000.0, 1), run(10.0, 2000.0, 2, jitter=j), rng=0) for j in (0.0, 0.3))
    assert np.ptp(steady.confidence_interval["compute_per_step"]) < 1e-9
    low, high = uneven.confidence_interval["compute_per_step"]
    assert 0.02 < high - low < 0.4


def test_a_comparison_says_it_where_the_runs_have_steps() -> None:
    found = compare({"a": run(10.0, 2000.0, 1), "b": run(15.0, 6000.0, 2)}, compute=16_000, rng=0)
    assert "times the steps, each of 1.50 times the compute" in str(found)
    without = compare({"a": run(10.0, 2000.0, 1, steps=False), "b": run(15.0, 6000.0, 2)}, compute=16_000, rng=0)
    assert "times the steps" not in str(without)
    with pytest.raises(FitError, match="a does not say its steps"):
        without.decompose("a", "b")
