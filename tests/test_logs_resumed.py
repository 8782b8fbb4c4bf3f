"""Runs that were stopped and went on, in one log or in several pieces; rows that do not say their step."""

from __future__ import annotations

import json

import numpy as np
import pytest

import logfiles
from rlscaling import read_trace, read_traces
from rlscaling.errors import TraceError
from rlscaling.readers.resumes import executed, kept_rows

SCORE = logfiles.SCORE


def flat(tmp_path, rows, name="metrics.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pieces(kind, tmp_path, *parts):
    """Each part of the rows as a log of its own, in a folder of its own."""
    paths = []
    for i, rows in enumerate(parts):
        folder = tmp_path / str(i)
        folder.mkdir()
        path = logfiles.WRITERS[kind](folder, rows)
        paths.append(path.rename(folder / f"piece{i}{path.suffix}"))
    return paths


# --- stitching --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("kind", ["verl file", "console", "W&B", "MLflow SQLite", "trackio", "TensorBoard"])
def test_pieces_are_joined_by_their_steps_in_whatever_order_they_are_given(tmp_path, kind, order):
    rows = logfiles.verl_rows(steps=40, every=10)
    for row in rows:
        row.setdefault("training/global_step", 0)
    first, second = pieces(kind, tmp_path, rows[:21], rows[21:])
    (whole,) = read_traces([(first, second)[i] for i in order], stitch=True).values()
    assert whole.columns["step"].tolist() == [0, 10, 20, 30, 40]
    spent = sum(row["timing_s/step"] for row in rows[1:]) * 256 / 3600
    assert whole.compute[-1] == pytest.approx(spent, rel=1e-6)
    assert any("in this order: piece0" in note for note in whole.notes)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_frameworks_own_step_orders_pieces_not_the_loggers_counter(tmp_path, order):
    """TRL in W&B: ``_step`` counts calls and begins anew in every piece."""
    rows = [{"train/global_step": i, "train/step_time": 36.0, "eval/rewards/acc/mean": i / 100} for i in range(1, 41)]
    parts = [[{"_step": n, **row} for n, row in enumerate(part)] for part in (rows[:20], rows[20:])]
    paths = []
    for i, part in enumerate(parts):
        (tmp_path / str(i)).mkdir()
        paths.append(logfiles.wandb_file(tmp_path / str(i), part))
    (whole,) = read_traces([paths[i] for i in order], stitch=True, n_gpus=100).values()
    assert whole.columns["step"].tolist() == list(range(1, 41))
    assert whole.compute[-1] == pytest.approx(40)


def test_a_resumed_piece_that_overlaps_replaces_what_it_did_again(tmp_path):
    rows = logfiles.verl_rows(steps=40, every=10)
    first, second = pieces("verl file", tmp_path, rows[:31], rows[21:])
    for paths in ([first, second], [second, first]):
        (whole,) = read_traces(paths, stitch=True).values()
        clean = read_trace(logfiles.verl_file(tmp_path, rows))
        np.testing.assert_allclose(whole.compute, clean.compute)
        assert "1; 10 training rows replayed" in whole.metadata["receipt"]["assumed"]["resumes"]


def timed(tmp_path, name, rows, begins):
    """A W&B log of these rows, a minute apart."""
    return logfiles.wandb_file(
        tmp_path, [{**row, "_timestamp": begins + 60 * i} for i, row in enumerate(rows)], name=f"{name}.wandb"
    )


def test_the_clock_tells_which_of_overlapping_pieces_is_the_later(tmp_path):
    """Stopped at step 25, resumed at 20 up to 30, resumed at 10 up to 40: by steps the third stands second."""
    rows = logfiles.verl_rows(steps=40, every=10)
    first = timed(tmp_path, "first", rows[:26], 1.7e9)
    second = timed(tmp_path, "second", rows[21:31], 1.8e9)
    third = timed(tmp_path, "third", rows[11:], 1.9e9)
    (whole,) = read_traces([third, first, second], stitch=True).values()
    assert whole.columns["step"].tolist() == [0, 10, 20, 30, 40]
    assert whole.compute[-1] == pytest.approx(sum(row["timing_s/step"] for row in rows[1:]) * 256 / 3600)
    assert any("in this order: first.wandb, second.wandb, third.wandb" in note for note in whole.notes)


def test_pieces_whose_order_cannot_be_told_are_refused(tmp_path):
    rows = logfiles.verl_rows(steps=40, every=10)
    parts = pieces("verl file", tmp_path, rows[:31], rows[11:], rows[21:31])
    with pytest.raises(TraceError) as error:
        read_traces(parts, stitch=True)
    assert "piece1.jsonl (steps 11 to 40) and piece2.jsonl (steps 21 to 30) overlap" in str(error.value)
    assert "leave one out, or cut off the rows that were replaced" in str(error.value)
    a, b = timed(tmp_path, "actor", rows, 1.7e9), timed(tmp_path, "trainer", rows, 1.7e9 + 1)
    with pytest.raises(TraceError, match=r"actor.wandb .* and trainer.wandb .* were written at the same time"):
        read_traces([a, b], stitch=True)


def test_a_clock_that_counts_from_the_start_of_each_piece_orders_nothing(tmp_path):
    rows = logfiles.verl_rows(steps=40, every=10)
    first, second = timed(tmp_path, "first", rows[:31], 0.0), timed(tmp_path, "second", rows[21:], 0.0)
    (whole,) = read_traces([second, first], stitch=True).values()
    assert any("in this order: first.wandb, second.wandb" in note for note in whole.notes)


@pytest.mark.parametrize("kind", ["flat JSON lines", "CSV"])
def test_tables_of_metrics_are_joined_too(tmp_path, kind):
    rows = logfiles.verl_rows(steps=40, every=10)
    first, second = pieces(kind, tmp_path, rows[:21], rows[21:])
    (whole,) = read_traces([second, first], stitch=True).values()
    assert whole.columns["step"].tolist() == [0, 10, 20, 30, 40]
    table = tmp_path / "table.csv"
    table.write_text("gpu_hours,pass_rate\n0,0.3\n")
    with pytest.raises(TraceError, match=r"table.csv is a table or a trace \(csv\), not a trainer's log"):
        read_traces([first, table], stitch=True)


def test_a_piece_without_steps_or_dates_is_refused(tmp_path):
    rows = logfiles.verl_rows(steps=40, every=10)
    first = logfiles.console(tmp_path, rows)
    second = tmp_path / "second.log"
    second.write_text("{'loss': 0.1, 'step_time': 18.0, 'rewards/acc': 0.1}\n")
    with pytest.raises(TraceError, match=r"second.log: no row says its step, so its place among the other pieces"):
        read_traces([first, second], stitch=True)


def test_a_run_is_chosen_before_its_pieces_are_joined(tmp_path):
    """Two stores, each with a piece of the run that is meant and one of another run."""
    rows = logfiles.verl_rows(steps=40, every=10)
    paths = []
    for i, part in enumerate((rows[:21], rows[21:])):
        (tmp_path / str(i)).mkdir()
        path = logfiles.mlflow_db(tmp_path / str(i), part)
        with logfiles.sqlite3.connect(path) as connection:
            connection.execute("INSERT INTO runs VALUES ('u2', 'other', 'active')")
            connection.execute("INSERT INTO metrics SELECT key, value, timestamp, 'u2', step, is_nan FROM metrics")
        connection.close()
        paths.append(path)
    (whole,) = read_traces(paths, stitch=True, run="first").values()
    assert whole.columns["step"].tolist() == [0, 10, 20, 30, 40]
    assert whole.metadata["run"] == "first"
    with pytest.raises(TraceError, match="there is no run 'none'; there are first, other"):
        read_traces(paths, stitch=True, run="none")
    with pytest.raises(TraceError, match="run='x' was asked for, but exp.jsonl tells no runs apart"):
        read_trace(logfiles.verl_file(tmp_path, rows), run="x")


# --- resumes within one log ---------------------------------------------------------------------------------------


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
    trace = read_trace(path, compute="steps", resume=policy)
    assert trace.columns["step"].tolist() == steps
    assert trace.pass_rate.tolist() == pytest.approx(scores)
    assert trace.compute.tolist() == compute


def test_every_piece_counts_in_steps_and_tokens_too(tmp_path):
    """Steps 1 to 30, then 21 to 40: 50 steps were executed, and as many tokens by the hundred."""
    rows = [{"step": i, "step_time": 36.0, "num_tokens": 100 * i} for i in range(1, 41)]
    rows = [{**row, "eval_rewards/acc/mean": row["step"] / 100} if row["step"] % 10 == 0 else row for row in rows]
    path = flat(tmp_path, [*rows[:30], *rows[20:]])
    for unit, each in (("steps", 1), ("tokens", 100)):
        trace = read_trace(path, compute=unit, resume="all")
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


# --- rows without a step --------------------------------------------------------------------------------------------


def test_rows_that_say_only_their_time_have_no_step(tmp_path):
    """The time was given out as the step, and 1.7 thousand million steps were said to be missing."""
    rows = [{"_timestamp": 1.7e9 + 36 * i, "timing_s/step": 36.0} for i in range(1, 11)]
    rows += [{"_timestamp": 1.7e9 + 36 * i + 1, "val-core/m/acc/mean@4": i / 100} for i in (5, 10)]
    path = flat(tmp_path, sorted(rows, key=lambda row: row["_timestamp"]))
    trace = read_trace(path, n_gpus=100)
    assert trace.compute.tolist() == pytest.approx([5, 10])
    assert "step" not in trace.columns
    assert trace.columns["wall_time"].tolist() == [145, 325]
    with pytest.raises(TraceError, match="metrics.jsonl: no row says its step; count compute in another unit"):
        read_trace(path, compute="steps")


def test_a_mean_over_steps_needs_the_steps(tmp_path):
    rows = [{"_timestamp": 1.7e9 + i, "train/step_time": 18.0, "eval/rewards/acc/mean": 0.1} for i in range(5)]
    with pytest.raises(TraceError, match=r"TRL's seconds are a mean over steps, but no row says its step"):
        read_trace(flat(tmp_path, rows), n_gpus=8)


def test_training_rows_without_a_step_are_told(tmp_path):
    rows = [{"step": i, "timing_s/step": 36.0, "val-core/m/acc/mean@4": i / 100} for i in range(1, 11)]
    del rows[4]["step"]
    trace = read_trace(flat(tmp_path, rows), n_gpus=100)
    assert trace.compute[-1] == pytest.approx(9)
    assert any("1 of the training rows of metrics.jsonl without a step" in note for note in trace.notes)
    assert trace.metadata["receipt"]["dropped"]["scored, but without a step"] == 1


def test_the_clock_passes_over_rows_without_a_step(tmp_path):
    rows = [{"step": i, "time": 1.7e9 + 36 * i, "progress/tokens": 1.0} for i in range(11)]
    rows = [row for pair in ((row, {"time": row["time"] + 18, "other": 1.0}) for row in rows) for row in pair]
    rows.append({"step": 10, "time": 1.7e9 + 360, "eval/aime/all/solver/avg@8": 0.2})
    assert read_trace(flat(tmp_path, rows), n_gpus=100).compute.tolist() == pytest.approx([10])


@pytest.mark.parametrize("away", [0.0, 3600.0, 20_000.0])
def test_time_that_no_step_accounts_for_is_said(tmp_path, away):
    """Thirty steps of 300 s: what W&B dropped of a replay shows in the clock only."""
    rows = logfiles.verl_rows(30, 10)
    clock = np.cumsum([row.get("timing_s/step", 0.0) + row.get("timing_s/testing", 0.0) for row in rows])
    clock[20:] += away
    run = logfiles.wandb_file(tmp_path, [{**row, "_timestamp": at} for row, at in zip(rows, clock, strict=True)])
    said = [note for note in read_trace(run).notes if "passed by the clock" in note]
    assert len(said) == (away > 3600)
