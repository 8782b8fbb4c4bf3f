"""Rows without a step, and time that no step accounts for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers import log_files
from helpers.log_files import flat
from rlscaling import read_trace
from rlscaling.errors import TraceError


def test_rows_that_say_only_their_time_have_no_step(tmp_path):
    """The time was taken as the step, and 1.7 thousand million steps were reported missing."""
    rows = [{"_timestamp": 1.7e9 + 36 * i, "timing_s/step": 36.0} for i in range(1, 11)]
    rows += [{"_timestamp": 1.7e9 + 36 * i + 1, "val-core/m/acc/mean@4": i / 100} for i in (5, 10)]
    path = flat(tmp_path, sorted(rows, key=lambda row: row["_timestamp"]))
    trace = read_trace(path, n_gpus=100)
    assert trace.compute.tolist() == pytest.approx([5, 10])
    assert "step" not in trace.columns
    assert trace.columns["wall_time"].tolist() == [145, 325]
    with pytest.raises(TraceError, match="metrics.jsonl: no row has a step; count compute in another unit"):
        read_trace(path, compute_from="steps")


def test_a_mean_over_steps_needs_the_steps(tmp_path):
    rows = [{"_timestamp": 1.7e9 + i, "train/step_time": 18.0, "eval/rewards/acc/mean": 0.1} for i in range(5)]
    with pytest.raises(TraceError, match=r"TRL's seconds are a mean over steps, but no row has a step"):
        read_trace(flat(tmp_path, rows), n_gpus=8)


def test_training_rows_without_a_step_are_told(tmp_path):
    rows = [{"step": i, "timing_s/step": 36.0, "val-core/m/acc/mean@4": i / 100} for i in range(1, 11)]
    del rows[4]["step"]
    trace = read_trace(flat(tmp_path, rows), n_gpus=100)
    assert trace.compute[-1] == pytest.approx(9)
    assert any("1 of the training rows of metrics.jsonl have no step" in note for note in trace.notes)
    assert trace.metadata["receipt"]["dropped"]["scored, but without a step"] == 1


def test_the_clock_passes_over_rows_without_a_step(tmp_path):
    rows = [{"step": i, "time": 1.7e9 + 36 * i, "progress/tokens": 1.0} for i in range(11)]
    rows = [row for pair in ((row, {"time": row["time"] + 18, "other": 1.0}) for row in rows) for row in pair]
    rows.append({"step": 10, "time": 1.7e9 + 360, "eval/aime/all/solver/avg@8": 0.2})
    assert read_trace(flat(tmp_path, rows), n_gpus=100).compute.tolist() == pytest.approx([10])


@pytest.mark.parametrize("away", [0.0, 3600.0, 20_000.0])
def test_time_that_no_step_accounts_for_is_said(tmp_path, away):
    """Thirty steps of 300 s: what W&B dropped of a replay shows in the clock only."""
    rows = log_files.verl_rows(30, 10)
    clock = np.cumsum([row.get("timing_s/step", 0.0) + row.get("timing_s/testing", 0.0) for row in rows])
    clock[20:] += away
    run = log_files.wandb_file(tmp_path, [{**row, "_timestamp": at} for row, at in zip(rows, clock, strict=True)])
    notes = [note for note in read_trace(run).notes if "passed by the clock" in note]
    assert len(notes) == (away > 3600)


def test_the_size_in_the_name_of_a_metric_is_applied(tmp_path):
    path = tmp_path / "exp.jsonl"
    rows = (
        {"step": i, "data": {"timing_s/step": 36.0, "perf/tokens_B": 0.5 * i, "val-core/m/acc/mean@4": i / 100}}
        for i in range(1, 11)
    )
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    trace = read_trace(path, compute_column="perf/tokens_B")
    assert trace.compute_unit == "tokens"
    np.testing.assert_allclose(trace.compute, 0.5e9 * np.arange(1, 11))
    assert "Multiplied" in trace.metadata["receipt"]["assumed"]["scale of the compute"]
