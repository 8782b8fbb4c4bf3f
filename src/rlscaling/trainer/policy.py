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


def hidden_states(
    model: Decoder, prompt_ids: Tensor, tokens: Tensor, inside: Tensor, prompt_length: Tensor | None = None
) -> Tensor:
    """Return the hidden state that predicts each token that counts.

    Parameters
    ----------
    model
        The policy.
    prompt_ids, tokens
        Padded prompts (N, P) and completions (N, T). Each completion is moved up to its prompt, so that all padding
        stands last and cannot reach back.
    inside
        Tokens that count, (N, T) bool.
    prompt_length
        (N,) long; None where no prompt is padded.

    Returns
    -------
    Tensor
        (n, D) for the n tokens that count, completion by completion.
    """
    read = torch.cat([prompt_ids, tokens[:, :-1]], dim=1)  # (N, P + T - 1): the last token predicts nothing
    if prompt_length is None:
        hidden = model(read)[:, prompt_ids.shape[1] - 1 :]  # (N, T, D): position t predicts token t
        flat: Tensor = hidden[inside]
        return flat
    place = torch.arange(read.shape[1], device=read.device)
    padding = prompt_ids.shape[1] - prompt_length[:, None]  # (N, 1)
    source = torch.where(place < prompt_length[:, None], place, place + padding)
    hidden = model(read.gather(1, source.clamp(max=read.shape[1] - 1)))
    row, t = inside.nonzero(as_tuple=True)
    moved: Tensor = hidden[row, prompt_length[row] - 1 + t]
    return moved


def token_logp(
    model: Decoder,
    prompt_ids: Tensor,
    tokens: Tensor,
    inside: Tensor,
    prompt_length: Tensor | None = None,
    *,
    temperature: float = 1.0,
) -> Tensor:
    """Return the log-probability of each token that counts, (n,) float32 with gradient."""
    hidden = hidden_states(model, prompt_ids, tokens, inside, prompt_length)
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
