"""Pieces of a run in several logs, joined in order, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import log_files
from rlscaling import read_trace, read_traces
from rlscaling.errors import TraceError


def pieces(kind, tmp_path, *parts):
    """Each part of the rows as a log of its own, in a folder of its own."""
    paths = []
    for i, rows in enumerate(parts):
        folder = tmp_path / str(i)
        folder.mkdir()
        path = log_files.WRITERS[kind](folder, rows)
        paths.append(path.rename(folder / f"piece{i}{path.suffix}"))
    return paths


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("kind", ["verl file", "console", "W&B", "MLflow SQLite", "trackio", "TensorBoard"])
def test_pieces_are_joined_by_their_steps_in_whatever_order_they_are_given(tmp_path, kind, order):
    rows = log_files.verl_rows(steps=40, every=10)
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
        paths.append(log_files.wandb_file(tmp_path / str(i), part))
    (whole,) = read_traces([paths[i] for i in order], stitch=True, n_gpus=100).values()
    assert whole.columns["step"].tolist() == list(range(1, 41))
    assert whole.compute[-1] == pytest.approx(40)


def test_a_resumed_piece_that_overlaps_replaces_what_it_did_again(tmp_path):
    rows = log_files.verl_rows(steps=40, every=10)
    first, second = pieces("verl file", tmp_path, rows[:31], rows[21:])
    for paths in ([first, second], [second, first]):
        (whole,) = read_traces(paths, stitch=True).values()
        clean = read_trace(log_files.verl_file(tmp_path, rows))
        np.testing.assert_allclose(whole.compute, clean.compute)
        assert "1; 10 training rows replayed" in whole.metadata["receipt"]["assumed"]["resumes"]


def timed(tmp_path, name, rows, begins):
    """A W&B log of these rows, a minute apart."""
    return log_files.wandb_file(
        tmp_path, [{**row, "_timestamp": begins + 60 * i} for i, row in enumerate(rows)], name=f"{name}.wandb"
    )


def test_the_clock_tells_which_of_overlapping_pieces_is_the_later(tmp_path):
    """Stopped at step 25, resumed at 20 up to 30, resumed at 10 up to 40: by steps the third stands second."""
    rows = log_files.verl_rows(steps=40, every=10)
    first = timed(tmp_path, "first", rows[:26], 1.7e9)
    second = timed(tmp_path, "second", rows[21:31], 1.8e9)
    third = timed(tmp_path, "third", rows[11:], 1.9e9)
    (whole,) = read_traces([third, first, second], stitch=True).values()
    assert whole.columns["step"].tolist() == [0, 10, 20, 30, 40]
    assert whole.compute[-1] == pytest.approx(sum(row["timing_s/step"] for row in rows[1:]) * 256 / 3600)
    assert any("in this order: first.wandb, second.wandb, third.wandb" in note for note in whole.notes)


def test_pieces_whose_order_cannot_be_told_are_refused(tmp_path):
    rows = log_files.verl_rows(steps=40, every=10)
    parts = pieces("verl file", tmp_path, rows[:31], rows[11:], rows[21:31])
    with pytest.raises(TraceError) as error:
        read_traces(parts, stitch=True)
    assert "piece1.jsonl (steps 11 to 40) and piece2.jsonl (steps 21 to 30) overlap" in str(error.value)
    assert "leave one out, or cut off the rows that were replaced" in str(error.value)
    a, b = timed(tmp_path, "actor", rows, 1.7e9), timed(tmp_path, "trainer", rows, 1.7e9 + 1)
    with pytest.raises(TraceError, match=r"actor.wandb .* and trainer.wandb .* were written at the same time"):
        read_traces([a, b], stitch=True)


def test_a_clock_that_counts_from_the_start_of_each_piece_orders_nothing(tmp_path):
    rows = log_files.verl_rows(steps=40, every=10)
    first, second = timed(tmp_path, "first", rows[:31], 0.0), timed(tmp_path, "second", rows[21:], 0.0)
    (whole,) = read_traces([second, first], stitch=True).values()
    assert any("in this order: first.wandb, second.wandb" in note for note in whole.notes)


@pytest.mark.parametrize("kind", ["flat JSON lines", "CSV"])
def test_tables_of_metrics_are_joined_too(tmp_path, kind):
    rows = log_files.verl_rows(steps=40, every=10)
    first, second = pieces(kind, tmp_path, rows[:21], rows[21:])
    (whole,) = read_traces([second, first], stitch=True).values()
    assert whole.columns["step"].tolist() == [0, 10, 20, 30, 40]
    table = tmp_path / "table.csv"
    table.write_text("gpu_hours,pass_rate\n0,0.3\n")
    with pytest.raises(TraceError, match=r"table.csv is a table or a trace \(csv\), not a trainer's log"):
        read_traces([first, table], stitch=True)


def test_a_piece_without_steps_or_dates_is_refused(tmp_path):
    rows = log_files.verl_rows(steps=40, every=10)
    first = log_files.console(tmp_path, rows)
    second = tmp_path / "second.log"
    second.write_text("{'loss': 0.1, 'step_time': 18.0, 'rewards/acc': 0.1}\n")
    with pytest.raises(TraceError, match=r"second.log: no row has a step, so its place among the other pieces"):
        read_traces([first, second], stitch=True)


def test_a_run_is_chosen_before_its_pieces_are_joined(tmp_path):
    """Two stores, each with a piece of the run that is meant and one of another run."""
    rows = log_files.verl_rows(steps=40, every=10)
    paths = []
    for i, part in enumerate((rows[:21], rows[21:])):
        (tmp_path / str(i)).mkdir()
        path = log_files.mlflow_db(tmp_path / str(i), part)
        with log_files.sqlite3.connect(path) as connection:
            connection.execute("INSERT INTO runs VALUES ('u2', 'other', 'active')")
            connection.execute("INSERT INTO metrics SELECT key, value, timestamp, 'u2', step, is_nan FROM metrics")
        connection.close()
        paths.append(path)
    (whole,) = read_traces(paths, stitch=True, run="first").values()
    assert whole.columns["step"].tolist() == [0, 10, 20, 30, 40]
    assert whole.metadata["run"] == "first"
    with pytest.raises(TraceError, match="there is no run 'none'; there are first, other"):
        read_traces(paths, stitch=True, run="none")
    with pytest.raises(TraceError, match="run='x' was given, but exp.jsonl does not tell runs apart"):
        read_trace(log_files.verl_file(tmp_path, rows), run="x")
