"""From the model to the loss: one forward pass over prompts and completions, and what the trainer asks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlscaling.trainer.kernels import ops

if TYPE_CHECKING:
    from rlscaling.trainer.config import TrainConfig
    from rlscaling.trainer.kernels.ops import HeadResult
    from rlscaling.trainer.model import Decoder
    from rlscaling.trainer.rollout import Batch


def hidden_states(model: Decoder, prompt_ids: Tensor, tokens: Tensor, inside: Tensor) -> Tensor:
    """Return the hidden state that predicts each token that counts.

    Parameters
    ----------
    model
        The policy.
    prompt_ids, tokens
        Prompts (N, P) and padded completions (N, T); padding stands last, so it cannot reach back.
    inside
        Tokens that count, (N, T) bool.

    Returns
    -------
    Tensor
        (n, D) for the n tokens that count, completion by completion.
    """
    read = torch.cat([prompt_ids, tokens[:, :-1]], dim=1)  # (N, P + T - 1): the last token predicts nothing
    hidden = model(read)[:, prompt_ids.shape[1] - 1 :]  # (N, T, D): position t predicts token t
    flat: Tensor = hidden[inside]
    return flat


def token_logp(
    model: Decoder, prompt_ids: Tensor, tokens: Tensor, inside: Tensor, *, temperature: float = 1.0
) -> Tensor:
    """Return the log-probability of each token that counts, (n,) float32 with gradient."""
    hidden = hidden_states(model, prompt_ids, tokens, inside)
    return ops.token_logprobs(model.logits(hidden), tokens[inside], temperature)[0]


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
        hidden_states(model, batch.prompt_ids, batch.tokens, inside),
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
