"""``rlscaling doctor``: each finding with its remedy and exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers import log_files
from helpers.command_line import run_command
from rlscaling import Trace, write_trace

SCORE, CUT = log_files.SCORE, "response_length/clip_ratio"


def test_doctor_finds_nothing_in_a_sound_run(working_folder, capsys):
    path = log_files.verl_file(working_folder, log_files.verl_rows(40, 10))
    assert run_command(capsys, "doctor", path) == (0, "exp: nothing found\n", "")


def test_doctor_tells_of_lines_that_were_left_out(working_folder, capsys):
    path = Path(log_files.verl_file(working_folder, log_files.verl_rows(steps=40, every=10)))
    path.write_bytes(path.read_bytes() + b'{"step": 41, "da')
    code, out, _ = run_command(capsys, "doctor", path)
    assert code == 0
    assert "The last line of exp.jsonl was cut short (16 bytes) and was left out" in out
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:7], b"oops\n", *lines[7:-1]]))
    assert "1 of the lines of exp.jsonl are not objects of step and data" in run_command(capsys, "doctor", path)[1]


def test_doctor_tells_identical_files_apart_from_two_runs(working_folder, capsys):
    path = log_files.verl_file(working_folder, log_files.verl_rows(40, 10))
    shutil.copy(path, working_folder / "copy.jsonl")
    code, out, _ = run_command(capsys, "doctor", path, "copy.jsonl", "--json")
    assert code == 3
    found = {one["run"]: one["findings"] for one in json.loads(out)["runs"]}
    assert found["exp"] == []
    (finding,) = found["copy"]
    assert finding["severity"] == "decide"
    assert finding["what"] == "its input is the same, byte for byte, as that of exp"
    assert "two training runs" in finding["remedy"]


@pytest.mark.parametrize(
    ("change", "what", "code"),
    [
        (lambda rows: rows[1:], "there is none before training", 0),
        (lambda rows: [*rows[:31], *rows[21:]], "steps go back or repeat: resumed 1; 10 training rows replayed", 0),
        (lambda rows: rows[21:], "begins at step 21", 3),
        (lambda rows: rows[:5] + rows[8:], "3 of 40 steps have no training row", 0),
        (lambda rows: [{**row, CUT: 0.3} for row in rows], "truncated completions: up to 30", 0),
        (lambda rows: [{**row, SCORE: 0} if SCORE in row else row for row in rows], "score is 0 in", 0),
        (lambda rows: [{k: v for k, v in row.items() if k != "perf/throughput"} for row in rows], "number of GPUs", 3),
        (lambda rows: [{k: v for k, v in row.items() if k in (SCORE, CUT)} for row in rows], "how long", 3),
    ],
)  # fmt: skip
def test_doctor_findings(working_folder, capsys, change, what, code):
    path = log_files.verl_file(working_folder, change(log_files.verl_rows(40, 10)))
    got, out, _ = run_command(capsys, "doctor", path)
    assert what in out
    assert "    -> " in out
    assert got == code


@pytest.mark.parametrize("n", [500, 1000, 10_000])
def test_doctor_suspects_sampled_histories(working_folder, capsys, n):
    steps = np.sort(np.random.default_rng(0).choice(8 * n, n, replace=False))
    path = working_folder / "history.csv"
    path.write_text("step,accuracy\n" + "".join(f"{step},{0.3 + i / 1e6}\n" for i, step in enumerate(steps)))
    code, out, _ = run_command(capsys, "doctor", path)
    assert code == 3
    assert f"decide: exactly {n:,} rows were read: a sampled history" in out


def test_doctor_takes_a_whole_log_of_500_rows_for_whole(working_folder, capsys):
    """A logger's own file is read to its end, and rows at even distances have none between them."""
    rows = log_files.verl_rows(499, 10)
    for row in rows:
        row |= {SCORE: 0.25 + (row[SCORE] - 0.25) / 2} if SCORE in row else {}
    even = working_folder / "even.csv"
    even.write_text("step,accuracy\n" + "".join(f"{10 * i},{0.3 + i / 1e4}\n" for i in range(500)))
    hours = np.sort(np.random.default_rng(0).random(500))
    write_trace(Trace(hours, 0.3 + hours / 10), working_folder / "own.jsonl")
    paths = [even, working_folder / "own.jsonl"]
    for kind, write in log_files.WRITERS.items():
        (working_folder / kind).mkdir()
        paths.append(write(working_folder / kind, rows))
    for path in paths:
        (record,) = json.loads(run_command(capsys, "ingest", path, "--json")[1])["runs"]
        assert record["receipt"]["rows_read"] == 500
        _, out, _ = run_command(capsys, "doctor", path)
        assert "sampled" not in out


def test_doctor_says_what_to_do_about_a_missing_beginning(working_folder, capsys):
    path = log_files.verl_file(working_folder, log_files.verl_rows(40, 10)[21:])
    _, out, _ = run_command(capsys, "doctor", path)
    assert "is unknown (a restart may have erased them)\n    -> give the earlier piece as well" in out


def test_doctor_on_smoothed_exports_and_the_training_reward(working_folder, capsys):
    path = working_folder / "chart.csv"
    path.write_text('"Step","a - eval/acc","a - eval/acc__MIN","a - eval/acc__MAX"\n0,0.3,0.2,0.4\n5,0.4,0.3,0.5\n')
    code, out, _ = run_command(capsys, "doctor", path)
    assert code == 3
    assert "In 2 rows __MIN and __MAX differ" in out
    path = log_files.verl_file(working_folder, log_files.verl_rows(40, 10))
    code, out, _ = run_command(capsys, "doctor", path, "--metric", "critic/score/mean", "--scale", "pm1")
    assert code == 3
    assert "is the reward in training" in out


def test_doctor_on_a_wrong_gpu_count(working_folder, capsys):
    path = log_files.verl_file(working_folder, log_files.verl_rows(40, 10))
    code, out, _ = run_command(capsys, "doctor", path, "--n-gpus", 64)
    assert code == 3
    assert "64 GPUs were given, but the log's own rates give 256." in out
