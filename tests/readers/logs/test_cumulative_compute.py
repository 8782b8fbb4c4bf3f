"""Compute at every evaluation: GPUs, units, devices, evaluation time, a missing beginning."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers import log_files
from helpers.log_files import receipt, verl
from rlscaling import read_trace, read_traces
from rlscaling.errors import TraceError


def test_evaluation_time_outside_the_step_and_inside(tmp_path):
    """verl #3117: since August 2025 the test is not part of the step; which one holds is seen in the numbers."""
    rows = log_files.verl_rows(steps=40, every=10)
    outside = verl(tmp_path, rows)
    old = [dict(row) for row in rows]
    for row in old:
        if "timing_s/testing" in row:
            row["timing_s/step"] += row["timing_s/testing"]
            row["perf/throughput"] = row["perf/total_num_tokens"] / (256 * row["timing_s/step"])
    inside = verl(tmp_path, old, "old.jsonl")
    for kind in ("exclude", "include"):
        a, b = (read_trace(path, eval_time=kind).compute[-1] for path in (outside, inside))
        assert a == pytest.approx(b)
    train = sum(row["timing_s/step"] for row in rows[1:]) * 256 / 3600
    assert read_trace(inside).compute[-1] == pytest.approx(train)
    assert read_trace(inside, eval_time="include").compute[-1] == pytest.approx(train + 4 * 600 * 256 / 3600)
    assert receipt(read_trace(inside))["assumed"]["evaluation time"] == "excluded; it is part of the time of a step"


def test_gpus_that_change_within_a_run_are_followed_row_by_row(tmp_path):
    rows = log_files.verl_rows(steps=20, every=10)
    for row in rows[11:]:
        row["perf/throughput"] *= 2  # half the GPUs
    trace = read_trace(verl(tmp_path, rows))
    first, second = (sum(row["timing_s/step"] for row in part) / 3600 for part in (rows[1:11], rows[11:]))
    assert trace.compute[-1] == pytest.approx(first * 256 + second * 128)
    assert receipt(trace)["assumed"]["GPUs"] == "128 to 256"


def test_a_given_gpu_count_that_the_log_contradicts_is_said(tmp_path):
    path = verl(tmp_path, log_files.verl_rows(steps=20, every=10))
    trace = read_trace(path, n_gpus=64)
    assert trace.compute[-1] == pytest.approx(read_trace(path).compute[-1] / 4)
    assert "64 GPUs were given, but the log's own rates give 256." in trace.notes


def test_units_and_devices(tmp_path):
    path = verl(tmp_path, log_files.verl_rows(steps=20, every=10))
    hours = read_trace(path).compute[-1]
    assert read_trace(path, compute_from="wall-hours").compute[-1] == pytest.approx(hours / 256)
    assert read_trace(path, compute_from="tokens").compute_unit == "tokens"
    assert read_trace(path, device_factor=0.5).compute[-1] == pytest.approx(hours / 2)
    trace = read_trace(path, device_factor="A100:H100")
    assert trace.compute[-1] == pytest.approx(hours * 312 / 989.4)
    assert "A100:H100 = 0.3153" in receipt(trace)["assumed"]["device factor"]
    with pytest.raises(TraceError, match="neither a number, nor FROM:TO of known devices"):
        read_trace(path, device_factor="A100:Z9")
    priced = read_trace(path, device_factor="price:A100:H100")
    assert priced.compute[-1] == pytest.approx(hours * 1.30 / 3.00)
    assert "prices per hour" in receipt(priced)["assumed"]["device factor"]
    with pytest.raises(TraceError, match=r"nor price:FROM:TO \(A100, H100, H200\)"):
        read_trace(path, device_factor="price:V100:H100")
    with pytest.raises(TraceError, match="no metric counts flops here"):
        read_trace(path, compute_from="flops")


def test_a_log_without_its_beginning_is_refused_or_estimated(tmp_path):
    rows = log_files.verl_rows(steps=40, every=10)
    path = verl(tmp_path, rows[21:])
    with pytest.raises(TraceError, match=r"begins at step 21: the 20 steps before it .*--missing-start estimate"):
        read_trace(path)
    trace = read_trace(path, missing_start="estimate")
    typical = np.median([row["timing_s/step"] for row in rows[21:]])
    spent = sum(row["timing_s/step"] for row in rows[21:])
    assert trace.compute[-1] == pytest.approx((spent + 20 * typical) * 256 / 3600)
    assert any(
        re.match(r"Missing start: 20 steps at .* each, the median of the others\.", note) for note in trace.notes
    )
    both = read_traces([verl(tmp_path, rows[:21], "first.jsonl"), path], stitch=True)
    (whole,) = both.values()
    assert whole.compute[-1] == pytest.approx(sum(row["timing_s/step"] for row in rows[1:]) * 256 / 3600)
    assert any("Stitched 2 pieces in this order: first.jsonl, exp.jsonl" in note for note in whole.notes)


def test_times_below_zero_must_be_decided(tmp_path):
    rows = log_files.verl_rows(40, 10)
    rows[15]["timing_s/step"] = -300.0
    trace = read_trace(verl(tmp_path, rows))
    (finding,) = [w for w in receipt(trace)["warnings"] if "below 0 seconds" in w["what"]]
    assert finding["severity"] == "decide"
    assert any("of 40 steps have no training row" in note for note in trace.notes)
