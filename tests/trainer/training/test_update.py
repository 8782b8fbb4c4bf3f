"""One update: micro-batches, memory, a batch that teaches nothing."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch

from helpers.small_runs import scored, short_config
from rlscaling.trainer import TrainConfig
from rlscaling.trainer.training.checkpoint import RunFolder
from rlscaling.trainer.training.run_state import RunState
from rlscaling.trainer.training.update import update
from rlscaling.trainer.training.warmup import supervised_warmup


def weights_after(config: TrainConfig, **changes: Any) -> tuple[dict[str, Any], torch.Tensor]:
    run = RunState.new(config)
    run.learner.folder = RunFolder(None, {})
    supervised_warmup(run.learner.model, run.learner.task, config)
    groups = run.cluster.next_batch(run.learner.model)
    run.learner.config = dataclasses.replace(config, **changes)
    grads: list[torch.Tensor] = []
    real = run.learner.optimizer.step

    def step() -> float:
        grads.append(torch.cat([p.grad.flatten() for p in run.learner.optimizer.masters if p.grad is not None]))
        return real()

    run.learner.optimizer.step = step  # type: ignore[method-assign]
    return update(run.learner, groups), grads[0]


@pytest.mark.parametrize("loss", ["cispo", "dapo", "gspo"])
def test_micro_batches_give_the_gradient_of_the_batch(loss: str) -> None:
    config = short_config(
        loss=loss, clip_low=0.0 if loss == "cispo" else 0.1, clip_high=4.0 if loss == "cispo" else 0.1
    )
    row, whole = weights_after(config)
    micro_row, parts = weights_after(config, micro_batch=4)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-7)
    assert micro_row == pytest.approx(row, rel=1e-4, abs=1e-6)


def test_memory_grows_with_the_micro_batch_and_not_with_the_batch() -> None:
    def saved_bytes(prompts: int, micro: int) -> int:
        run, live, peak = (
            RunState.new(short_config(prompts_per_step=prompts, micro_batch=micro, zero_variance="keep")),
            0,
            0,
        )
        run.learner.folder = RunFolder(None, {})

        class Kept:
            def __init__(self, value: torch.Tensor) -> None:
                nonlocal live, peak
                self.value, self.size = value, value.numel() * value.element_size()
                live += self.size
                peak = max(peak, live)

            def __del__(self) -> None:
                nonlocal live
                live -= self.size

        groups = run.cluster.next_batch(run.learner.model)
        with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.value):
            update(run.learner, groups)
        return peak

    assert saved_bytes(24, 8) == pytest.approx(saved_bytes(6, 8), rel=0.1)
    assert saved_bytes(24, 32) > 3 * saved_bytes(24, 8)


def test_a_batch_that_teaches_nothing_changes_no_weight() -> None:
    config = short_config(warmup_steps=0, weight_decay=0.1)
    run = RunState.new(config)
    run.learner.folder = RunFolder(None, {})
    before = copy.deepcopy(run.learner.model.state_dict())
    groups = run.cluster.next_batch(run.learner.model)
    row = update(run.learner, [scored(group, (0.0, 0.0)) for group in groups])
    assert (row["effective_batch"], row["loss"], row["lag_mean"]) == (0, 0.0, None)
    assert all(torch.equal(before[name], value) for name, value in run.learner.model.state_dict().items())
