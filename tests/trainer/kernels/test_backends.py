"""Which implementation runs, and a run that is the same on each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.clip_bounds import CLIPS
from helpers.float64_kernels import worst
from helpers.operation_inputs import VOCAB, N, floats, ids, refused
from rlscaling import read_trace
from rlscaling.errors import RLScalingWarning
from rlscaling.trainer import make_config, train
from rlscaling.trainer.generation.rollout import Batch
from rlscaling.trainer.kernels import backends, cuda, emulation, ops
from rlscaling.trainer.kernels.types import HeadResult
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.training import update

SMALL: dict[str, Any] = {
    "steps": 10, "n_train_prompts": 200, "prompts_per_step": 8, "generations": 8, "n_digits": 3, "warmup_steps": 60,
    "warmup_lr": 5e-3, "eval_every": 10, "eval_prompts": 8, "eval_samples": 2, "head_dtype": "fp32",
}  # fmt: skip


@pytest.mark.parametrize("loss", ["cispo", "dapo", "gspo", "reinforce"])
def test_gradients_of_ten_steps(loss: str, kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every parameter's gradient of each step, within 1e-5 of its norm, on the rollouts of one run."""
    plain = update.policy_loss
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

    monkeypatch.setattr(update, "policy_loss", both)
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


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def force(name: str) -> None:
        monkeypatch.setenv(backends.VARIABLE, name)
        backends.choose.cache_clear()

    backends.choose.cache_clear()
    yield force
    backends.choose.cache_clear()


def test_a_cpu_takes_the_reference(forced: Callable[[str], None]) -> None:
    forced("")
    assert ops.backend("cpu") == ("reference", "plain torch in FP32: tensors on the CPU need no kernels")


def test_each_can_be_forced(forced: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    forced("reference")
    assert ops.backend("cpu")[0] == "reference"
    assert "forced by RLSCALING_KERNELS" in ops.backend("cpu")[1]
    monkeypatch.setenv(backends.VARIABLE, "emulate")
    assert ops.backend("cpu")[0] == "reference", "decided once"
    forced("emulate")
    name, reason = ops.backend("cpu")
    assert (name, "g++" in reason) == ("emulate", True)


def test_what_is_forced_and_not_there_is_an_error(
    forced: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    forced("hip")
    with refused("RLSCALING_KERNELS='hip' is unknown; choose one of reference, cuda, emulate, or unset it"):
        ops.backend()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    forced("cuda")
    with refused("RLSCALING_KERNELS=cuda, and torch sees no CUDA device here"):
        ops.token_logprobs(floats(N, VOCAB), ids())
    forced("emulate")
    with refused("RLSCALING_KERNELS=emulate runs on CPU tensors, these are on cuda"):
        ops.backend("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    forced("cuda")
    with refused("RLSCALING_KERNELS=cuda, and these tensors are on the cpu; set device='cuda', or unset it"):
        ops.backend("cpu")
    forced("emulate")
    emulation.compiler.cache_clear()
    monkeypatch.setenv("PATH", "")
    try:
        with refused(r"no g\+\+ found, and kernels are emulated by compiling them with it: apt-get install g\+\+"):
            ops.backend("cpu")
    finally:
        emulation.compiler.cache_clear()


def test_a_gpu_without_nvrtc_is_told_and_served(forced: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Unforced it warns and takes torch; forced it is an error. Both name the command that helps."""
    missing = r"no module 'cuda.bindings', through which the CUDA compiler is called: pip install 'rlscaling\[cuda\]'"

    def absent() -> Any:
        raise ModuleNotFoundError("gone", name="cuda.bindings")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "_nvrtc", absent)
    cuda.nvrtc_version.cache_clear()
    try:
        forced("")
        with pytest.warns(RLScalingWarning, match=f"CUDA kernels cannot be used, plain torch is: {missing}"):
            assert ops.backend("cuda")[0] == "reference"
        forced("cuda")
        with refused(missing):
            ops.backend("cuda")
    finally:
        cuda.nvrtc_version.cache_clear()


def test_the_reference_needs_no_compiler(tmp_path: Path) -> None:
    """No g++, no nvcc, no CUDA package, no cache: a CPU trains all the same."""
    script = (
        "import sys\n"
        "sys.modules.update({'cuda': None, 'cuda.bindings': None})\n"
        "from rlscaling.trainer import make_config, train\n"
        "train(make_config(steps=1, n_train_prompts=60, prompts_per_step=6, generations=4, warmup_steps=2,"
        " eval_prompts=4, n_digits=3))\n"
        "from rlscaling.trainer.kernels import ops\n"
        "print(ops.backend()[0])\n"
    )
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env)
    assert done.stdout == "reference\n", done.stderr
    assert os.listdir(tmp_path) == []
