"""Run by torchrun on two ranks: one update of two trainers beside that of one process, on the same groups.

Prints a line for each case: its name and the relative differences of loss, gradient and gradient norm. Gradients and
not weights: with AdamW's epsilon of 1e-15 a step has the size of the rate whatever the gradient's.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, distribute_tensor

from helpers.small_runs import SMALL
from rlscaling.trainer import make_config
from rlscaling.trainer.distributed.fsdp import ShardedDataParallel
from rlscaling.trainer.distributed.shutdown import end_rank
from rlscaling.trainer.generation.rollout import Group
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.training.checkpoint import RunFolder
from rlscaling.trainer.training.learner import Learner
from rlscaling.trainer.training.run_state import RunState
from rlscaling.trainer.training.update import update
from rlscaling.trainer.training.warmup import supervised_warmup

THINKING = {"task": "addition", "n_digits": 2, "thinking_budget": 8, "warmup_steps": 40, "rope_theta": 1e4}


def even(groups: list[Group]) -> list[Group]:
    """Every other completion is right."""
    return [marked(group, [sample % 2 for sample in range(len(group.rollouts))]) for group in groups]


def marked(group: Group, marks: list[int]) -> Group:
    pairs = zip(group.rollouts, marks, strict=True)
    return Group(
        group.index,
        group.prompt,
        tuple(dataclasses.replace(rollout, correct=float(mark), reward=2.0 * mark - 1) for rollout, mark in pairs),
    )


def one_row(groups: list[Group]) -> list[Group]:
    """One completion of the batch is kept: the second rank has none, in any micro-batch."""
    right = [even([groups[0]])[0]] + [marked(group, [0] * len(group.rollouts)) for group in groups[1:]]
    cut = [dataclasses.replace(rollout, truncated=i > 0) for i, rollout in enumerate(right[0].rollouts)]
    return [Group(right[0].index, right[0].prompt, tuple(cut)), *right[1:]]


def none(groups: list[Group]) -> list[Group]:
    """Nothing is kept."""
    return [marked(group, [0] * len(group.rollouts)) for group in groups]


CASES: dict[str, tuple[dict[str, Any], Callable[[list[Group]], list[Group]]]] = {
    "scalerl": ({}, even),
    "uneven": ({"prompts_per_step": 5, "generations": 3}, even),
    "micro-batches": ({"micro_batch": 8}, even),
    "sample-average": ({"aggregation": "sample", "advantage_norm": "prompt"}, even),
    "token-average": ({"aggregation": "token", "advantage_norm": "none"}, even),
    "gspo": ({"loss": "gspo", "clip_low": 3e-3, "clip_high": 4e-3}, even),
    "thinking": ({**THINKING, "length_control": "interruption"}, even),
    "experts": ({"n_experts": 4, "load_balance": 1.0}, even),
    "experts-micro": ({"n_experts": 4, "load_balance": 1.0, "micro_batch": 8}, even),
    "tied": ({"tied_head": True}, even),
    "one-row": ({}, one_row),
    "experts-one-row": ({"n_experts": 4, "load_balance": 1.0}, one_row),
    "no-row": ({}, none),
}


def gradients(run: Learner, groups: list[Group]) -> tuple[dict[str, Any], torch.Tensor]:
    """The row of an update, and the gradient before clipping as one vector."""
    grads: list[torch.Tensor] = []
    real = run.optimizer.step

    def step() -> float:
        for weight in run.optimizer.masters:
            assert weight.grad is not None
            whole = weight.grad.full_tensor() if hasattr(weight.grad, "full_tensor") else weight.grad
            grads.append(whole.flatten().clone())
        return real()

    run.optimizer.step = step  # type: ignore[method-assign]
    row = update(run, groups)
    return row, torch.cat(grads) if grads else torch.zeros(1)


def compare(config: TrainConfig, change: Callable[[list[Group]], list[Group]]) -> tuple[float, float, float]:
    state = RunState.new(config)
    single = state.learner
    together = Learner(config, ShardedDataParallel(dist.group.WORLD, "cpu"))
    for run in (single, together):
        run.folder = RunFolder(None, {})
    supervised_warmup(single.model, single.task, config)
    groups = change(state.cluster.next_batch(single.model))
    start = copy.deepcopy(single.model.state_dict())
    for name, value in together.model.state_dict().items():
        assert isinstance(value, DTensor)
        value.copy_(distribute_tensor(start[name], value.device_mesh, value.placements))
    (expected, whole), (row, parts) = gradients(single, groups), gradients(together, groups)
    assert (
        expected["effective_batch"] == 1
        if change is one_row
        else (expected["effective_batch"] > 0) == (change is not none)
    )
    for name in ("effective_batch", "lag_max", "lag_mean", "reward_mean"):
        assert row[name] == expected[name], name
    assert together.meter.tokens_trained == single.meter.tokens_trained
    for name in ("entropy", "ratio_mean", "ratio_max", "clip_fraction"):
        if expected[name] is not None:
            assert abs(row[name] - expected[name]) < 1e-5 * max(1, abs(expected[name])), name
    scale = float(whole.abs().max()) or 1.0
    return (
        abs(row["loss"] - expected["loss"]) / max(abs(expected["loss"]), 1e-2),
        float((parts - whole).abs().max()) / scale,
        abs(row["grad_norm"] - expected["grad_norm"]) / max(expected["grad_norm"], 1e-9),
    )


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name, (changes, change) in CASES.items():
        differences = compare(make_config(**{**SMALL, **changes}), change)
        if os.environ["RANK"] == "0":
            print(name, *differences, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    end_rank(0)
