"""Tests of `rlscaling/solver/intervals.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling.solver.intervals import ConfidenceInterval, half_width_68, interval_of, percentile_interval


def test_percentile_interval_of_a_curve():
    draws = np.random.default_rng(0).normal(size=(1000, 3))
    assert percentile_interval(draws, 0.9).shape == (3, 2)
    np.testing.assert_allclose(percentile_interval(draws, 0.9)[1], np.percentile(draws[:, 1], [5, 95]))


def test_the_half_width_is_the_sd_of_a_normal_and_outliers_do_not_move_it():
    z = np.random.default_rng(0).normal(0, 2.0, 20_000)
    assert half_width_68(z) == pytest.approx(2.0, rel=0.03)
    z[:100] = 1e9
    assert half_width_68(z) == pytest.approx(2.0, rel=0.05)


def test_an_interval_is_a_pair_of_numbers_or_of_arrays():
    ends = interval_of(np.array([[0.1, 0.2], [0.3, 0.5]]))
    np.testing.assert_array_equal(ends.low, [0.1, 0.3])
    assert ends.at(-1) == ConfidenceInterval(0.3, 0.5) == (0.3, 0.5)
