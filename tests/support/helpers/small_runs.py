"""The settings of runs that take a second: three digits, sixty prompts, a model that has just been warmed up."""

from __future__ import annotations

import dataclasses
from typing import Any

from rlscaling.trainer import TrainConfig, make_config
from rlscaling.trainer.generation.rollout import Group

SMALL: dict[str, Any] = {
    "threads": 1,
    "n_train_prompts": 60,
    "prompts_per_step": 6,
    "generations": 4,
    "warmup_steps": 30,
    "warmup_batch": 32,
    "warmup_lr": 5e-3,
    "eval_prompts": 10,
    "n_digits": 3,
}
TINY = "--threads 1 --steps 2 --warmup-steps 2 --prompts-per-step 4 --generations 2 --eval-prompts 4 --eval-samples 2"
THINKING_BUDGET = {"task": "addition", "thinking_budget": 24}
SHORT_THINKING = {
    "task": "addition",
    "n_digits": 2,
    "thinking_budget": 8,
    "warmup_steps": 40,
    "warmup_lr": 5e-3,
    "rope_theta": 1e4,
}


def short_config(recipe: str = "scalerl", **changes: Any) -> TrainConfig:
    return make_config(recipe, **{**SMALL, "eval_samples": 2, "eval_every": 2, "steps": 3, **changes})


def scored(group: Group, right: tuple[float, float] = (1.0, 0.0)) -> Group:
    """The group with other marks: `right` for even and odd samples."""
    marks = [(right[rollout.sample % 2], rollout) for rollout in group.rollouts]
    rollouts = tuple(dataclasses.replace(r, correct=mark, reward=2 * mark - 1) for mark, r in marks)
    return Group(group.index, group.prompt, rollouts)


def small_config(**changes: Any) -> TrainConfig:
    return make_config("scalerl", **{**SMALL, "eval_samples": 3, **changes})
