"""Which completions enter the loss, and the weight of their tokens.

The weight of a token holds the whole denominator of the loss, so a loss is always a plain weighted sum: what
is left out has weight 0, and micro-batches add up to the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def has_variance(correct: Tensor) -> Tensor:
    """Return which prompts have completions of different correctness, (P, G) -> (P,) bool.

    Decided on correctness, not on the reward: a length penalty does not make variance [ScaleRL, 3.2].
    """
    return correct.amax(1) > correct.amin(1)


def kept_completions(correct: Tensor, truncated: Tensor, *, zero_variance: str) -> Tensor:
    """Return which completions enter the loss, all shapes (P, G).

    Parameters
    ----------
    correct
        How correct each completion is, 0 to 1.
    truncated
        Cut off at the length limit: never in the loss nor in its denominators [ScaleRL, A.15].
    zero_variance
        ``"drop"``: prompts that are all right or all wrong leave the batch and are not resampled;
        ``"keep"``: they stay in the denominators with advantage 0.
    """
    keep = ~truncated
    if zero_variance == "drop":
        keep = keep & has_variance(correct)[:, None]
    return keep


def sample_average(tokens: Tensor) -> Tensor:
    """Weigh every completion the same: ``1 / (completions * |y_i|)`` [GRPO, eq. 3]."""
    return _inverse((tokens > 0).sum() * tokens)


def prompt_average(tokens: Tensor) -> Tensor:
    """Weigh every prompt the same, its tokens alike: ``1 / (prompts * sum_g |y_g|)`` [DAPO; ScaleRL, eq. 3]."""
    per_prompt = tokens.sum(1, keepdim=True)  # (P, 1)
    return _inverse((per_prompt > 0).sum() * per_prompt).expand_as(tokens)


def token_average(tokens: Tensor) -> Tensor:
    """Weigh every token of the batch the same: ``1 / tokens``."""
    return _inverse(tokens.sum()).expand_as(tokens)


def _inverse(count: Tensor) -> Tensor:
    return torch.where(count > 0, 1.0 / count.clamp(min=1), 0.0)


AGGREGATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sample": sample_average,
    "prompt": prompt_average,
    "token": token_average,
}
"""Value of ``aggregation`` -> function of kept tokens per completion (P, G), returning token weights (P, G)."""


def token_weights(mask: Tensor, keep: Tensor, *, aggregation: str) -> Tensor:
    """Return the weight of each token in the loss.

    Parameters
    ----------
    mask
        Sampled tokens, (N, T) bool; the N = P * G completions stand prompt by prompt.
    keep
        Completions that enter the loss, (P, G) bool.
    aggregation
        ``"prompt"``, ``"sample"`` or ``"token"``.

    Returns
    -------
    torch.Tensor
        (N, T) float32; sums to 1 unless nothing is kept.
    """
    inside = mask & keep.reshape(-1, 1)
    per_completion = AGGREGATIONS[aggregation](inside.sum(1).reshape(keep.shape))  # (P, G)
    return inside * per_completion.reshape(-1, 1).to(torch.float32)
