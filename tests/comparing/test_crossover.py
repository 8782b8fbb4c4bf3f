"""Tests of `rlscaling/comparing/crossover.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.recipe_fits import fitted
from rlscaling import compare


def test_crossover_of_two_known_curves():
    # equal B and R0: gain_x / (1 + (m_x / C)^B) = gain_y / (1 + (m_y / C)^B) solves for C^B
    B, R0, (A_x, m_x), (A_y, m_y) = 1.8, 0.35, (0.61, 2500.0), (0.65, 9000.0)
    closed = ((A_x - R0) * m_y**B - (A_y - R0) * m_x**B) / ((A_y - R0) - (A_x - R0))
    closed **= 1 / B
    compute = np.arange(0, 60) * 800.0
    fits = {"x": fitted((A_x, B, m_x, R0), compute=compute), "y": fitted((A_y, B, m_y, R0), compute=compute)}
    crossing = compare(fits, rng=0).crossover("x", "y")
    assert crossing.compute == pytest.approx(closed, rel=1e-6)
    assert (crossing.leader_before, crossing.leader_after) == ("x", "y")
    assert crossing.probability == 1.0
    low, high = crossing.confidence_interval
    assert low <= crossing.compute * (1 + 1e-6)
    assert high >= crossing.compute * (1 - 1e-6)
    assert str(crossing).startswith("y overtakes x at")


def test_curves_that_do_not_cross_say_so():
    fits = {"x": fitted((0.65, 1.9, 2500.0, 0.35)), "y": fitted((0.60, 1.9, 2500.0, 0.35))}
    crossing = compare(fits, rng=0).crossover("y", "x")
    assert math.isinf(crossing.compute)
    assert crossing.leader_after == "x"
    assert "do not cross" in str(crossing)
    assert crossing.to_dict()["compute"] is None


def test_three_crossings_are_all_found():
    from rlscaling.comparing.crossover import find_crossover

    def wave(compute):
        return np.sin(np.log(compute / 150.0)) + 0.0 * compute

    crossing = find_crossover(("x", "y"), wave, wave, (100.0, 100.0 * math.exp(10)), 0.95, "gpu-hours")
    np.testing.assert_allclose(np.log(np.array(crossing.all_compute) / 150.0), np.pi * np.arange(0, 4), atol=1e-9)
    assert crossing.compute == crossing.all_compute[-1]


def test_compute_multiplier_of_shifted_curves_is_the_shift():
    fits = {"x": fitted((0.61, 1.92, 2000.0, 0.35)), "y": fitted((0.61, 1.92, 3000.0, 0.35))}
    found = compare(fits, rng=0)
    assert found.multiplier("x", "y", 0.5).value == pytest.approx(1.5, rel=1e-6)
    assert found.multiplier("y", "x").value == pytest.approx(1 / 1.5, rel=1e-6)
    assert found.pair("x", "y").share_ratio[0.9][0] == pytest.approx(1.5, rel=1e-6)


def test_multiplier_is_infinite_where_one_never_reaches_the_target(comparison):
    times = comparison.multiplier("slow", "fast", 0.63)
    assert math.isinf(times.value)
    assert math.isinf(times.confidence_interval[1])
    assert times.to_dict()["multiplier"] is None
