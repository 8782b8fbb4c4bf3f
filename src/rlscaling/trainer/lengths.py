"""The length penalty; the other way to hold lengths, forced interruption, happens in ``generate.py``."""

from __future__ import annotations

import torch
from torch import Tensor


def length_penalty(length: Tensor, *, maximum: int, cache: int) -> Tensor:
    """Return ``clip((L_max - len) / L_cache - 1, -1, 0)`` [DAPO, arXiv 2503.14476, eq. 13; ScaleRL, A.10].

    0 up to ``maximum - cache`` tokens, then falling to -1 at ``maximum``.

    Parameters
    ----------
    length
        Sampled tokens of each completion, any shape.
    maximum
        ``L_max``, in tokens.
    cache
        ``L_cache``, in tokens.
    """
    return ((maximum - length) / cache - 1.0).clamp(-1.0, 0.0)


def penalized_reward(reward: Tensor, correct: Tensor, length: Tensor, *, maximum: int, cache: int) -> Tensor:
    """Return the reward with the penalty added to the correct completions only [ScaleRL, A.10]."""
    penalty = length_penalty(length, maximum=maximum, cache=cache)
    return torch.where(correct > 0, reward + penalty, reward)
