"""The policy losses: one small function each, all of one signature.

``rho_t = exp(logp_t - old_logp_t)`` is the importance ratio of trainer to generator. Each function returns the
weighted sum over tokens of a loss to minimise; what is averaged over, and how, is in the weights
(``filters.token_weights``), so micro-batches add up to the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Clip(NamedTuple):
    """Bounds of the importance ratio; what they mean stands at each loss."""

    low: float
    high: float


class LossStats(NamedTuple):
    """Counts over the tokens in the loss, zero-dimensional, so that micro-batches can be added."""

    n_tokens: Tensor
    ratio_sum: Tensor
    ratio_max: Tensor  # 0 without tokens
    n_clipped: Tensor


Loss = Callable[[Tensor, Tensor, Tensor, Tensor, Clip, Tensor], tuple[Tensor, LossStats]]
"""``loss(logp, old_logp, advantage, weight, clip, sequence) -> (loss, stats)``.

All tensors are (N,), one number per token; ``sequence`` says which completion a token belongs to, from 0 up. Tokens
of weight 0 are not in the loss at all. Only ``logp`` carries a gradient.
"""


def reinforce(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, clip: Clip, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """``-Adv * log pi(y_t)`` [Williams 1992]: nothing corrects for the age of the weights."""
    ratio = _log_ratio(logp, old_logp, weight).exp()
    loss = -advantage * logp
    return _weighted_sum(loss, weight), _stats(ratio, torch.zeros_like(weight, dtype=torch.bool), weight)


def cispo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, clip: Clip, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """``-sg(min(rho_t, high)) * Adv * log pi(y_t)`` [MiniMax-M1, arXiv 2506.13585, eq. 4; ScaleRL, 3.2].

    A clipped ratio weighs the token less and never takes it out of the gradient. ``high`` is the cap itself
    (4 to 8); there is no lower bound.
    """
    ratio = _log_ratio(logp, old_logp, weight).exp()
    loss = -ratio.detach().clamp(max=clip.high) * advantage * logp
    return _weighted_sum(loss, weight), _stats(ratio, ratio > clip.high, weight)


def dapo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, clip: Clip, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """``-min(rho_t * Adv, clip(rho_t, 1 - low, 1 + high) * Adv)`` [DAPO, arXiv 2503.14476, eq. 8]."""
    ratio = _log_ratio(logp, old_logp, weight).exp()
    loss, clipped = _clipped_surrogate(ratio, advantage, clip)
    return _weighted_sum(loss, weight), _stats(ratio, clipped, weight)


def grpo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, clip: Clip, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """DAPO's loss with the same bound on both sides, ``low`` [GRPO, arXiv 2402.03300, eq. 3, without KL]."""
    return dapo(logp, old_logp, advantage, weight, Clip(clip.low, clip.low), sequence)


def gspo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, clip: Clip, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """``-min(s * Adv, clip(s, 1 - low, 1 + high) * Adv)`` with one ratio per sequence [GSPO, arXiv 2507.18071, eq. 5].

    ``s = (pi(y) / pi_old(y)) ** (1 / |y|)``; every token of a sequence has its loss, so that each aggregation
    means the same here as elsewhere.
    """
    ratio = _sequence_mean(_log_ratio(logp, old_logp, weight), weight, sequence).exp()
    loss, clipped = _clipped_surrogate(ratio, advantage, clip)
    return _weighted_sum(loss, weight), _stats(ratio, clipped, weight)


LOSSES: Mapping[str, Loss] = {"cispo": cispo, "dapo": dapo, "grpo": grpo, "gspo": gspo, "reinforce": reinforce}
"""Value of ``loss`` -> function."""


def _log_ratio(logp: Tensor, old_logp: Tensor, weight: Tensor) -> Tensor:
    # outside the loss the difference means nothing and may overflow
    return torch.where(weight > 0, logp - old_logp, 0.0)


def _sequence_mean(log_ratio: Tensor, weight: Tensor, sequence: Tensor) -> Tensor:
    """Return for each token the mean over its sequence, tokens in the loss only."""
    n = int(sequence.max()) + 1 if len(sequence) else 0
    total = log_ratio.new_zeros(n).index_add(0, sequence, log_ratio)
    count = log_ratio.new_zeros(n).index_add(0, sequence, (weight > 0).to(log_ratio.dtype))
    return (total / count.clamp(min=1))[sequence]


def _clipped_surrogate(ratio: Tensor, advantage: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """Return the loss, and where the bound took the gradient away."""
    bounded = ratio.clamp(1 - clip.low, 1 + clip.high)
    clipped = bounded * advantage < ratio * advantage
    return -torch.minimum(ratio * advantage, bounded * advantage), clipped


def _weighted_sum(loss: Tensor, weight: Tensor) -> Tensor:
    return torch.where(weight > 0, loss * weight, 0.0).sum()


def _stats(ratio: Tensor, clipped: Tensor, weight: Tensor) -> LossStats:
    inside = weight > 0
    seen = torch.where(inside, ratio.detach(), 0.0)
    top = seen.max() if len(seen) else seen.sum()
    return LossStats(inside.sum(), seen.sum(), top, (clipped & inside).sum())
