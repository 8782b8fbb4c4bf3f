"""Runs on several ranks, started by torchrun as a user would: training, equality, resume, refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.tiny_checkpoints import SHORT, word_problems
from helpers.torchrun import SMALL, finish, kill_one, repeatable, rows, torchrun, trainer
from rlscaling import read_trace
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.schema import COLUMNS
from rlscaling.trainer import TrainError, make_config, train
from rlscaling.trainer.__main__ import main
from rlscaling.trainer.training.checkpoint import TRACE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds ranks through /proc")


def test_one_generator_and_one_trainer(tmp_path: Path) -> None:
    """A pipeline of two processes: the trace is a trace, its ranks are real, and nothing is older than k."""
    done = finish(trainer(2, tmp_path, "--generators=1", "--trainers=1", steps=24, k=2))
    assert done.returncode == 0, done.stderr
    assert "24 steps, held-out pass rate" in done.stdout
    assert "1 generators, 1 trainers: " in done.stdout
    trace = read_trace(tmp_path / TRACE)
    assert trace.compute_unit == "device-hours"
    assert trace.metadata["roles"] == {"generators": 1, "trainers": 1, "modelled": False}
    assert trace.metadata["n_devices"] == 2
    written = rows(tmp_path)
    assert set().union(*written) <= set(COLUMNS)
    steps = [row for row in written if row["kind"] == "train"]
    assert [row["step"] for row in steps] == list(range(1, 25))
    assert [row["step"] for row in written if row["kind"] == "eval"] == list(range(0, 25, 4))
    assert max(row["lag_max"] or 0 for row in steps) in (1, 2)  # generation was ahead, and at most by k
    assert all(0 < row["idle_fraction"] < 1 for row in steps)
    assert all(row["tokens_per_second"] > 0 for row in steps)
    assert not any("modelled_gpu_hours" in row for row in written)
    assert len({row["loss"] for row in steps}) > 12
    # weights, gradients and two moments of FP32
    assert steps[-1]["peak_state_bytes"] == 4 * 4 * trace.metadata["n_parameters"]
    last = written[-1]
    seconds = last["seconds_generate"] + last["seconds_train"] + last["seconds_checkpoint"]
    assert last["compute"] == pytest.approx(2 * seconds / 3600)
    assert last["eval_gpu_hours"] == pytest.approx(2 * last["seconds_evaluate"] / 3600)
    assert last["wall_time"] >= seconds + last["seconds_evaluate"]


def test_ppo_off_policy_is_the_run_of_one_process_and_survives_a_kill(tmp_path: Path) -> None:
    """Nothing overlaps, so timing decides nothing: rank 0 killed, resumed, and the rows are those of one process."""
    changes: dict[str, Any] = {"schedule": "ppo-off-policy", "k": 3, "steps": 8, "checkpoint_every": 1}
    logged, output, _ = kill_one(trainer(2, tmp_path, **changes), tmp_path, 0, 7)
    assert "rank 0 has ended before the run was done; start again with --resume" in output
    done = finish(trainer(2, tmp_path, "--resume", **changes))
    assert done.returncode == 0, done.stderr
    assert_nothing_lost(tmp_path, logged)
    whole = train(make_config(**{**SMALL, **changes}))
    assert repeatable(rows(tmp_path)) == repeatable(whole.rows)
    with pytest.raises(TrainError, match=r"was written by ranks of torchrun and one process cannot go on from it"):
        train(make_config(**{**SMALL, **changes}), tmp_path, resume=True)


def assert_nothing_lost(folder: Path, logged: list[bytes], steps: int = 8) -> None:
    """Every row that was ever logged is in the trace or beside it, and the trace has each row once."""
    trace = (folder / TRACE).read_bytes().split(b"\n")
    aside = folder / "trace.discarded.jsonl"
    moved = aside.read_bytes().split(b"\n") if aside.exists() else []
    assert all(line in trace or line in moved for line in logged)
    written = rows(folder)
    assert [row["step"] for row in written if row["kind"] == "train"] == list(range(1, steps + 1))
    assert [row["step"] for row in written if row["kind"] == "eval"] == sorted({*range(0, steps, 4), steps})
    assert [row["compute"] for row in written] == sorted(row["compute"] for row in written)
    assert max(row["lag_max"] or 0 for row in written if row["kind"] == "train") <= 8


def test_a_killed_generator_ends_the_job_and_another_number_of_ranks_goes_on(tmp_path: Path) -> None:
    """Two trainers and a generator, which is killed; one trainer goes on from the checkpoint of two."""
    logged, output, seconds = kill_one(trainer(3, tmp_path, "--trainers=2", steps=400), tmp_path, 2, 9)
    assert "error on rank 0: rank 2, a generator, has ended before the run was done; the run stops after step" in output
    assert "is whole: start again with --resume" in output
    assert "error on rank 1: rank 2, a generator, has ended" in output
    assert seconds < 30
    last = json.loads(logged[-1])["step"]
    done = finish(trainer(2, tmp_path, "--trainers=1", "--resume", steps=last + 4))
    assert done.returncode == 0, done.stderr
    assert_nothing_lost(tmp_path, logged, last + 4)
    assert [path.name.split("-")[1] for path in tmp_path.glob("checkpoint-*")] == [str(last + 4)]


@pytest.mark.slow
@pytest.mark.parametrize("case", range(10))
def test_sigkill_of_any_rank_at_any_moment(case: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([20_251_015, case])
    kind, k = ("pipeline", 4) if case % 2 else ("ppo-off-policy", 3)
    changes: dict[str, Any] = {"schedule": kind, "k": k, "steps": 40, "checkpoint_every": 3}
    logged: list[bytes] = []
    for attempt in range(2):
        resume = ["--resume"] if attempt else []
        victim, lines = int(rng.integers(3)), int(rng.integers(2, 20)) + 18 * attempt
        more, output, seconds = kill_one(
            trainer(3, tmp_path, "--trainers=2", *resume, **changes), tmp_path, victim, lines
        )
        assert f"rank {victim}" in output
        assert seconds < 30
        logged += more
    done = finish(trainer(3, tmp_path, "--trainers=2", "--resume", **changes))
    assert done.returncode == 0, done.stderr
    assert_nothing_lost(tmp_path, logged, 40)


PROGRAM = """
import os, sys
from rlscaling.trainer.__main__ import main
own = {"0": [], "1": sys.argv[1].split()}[os.environ["RANK"]]
sys.exit(main(sys.argv[2:] + own))
"""


def test_ranks_that_disagree_all_say_so(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = finish(torchrun(2, str(program), "--seed=1", "--out", str(tmp_path / "run"), "--threads=1"))
    assert done.returncode != 0
    output = "the ranks disagree: rank 0 has seed=0 and rank 1 has seed=1; start all of them with the same command"
    for rank in (0, 1):
        assert f"error on rank {rank}: {output}" in done.stderr
    assert not (tmp_path / "run").exists()  # nothing was computed


def test_missing_rendezvous_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit) as stop:
        main(["--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "LOCAL_RANK, MASTER_ADDR, MASTER_PORT are not: ranks cannot find each other" in capsys.readouterr().err
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "--generators=1"])
    assert "--generators and --trainers share out the ranks of torchrun" in capsys.readouterr().err


@pytest.mark.slow
def test_a_pretrained_model_on_problems_from_files(tmp_path: Path) -> None:
    """What one process does with text, ranks do too: PPO-off-policy gives its rows, its counts and its saved model."""
    from safetensors.torch import load_file

    word_problems().write_all(tmp_path, 120)
    settings: dict[str, Any] = {
        **SHORT, "model_path": str(tmp_path / "tiny-qwen2"), "data": f"words={tmp_path / 'train.jsonl'}",
        "downstream": f"harder={tmp_path / 'harder.jsonl'}", "schedule": "ppo-off-policy", "k": 2, "steps": 4,
    }  # fmt: skip
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    save = ["--save-model", str(tmp_path / "saved")]
    command = torchrun(3, "-m", "rlscaling.trainer", "--out", str(tmp_path / "ranks"), "--trainers=2", *options, *save)
    done = finish(command)
    assert done.returncode == 0, done.stderr
    single = train(make_config(**settings), tmp_path / "one", save_model=tmp_path / "saved-one")
    written, expected = rows(tmp_path / "ranks"), list(single.rows)
    assert [(row["kind"], row["step"], row.get("domain")) for row in written] == [
        (row["kind"], row["step"], row.get("domain")) for row in expected
    ]
    assert all(row["checks_failed"] == 0 for row in written)
    first = [row["pass_rate"] for row in written if row["kind"] == "eval" and row["step"] == 0]
    assert first == [row["pass_rate"] for row in expected if row["kind"] == "eval" and row["step"] == 0]
    header = read_jsonl(tmp_path / "ranks" / TRACE)[0]
    assert header["downstream"] == ["harder"]
    assert header["config_hash"] == read_jsonl(single.trace_path)[0]["config_hash"]
    saved, other = (load_file(tmp_path / name / "model.safetensors") for name in ("saved", "saved-one"))
    assert saved.keys() == other.keys()
    assert all(saved[name].shape == other[name].shape and saved[name].isfinite().all() for name in saved)
    again = finish(command)
    assert again.returncode != 0
    assert "exists and is not empty" in again.stderr or "holds a run" in again.stderr
