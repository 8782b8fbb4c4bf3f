"""Hidden states and log-probabilities of completions, from one forward pass over prompts and completions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlscaling.trainer.kernels import ops

if TYPE_CHECKING:
    from rlscaling.trainer.model.decoder import Decoder


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
