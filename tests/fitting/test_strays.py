"""Runs fitted without their stray evaluations."""

from __future__ import annotations

import numpy as np

from rlscaling import fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.fitting.strays import without_strays

C = np.arange(0.0, 16_001.0, 400.0)


def scores(seed: int = 0) -> np.ndarray:
    return sigmoid(C, 0.6, 1.8, 2500.0, 0.3) + np.random.default_rng(seed).normal(0, 0.004, len(C))


def test_one_bad_evaluation_is_left_out() -> None:
    y = scores()
    y[30] = 0.05
    found = without_strays(fit_sigmoid(C, y))
    assert found is not None
    assert (found.compute, found.pass_rate) == ((12_000.0,), (0.05,))
    assert abs(found.fit.A - 0.6) < 0.02
    assert found.sentence.startswith("without the evaluation at 12000 GPU-hours (pass rate 0.05), which lies far off")


def test_a_block_of_bad_evaluations_is_one_range() -> None:
    y = scores()
    y[20:23] = 0.1
    found = without_strays(fit_sigmoid(C, y))
    assert found is not None
    assert found.fit.options.exclude == ((8000.0, 8800.0),)
    assert "evaluations at 8000, 8400, 8800" in found.sentence


def test_other_misfits_and_good_runs_are_left_alone() -> None:
    assert without_strays(fit_sigmoid(C, scores())) is None
    wave = fit_sigmoid(C, scores() + 0.03 * np.sin(np.arange(len(C)) / 3))
    assert str(wave.verdict) == "misfit"
    assert without_strays(wave) is None
