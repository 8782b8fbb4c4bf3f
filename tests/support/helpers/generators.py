"""A generator on a tiny task, and completions compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlscaling.trainer import rng
from rlscaling.trainer.generation.generator import Generator, Sampling
from rlscaling.trainer.generation.rollout import Rollout
from rlscaling.trainer.model.build import build_model
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.make import make_config
from rlscaling.trainer.tasks.make import make_task
from rlscaling.trainer.tasks.task import Task


def setting(**fields: Any) -> tuple[TrainConfig, Task, Decoder]:
    config = make_config(**{"n_train_prompts": 600, **fields})
    task = make_task(config)
    return config, task, build_model(config, task)


def generator_of(config: TrainConfig, task: Task, n: int = 4) -> Generator:
    window = config.interrupt_window if config.length_control == "interruption" else None
    return Generator(task, Sampling(rng.key_of(config.seed), n, config.temperature, window))


def by_name(rollouts: list[Rollout]) -> list[Rollout]:
    return sorted(rollouts, key=lambda rollout: (rollout.group, rollout.sample))


def same(first: list[Rollout], second: list[Rollout], logp_within: float = 0.0) -> bool:
    assert len(first) == len(second)
    for a, b in zip(by_name(first), by_name(second), strict=True):
        if (a.group, a.sample, a.correct, a.truncated) != (b.group, b.sample, b.correct, b.truncated):
            return False
        if not np.array_equal(a.tokens, b.tokens) or np.abs(a.logp - b.logp).max() > logp_within:
            return False
    return True
