"""Training on emulated kernels: the gradients of the reference, and a trace like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clips import CLIPS
from exact import worst
from rlscaling import read_trace
from rlscaling.trainer import loop, make_config, train
from rlscaling.trainer.config import TrainConfig
from rlscaling.trainer.kernels import backends
from rlscaling.trainer.kernels.ops import HeadResult
from rlscaling.trainer.model import Decoder
from rlscaling.trainer.rollout import Batch

SMALL: dict[str, Any] = {
    "steps": 10, "n_train_prompts": 200, "prompts_per_step": 8, "generations": 8, "n_digits": 3, "warmup_steps": 60,
    "warmup_lr": 5e-3, "eval_every": 10, "eval_prompts": 8, "eval_samples": 2, "head_dtype": "fp32",
}  # fmt: skip


@pytest.mark.parametrize("loss", ["cispo", "dapo", "gspo", "reinforce"])
def test_gradients_of_ten_steps(loss: str, kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every parameter's gradient of each step, within 1e-5 of its norm, on the rollouts of one run."""
    plain = loop.policy_loss
    apart: list[float] = []

    def both(model: Decoder, batch: Batch, advantage: Tensor, weight: Tensor, config: TrainConfig) -> HeadResult:
        parameters = list(model.parameters())
        kernels = plain(model, batch, advantage, weight, config)
        gradients = torch.autograd.grad(kernels.loss, parameters)
        with backends.using("reference"):
            result = plain(model, batch, advantage, weight, config)
            expected = torch.autograd.grad(result.loss, parameters, retain_graph=True)
        torch.testing.assert_close(kernels.logp, result.logp, atol=5e-6, rtol=1e-6)
        torch.testing.assert_close(kernels.entropy, result.entropy, atol=5e-6, rtol=1e-6)
        assert [int(kernels.stats[i]) for i in (0, 3)] == [int(result.stats[i]) for i in (0, 3)]
        apart.extend(float((a - b).norm() / b.norm()) for a, b in zip(gradients, expected, strict=True))
        return result

    monkeypatch.setattr(loop, "policy_loss", both)
    low, high = CLIPS[loss]
    config = make_config(**SMALL, loss=loss, device=kernel_device.type, k=2, clip_low=low, clip_high=high)
    rows = train(config).rows
    assert sum(row["kind"] == "train" for row in rows) == 10
    assert len(apart) >= 8 * 20, "steps in which every prompt was all right or all wrong have no gradient"
    assert worst(*apart) < 1e-5


def test_a_short_run_logs_the_same_columns() -> None:
    config = make_config(**{**SMALL, "steps": 3})
    expected = [(*row,) for row in train(config).rows]
    with backends.using("emulate"):
        assert [(*row,) for row in train(config).rows] == expected


def test_the_header_names_the_kernels_and_others_may_go_on(tmp_path: Path) -> None:
    tiny = {**SMALL, "warmup_steps": 1, "steps": 1}
    with backends.using("emulate"):
        train(make_config(**tiny), tmp_path)
    assert read_trace(tmp_path / "trace.jsonl").metadata["kernels"] == "emulate"
    assert train(make_config(**{**tiny, "steps": 2}), tmp_path, resume=True).steps == 2
    assert read_trace(tmp_path / "trace.jsonl").metadata["kernels"] == "emulate", "those of the first row"
    train(make_config(**tiny), tmp_path / "other")
    assert read_trace(tmp_path / "other" / "trace.jsonl").metadata["kernels"] == "reference"


def columns(folder: Path, backend: str, *options: str) -> list[tuple[str, ...]]:
    """Train in a process of its own; the columns of every row."""
    env = {**os.environ, "RLSCALING_KERNELS": backend, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "rlscaling.trainer", "--out", str(folder / backend), *options]
    subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=900)
    lines = (folder / backend / "trace.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)) for line in lines[1:]]


@pytest.mark.slow
def test_twenty_steps_of_the_default_task_log_the_same_columns(tmp_path: Path) -> None:
    emulated = columns(tmp_path, "emulate", "--steps", "20")
    assert emulated == columns(tmp_path, "reference", "--steps", "20")
    assert len(emulated) == 22


@pytest.mark.slow
def test_the_gpu_check_passes_its_rehearsal(tmp_path: Path) -> None:
    """The whole script on emulated kernels, so that it is known to run before a GPU is at hand."""
    script = Path(__file__).parents[2] / "benchmarks" / "gpu_check.py"
    command = [sys.executable, "-W", "ignore", str(script), "--rehearse", "--json", str(tmp_path / "check.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "check.json").read_text())
    assert len(found["checks"]) > 60
    assert all(check["passed"] for check in found["checks"])
    assert {row["operation"].split()[0] for row in found["speed"]} == {"copy", "row", "sample", "policy"}
