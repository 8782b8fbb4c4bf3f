"""`build_model`: the policy of a run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.model.spec import ModelSpec

if TYPE_CHECKING:
    from rlscaling.trainer.settings.config import TrainConfig
    from rlscaling.trainer.tasks.task import Task


def build_model(config: TrainConfig, task: Task) -> Decoder:
    """Return the policy of a run on its device: a checkpoint's weights, or fresh ones that the seed decides."""
    positions = task.prompt_length + task.max_new_tokens
    if config.model_path:
        from rlscaling.trainer.model.hf_weights import load_model

        loaded = load_model(config.model_path, positions, head_dtype=config.head_dtype, dtype=config.dtype)
        return loaded.to(config.device)
    names = {f.name for f in dataclasses.fields(ModelSpec)}
    sizes = {name: value for name, value in vars(config).items() if name in names}
    spec = ModelSpec(task.vocab_size, max_positions=positions, **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = Decoder(spec)
    return model.to(config.device)
