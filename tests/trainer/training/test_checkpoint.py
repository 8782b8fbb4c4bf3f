"""A killed run that is resumed has the rows of one that nothing interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.text_runs import config_of
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.trainer import TrainConfig, TrainError, make_config, train
from rlscaling.trainer.model.hf_weights import load_model
from rlscaling.trainer.training.checkpoint import CHECKPOINT, TRACE

MEASURED = ("wall_time", "compute", "eval_gpu_hours", "lost_gpu_hours")
SMALL: dict[str, Any] = {
    "threads": 1,
    "n_train_prompts": 40,
    "prompts_per_step": 4,
    "generations": 4,
    "warmup_steps": 4,
    "warmup_batch": 16,
    "eval_prompts": 8,
    "eval_samples": 2,
    "eval_every": 3,
    "checkpoint_every": 2,
    "steps": 9,
}
THINKING = {"task": "addition", "n_digits": 2, "thinking_budget": 8}


def small(recipe: str = "scalerl", **changes: Any) -> TrainConfig:
    return make_config(recipe, **{**SMALL, **changes})


def repeatable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without what is measured in time."""
    return [
        {key: value for key, value in row.items() if key not in MEASURED and not key.startswith("seconds_")}
        for row in rows
    ]


class KilledError(Exception):
    """Stands for a kill at a row."""


def train_until(config: TrainConfig, folder: Path, n_rows: int, *, resume: bool = False) -> None:
    left = n_rows

    def count(row: dict[str, Any]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KilledError

    with pytest.raises(KilledError):
        train(config, folder, resume=resume, on_row=count)


VARIANTS: list[dict[str, Any]] = [
    {},
    {"schedule": "ppo-off-policy", "k": 3},
    {"k": 8, "clock_update_token": 1.0},
    THINKING,
    {"dtype": "bf16"},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=["pipeline", "ppo", "lag8", "thinking", "bf16"])
def test_resumed_run_has_the_rows_of_an_uninterrupted_one(changes: dict[str, Any], tmp_path: Path) -> None:
    config = small(**changes)
    whole = train(config)
    train_until(config, tmp_path, 1)  # the evaluation before training, no checkpoint yet
    train_until(config, tmp_path, 7, resume=True)
    train_until(config, tmp_path, 2, resume=True)
    done = train(config, tmp_path, resume=True)
    _, rows, _ = read_jsonl(tmp_path / TRACE)
    assert repeatable(rows) == repeatable(whole.rows) == repeatable(done.rows)
    discarded = [json.loads(line) for line in (tmp_path / "trace.discarded.jsonl").read_text().splitlines()]
    assert len(discarded) == 1 + 1 + 2  # before any checkpoint; after step 4; after step 4 again
    compute_at = {row["step"]: row["compute"] for row in rows}
    redone = (discarded[1]["compute"] - compute_at[4]) + (discarded[3]["compute"] - compute_at[4])
    assert rows[-1]["lost_gpu_hours"] == pytest.approx(redone)
    compute = [row["compute"] for row in rows]
    assert compute == sorted(compute)
    wall = [row["wall_time"] for row in rows]
    assert wall == sorted(wall)


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    train(small(steps=2), tmp_path)
    before = (tmp_path / TRACE).read_bytes()
    again = train(small(steps=2), tmp_path, resume=True)
    assert (tmp_path / TRACE).read_bytes() == before
    assert again.steps == 2


def test_a_finished_run_can_be_prolonged(tmp_path: Path) -> None:
    train(small(steps=6), tmp_path)
    longer = train(small(steps=9), tmp_path, resume=True)
    assert repeatable(longer.rows) == repeatable(train(small(steps=9)).rows)


def test_resume_of_nothing_begins(tmp_path: Path) -> None:
    assert train(small(steps=1), tmp_path / "new", resume=True).steps == 1


def test_folder_with_a_run_is_left_alone(tmp_path: Path) -> None:
    train(small(steps=1), tmp_path)
    before = (tmp_path / TRACE).read_bytes()
    with pytest.raises(TrainError, match="holds a run already and was left as it is; pass --resume"):
        train(small(steps=1), tmp_path)
    assert (tmp_path / TRACE).read_bytes() == before


def test_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    train(small(steps=2), tmp_path)
    with pytest.raises(TrainError, match=r"belongs to a run of other settings \(config "):
        train(small(steps=2, lr=1e-3), tmp_path, resume=True)
    (tmp_path / TRACE).unlink()
    with pytest.raises(TrainError, match=r"checkpoint.pt belongs to a run of other settings"):
        train(small(steps=2, lr=1e-3), tmp_path, resume=True)
    with pytest.raises(TrainError, match=r"stands without its trace.jsonl: the rows before step 2 would be missing"):
        train(small(steps=2), tmp_path, resume=True)


def test_a_resume_to_fewer_steps_is_refused_and_moves_nothing(tmp_path: Path) -> None:
    train(small(steps=4), tmp_path)
    before = (tmp_path / TRACE).read_bytes()
    with pytest.raises(TrainError, match=r"has done 4 steps already, more than steps=2, .* at least steps=4"):
        train(small(steps=2), tmp_path, resume=True)
    assert (tmp_path / TRACE).read_bytes() == before
    assert train(small(steps=4), tmp_path, resume=True).steps == 4


def test_many_settings_that_differ_are_counted(tmp_path: Path) -> None:
    train(small(steps=1), tmp_path)
    others = {"lr": 1e-3, "lr_warmup": 7, "eval_samples": 3, "warmup_steps": 9, "warmup_lr": 1e-2, "adam_beta2": 0.9}
    others |= {"prompts_per_step": 5, "generations": 3, "d_ff": 24, "temperature": 0.9}
    with pytest.raises(TrainError, match=r"; and [2-9] more; resume with the settings in the header"):
        train(small(steps=1, **others), tmp_path, resume=True)


def test_torn_checkpoint_says_so(tmp_path: Path) -> None:
    train(small(steps=2), tmp_path)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TrainError, match="cannot be read as a checkpoint"):
        train(small(steps=2), tmp_path, resume=True)
    torch.save({"version": 99, "step": 1, "config_hash": ""}, path)
    with pytest.raises(TrainError, match="checkpoint of format 99"):
        train(small(steps=2), tmp_path, resume=True)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(TrainError, match="is a file; choose a folder"):
        train(small(steps=1), tmp_path / "out")


def test_full_disk_leaves_the_trace_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlscaling.files import replace_file
    from rlscaling.trainer.training import checkpoint

    def full(path: Path, data: bytes) -> None:
        if path.name == CHECKPOINT and b'"step": 2' in (tmp_path / TRACE).read_bytes():
            raise OSError(28, "No space left on device")
        real(path, data)

    real = replace_file
    monkeypatch.setattr(checkpoint, "replace_file", full)
    with pytest.raises(TrainError, match="the checkpoint of step 2 could not be written .* No space left on device"):
        train(small(), tmp_path)
    _, rows, notes = read_jsonl(tmp_path / TRACE)
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert not notes
    monkeypatch.undo()
    assert repeatable(train(small(), tmp_path, resume=True).rows) == repeatable(train(small()).rows)


def test_loss_that_is_no_number_stops_and_keeps_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlscaling.trainer.training import update

    real, calls = update.policy_loss, 0

    def broken(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        result = real(*args)
        return result._replace(loss=result.loss * float("nan")) if calls == 4 else result

    monkeypatch.setattr(update, "policy_loss", broken)
    with pytest.raises(TrainError, match="the loss of step 4 is nan: .* the checkpoint of step 2 is kept"):
        train(small(zero_variance="keep"), tmp_path)
    monkeypatch.undo()
    resumed = train(small(zero_variance="keep"), tmp_path, resume=True)
    assert repeatable(resumed.rows) == repeatable(train(small(zero_variance="keep")).rows)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_sigkill_at_any_moment(tmp_path: Path) -> None:
    """Kill a run in a process of its own several times, at moments nobody chose, and let it end."""
    config = small(steps=60, checkpoint_every=5)
    script = (
        "import json, sys; from rlscaling.trainer import make_config, train\n"
        "train(make_config('scalerl', **json.loads(sys.argv[1])), sys.argv[2], resume=True)"
    )
    command = [sys.executable, "-c", script, json.dumps({**SMALL, "steps": 60, "checkpoint_every": 5}), str(tmp_path)]
    for rows in (5, 41):
        process = subprocess.Popen(command)
        trace, deadline = tmp_path / TRACE, time.monotonic() + 60
        while not trace.exists() or trace.read_bytes().count(b"\n") < rows:
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline, "the run writes nothing"
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    train(config, tmp_path, resume=True)
    assert repeatable(read_jsonl(tmp_path / TRACE)[1]) == repeatable(train(config).rows)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a trace without measured times."""
    timed = ("compute", "eval_gpu_hours", "lost_gpu_hours", "wall_time")
    return [
        {key: value for key, value in row.items() if key not in timed and not key.startswith("seconds_")}
        for row in read_jsonl(path)[1]
    ]


def test_a_resumed_run_is_the_run_that_nothing_interrupted(folder: Path, tmp_path: Path) -> None:
    config = config_of(folder, steps=6, checkpoint_every=3, warmup_steps=60, warmup_lr=5e-3)
    train(config, tmp_path / "whole")

    class Killed(Exception):  # noqa: N818
        pass

    def kill(row: dict[str, Any]) -> None:
        if row["kind"] == "train" and row["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        train(config, tmp_path / "cut", on_row=kill)
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)  # where the files lie does not matter
    lines = (moved / "train.jsonl").read_text().splitlines()
    (moved / "train.jsonl").write_text("\n".join(sorted(lines)) + "\n")  # nor their order
    again = config_of(moved, steps=6, checkpoint_every=3, warmup_steps=60, warmup_lr=5e-3)
    train(again, tmp_path / "cut", resume=True, save_model=tmp_path / "saved")
    assert rows_of(tmp_path / "cut" / "trace.jsonl") == rows_of(tmp_path / "whole" / "trace.jsonl")
    trained, before = load_model(tmp_path / "saved", 100), load_model(folder / "tiny-qwen2", 100)
    assert not torch.equal(trained.embed_tokens.weight, before.embed_tokens.weight)
    (moved / "train.jsonl").write_text("\n".join(lines[:-40]) + "\n")
    with pytest.raises(TrainError, match="belongs to a run of other settings"):
        train(again, tmp_path / "cut", resume=True)
