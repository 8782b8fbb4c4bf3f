"""Steps that occur twice in one log."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers import log_files
from helpers.log_files import flat, receipt, verl
from rlscaling import read_trace
from rlscaling.readers.logs.resumes import executed, kept_rows


@pytest.mark.parametrize(("policy", "marks"), [("last", 1.0), ("first", 0.0)])
def test_replayed_steps_count_once(tmp_path, policy, marks):
    rows = log_files.verl_rows(steps=40, every=10)
    again = [{**row, "response_length/clip_ratio": 1.0} for row in rows[21:31]]
    written = [*rows[:31], *again, *rows[31:]]
    trace = read_trace(verl(tmp_path, written), resume=policy)
    clean = read_trace(verl(tmp_path, rows, "clean.jsonl"))
    np.testing.assert_allclose(trace.compute, clean.compute)
    assumed = receipt(trace)["assumed"]
    assert assumed["executed gpu-hours"] > assumed["useful gpu-hours"] == pytest.approx(clean.compute[-1])
    assert trace.columns["truncation_rate"][3] == pytest.approx(marks if marks else 0.05)
    assert receipt(trace)["assumed"]["resumes"].startswith("1; 10 training rows replayed")


def test_every_piece_counts_on_request(tmp_path):
    rows = log_files.verl_rows(steps=40, every=10)
    trace = read_trace(verl(tmp_path, [*rows[:31], *rows[21:]]), resume="all")
    assert trace.compute[-1] == pytest.approx(receipt(trace)["assumed"]["executed gpu-hours"])
    assert trace.columns["step"].tolist() == [0, 10, 20, 30, 30, 40]
    assert np.all(np.diff(trace.compute) > 0)


@pytest.mark.parametrize(
    ("policy", "steps", "scores", "compute"),
    [
        ("last", [0, 10, 20, 30, 40], [0.0, 0.1, 0.22, 0.32, 0.42], [0, 10, 20, 30, 40]),
        ("first", [0, 10, 20, 30, 40], [0.0, 0.1, 0.2, 0.3, 0.42], [0, 10, 20, 30, 40]),
        ("all", [0, 10, 20, 30, 20, 30, 40], [0.0, 0.1, 0.2, 0.3, 0.22, 0.32, 0.42], [0, 10, 20, 30, 40, 50, 60]),
    ],
)
def test_a_log_of_evaluations_only(tmp_path, policy, steps, scores, compute):
    """All rows of its first piece were lost under ``last``, and of its second under ``first``."""
    rows = [{"step": s, "val-core/m/acc/mean@4": s / 100} for s in (0, 10, 20, 30)]
    rows += [{"step": s, "val-core/m/acc/mean@4": s / 100 + 0.02} for s in (20, 30, 40)]
    path = tmp_path / "evals.jsonl"
    path.write_text("".join(json.dumps({"step": row.pop("step"), "data": row}) + "\n" for row in rows))
    trace = read_trace(path, compute_from="steps", resume=policy)
    assert trace.columns["step"].tolist() == steps
    assert trace.pass_rate.tolist() == pytest.approx(scores)
    assert trace.compute.tolist() == compute


def test_every_piece_counts_in_steps_and_tokens_too(tmp_path):
    """Steps 1 to 30, then 21 to 40: 50 steps were executed, and as many tokens by the hundred."""
    rows = [{"step": i, "step_time": 36.0, "num_tokens": 100 * i} for i in range(1, 41)]
    rows = [{**row, "eval_rewards/acc/mean": row["step"] / 100} if row["step"] % 10 == 0 else row for row in rows]
    path = flat(tmp_path, [*rows[:30], *rows[20:]])
    for unit, each in (("steps", 1), ("tokens", 100)):
        trace = read_trace(path, compute_from=unit, resume="all")
        assert trace.columns["step"].tolist() == [10, 20, 30, 30, 40]
        assert trace.compute.tolist() == [10 * each, 20 * each, 30 * each, 40 * each, 50 * each]
    hours = read_trace(path, resume="all", n_gpus=100)
    assert hours.compute.tolist() == pytest.approx([10, 20, 30, 40, 50])


def test_a_token_counter_that_begins_anew_after_a_resume(tmp_path):
    step, piece = np.array([1.0, 2, 3, 3, 4]), np.array([0, 0, 0, 1, 1])
    assert executed(np.array([10.0, 20, 30, 10, 20]), step, piece).tolist() == [10, 20, 30, 40, 50]


def test_a_resume_within_a_resume_keeps_each_step_once():
    step = np.array([1.0, 2, 3, 4, 3, 4, 5, 2, 3, 4, 5, 6])
    piece = np.repeat([0, 1, 2], [4, 3, 5])
    training = np.ones(12, dtype=bool)
    assert step[kept_rows(step, training, piece, "last")].tolist() == [1, 2, 3, 4, 5, 6]
    assert step[kept_rows(step, training, piece, "first")].tolist() == [1, 2, 3, 4, 5, 6]
    assert kept_rows(step, training, piece, "last")[-5:].all()
    assert kept_rows(step, training, piece, "first")[:4].all()
