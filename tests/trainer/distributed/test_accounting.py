"""The time of every rank."""

from __future__ import annotations

import time

import pytest

from rlscaling.trainer.distributed.accounting import ClusterMeter, RankClock, RankSeconds


def test_meter_counts_every_rank_also_after_a_resume_with_another_number() -> None:
    meter = ClusterMeter(n_devices=3)
    meter.seconds |= {"generate": 10.0, "train": 20.0, "checkpoint": 5.0, "evaluate": 7.0}
    assert meter.compute_hours == pytest.approx(3 * 35 / 3600)
    later = ClusterMeter(n_devices=2)
    later.load_state_dict(meter.state_dict())
    later.seconds["train"] += 100.0
    columns = later.columns("compute")
    assert columns["compute"] == pytest.approx((3 * 35 + 2 * 100) / 3600)
    assert columns["eval_gpu_hours"] == pytest.approx(3 * 7 / 3600)
    assert columns["seconds_train"] == 120.0


def test_rank_clock_leaves_evaluations_out() -> None:
    clock = RankClock()
    with clock.waiting():
        time.sleep(0.05)
    with clock.left_out(), clock.waiting():
        time.sleep(0.1)
    seconds = clock.read()
    assert 0.05 <= seconds.waiting < 0.1
    assert seconds.waiting <= seconds.elapsed < 0.1
    assert RankSeconds(3.0, 4.0).since(RankSeconds(1.0, 0.0)).idle_fraction == 0.5
    assert RankSeconds().idle_fraction is None
