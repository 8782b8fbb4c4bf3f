"""Tests of `rlscaling/solver/intervals.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling.solver.intervals import percentile_interval, half_width_68


def test_percentile_interval_of_a_curve():
    draws = np.random.default_rng(0).normal(size=(1000, 3))
    assert percentile_interval(draws, 0.9).shape == (3, 2)
    np.testing.assert_allclose(percentile_interval(draws, 0.9)[1], np.percentile(draws[:, 1], [5, 95]))


def test_robust_error_is_the_sd_of_a_normal_and_outliers_do_not_move_it():
    z = np.random.default_rng(0).normal(0, 2.0, 20_000)
    assert half_width_68(z) == pytest.approx(2.0, rel=0.03)
    z[:100] = 1e9
    assert half_width_68(z) == pytest.approx(2.0, rel=0.05)
