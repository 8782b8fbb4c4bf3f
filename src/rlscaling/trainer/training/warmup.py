"""Supervised warm-up: reinforcement learning needs a model that is right now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generation.rollout import pad_ids
from rlscaling.trainer.model.scoring import token_logp
from rlscaling.trainer.training.optimizer import Optimizer

if TYPE_CHECKING:
    from torch import Tensor

    from rlscaling.trainer.model.decoder import Decoder
    from rlscaling.trainer.settings.config import TrainConfig
    from rlscaling.trainer.tasks.task import Task


_LR_RISE = 10
_WARMUP_STREAM = 0x5F7  # keeps the examples apart from the epochs of the same seed


def supervised_warmup(model: Decoder, task: Task, config: TrainConfig) -> float:
    """Imitate ``warmup_steps`` batches of the task's examples; return the last loss, in nats per token."""
    optimizer = Optimizer(
        model,
        lr=config.warmup_lr,
        warmup=_LR_RISE,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_eps,
        weight_decay=config.weight_decay,
        clip=config.grad_clip,
    )
    rng = np.random.default_rng([config.seed, _WARMUP_STREAM])
    value = float("nan")
    for step in range(config.warmup_steps):
        examples = [part.to(config.device) for part in _examples(task, config.warmup_batch, rng)]
        loss = -token_logp(model, *examples).mean()
        torch.autograd.backward(loss)
        optimizer.accumulate()
        optimizer.step()
        value = float(loss.detach())
        if value != value:
            raise TrainError(f"the loss of warm-up step {step} is {value}: lower warmup_lr={config.warmup_lr:g}")
    return value


def _examples(task: Task, n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return prompts (n, P), completions (n, T), which tokens are theirs, and the lengths of the prompts."""
    pairs = [task.sft_example(int(i), rng) for i in rng.integers(task.n_train, size=n)]
    tokens, lengths = pad_ids([completion for _, completion in pairs], task.pad_id)
    prompt_ids, prompt_length = pad_ids([prompt for prompt, _ in pairs], task.pad_id)
    return prompt_ids, tokens, torch.arange(tokens.shape[1]) < lengths[:, None], prompt_length
