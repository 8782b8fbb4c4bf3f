"""One update: policy loss, gradients, step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlscaling.trainer.algorithm.advantages import ADVANTAGES, penalized_reward
from rlscaling.trainer.algorithm.filters import kept_completions, token_weights
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generation.rollout import Group, collate
from rlscaling.trainer.model.scoring import hidden_states
from rlscaling.trainer.training.learner import Learner, Row
from rlscaling.trainer.training.step_metrics import StepMetrics, batch_columns

if TYPE_CHECKING:
    from rlscaling.trainer.generation.rollout import Batch
    from rlscaling.trainer.kernels.types import HeadResult
    from rlscaling.trainer.model.decoder import Decoder
    from rlscaling.trainer.settings.config import TrainConfig


def update(learner: Learner, groups: list[Group]) -> Row:
    """Take one gradient step on P groups of G completions; return its metrics.

    Ranks that train together all call it with the same groups and share its step 5.
    """
    config = learner.config
    P, G = len(groups), config.generations
    batch = collate(groups, learner.task.pad_id).to(config.device)  # (N, T), N = P * G, prompt by prompt

    # 1. Reward: +1 or -1; with a length penalty, correct completions that ran long get less.
    reward = batch.reward
    if config.length_control == "penalty":
        limits = {"maximum": config.penalty_max, "cache": config.penalty_cache}
        reward = penalized_reward(reward, batch.correct, batch.length, **limits)

    # 2. Advantage: centred within the prompt, divided by the standard deviation of the whole batch.
    advantage = ADVANTAGES[config.advantage_norm](reward.reshape(P, G)).flatten()  # (N,)

    # 3. What teaches nothing leaves: truncated completions, prompts that were all right or all wrong.
    correct, truncated = batch.correct.reshape(P, G), batch.truncated.reshape(P, G)
    keep = kept_completions(correct, truncated, zero_variance=config.zero_variance)  # (P, G)

    # 4. Every prompt weighs the same: 1 / (prompts * tokens of the prompt's completions).
    weight = token_weights(batch.mask, keep, aggregation=config.aggregation)  # (N, T)

    # 5. The loss, micro-batch by micro-batch: the denominator is in the weights, so gradients just add up.
    rows = keep.flatten().nonzero()[:, 0]
    stats = StepMetrics(learner.step, batch.version[rows, 0])
    for part in torch.split(rows, config.micro_batch or len(rows)) if len(rows) else ():
        share = learner.data_parallel.share(part, weight)
        micro = batch.select(share.rows)
        result = policy_loss(learner.model, micro, advantage[share.rows], share.weight, config)
        loss, balance = result.loss, learner.data_parallel.load_balance(learner.model, share)
        if balance is not None:  # mixture of experts: use them all
            loss = loss + config.load_balance * balance * len(part) / len(rows)
        torch.autograd.backward(learner.data_parallel.scaled(loss))
        learner.optimizer.accumulate()
        stats.add(micro, share.weight, result)
    learner.data_parallel.add_up(stats)

    # 6. AdamW. A batch in which nothing was kept changes no weight, and its step still counts.
    grad_norm = learner.optimizer.step() if len(rows) else 0.0
    check_finite(learner, stats.loss, grad_norm)
    learner.step += 1
    learner.meter.count_step(learner.flops, batch, prompts=P, trained_rows=len(rows), trained_tokens=stats.n_tokens)
    return {**batch_columns(batch), "grad_norm": grad_norm, **stats.columns()}


def check_finite(learner: Learner, loss: float, grad_norm: float) -> None:
    """Stop before a loss or gradient that is not finite reaches the checkpoint."""
    for name, value in (("loss", loss), ("gradient norm", grad_norm)):
        if not math.isfinite(value):
            saved = learner.folder.saved_at
            kept = f"the checkpoint of step {saved} is kept" if saved is not None else "there is no checkpoint"
            raise TrainError(
                f"the {name} of step {learner.step + 1} is {value}: the run stops before the weights are changed; "
                f"{kept}; lower lr={learner.config.lr:g} or grad_clip={learner.config.grad_clip:g}"
            )


def policy_loss(model: Decoder, batch: Batch, advantage: Tensor, weight: Tensor, config: TrainConfig) -> HeadResult:
    """Return the loss of a (micro-)batch with its gradient, and per-token values without.

    Parameters
    ----------
    model
        The policy.
    batch
        N completions.
    advantage
        (N,).
    weight
        Weight of each token in the loss, (N, T); the head is applied to tokens of weight above 0 only.
    config
        ``loss``, ``clip_low``, ``clip_high``, ``temperature``.
    """
    inside = weight > 0
    sequence = inside.nonzero()[:, 0]  # (n,) completion of each token
    result: HeadResult = model.lm_head(
        hidden_states(model, batch.prompt_ids, batch.tokens, inside, batch.prompt_length),
        tokens=batch.tokens[inside],
        old_logp=batch.old_logp[inside],
        advantage=advantage[sequence],
        token_weight=weight[inside],
        temperature=config.temperature,  # the one the tokens were sampled at: a ratio needs the same on both sides
        loss=config.loss,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        sequence=sequence,
    )
    return result
