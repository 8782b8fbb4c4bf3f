"""Rewards to advantages: length penalty, baseline and normalisation.

``Adv_i = r_i - mean_j r_j`` over the G completions of a prompt, then divided by a standard deviation or not.
All standard deviations are sample ones (``n - 1``), as in TRL and verl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

STD_FLOOR = 1e-6
"""Added to every standard deviation: a group without variance has advantage 0 and not nan."""


def center(reward: Tensor) -> Tensor:
    """Return ``r_i - mean_j r_j`` of each prompt, shape (P, G)."""
    return reward - reward.mean(1, keepdim=True)


def normalize_none(reward: Tensor) -> Tensor:
    """Return the centred reward as it is [Dr. GRPO, arXiv 2503.20783, section 3.2]."""
    return center(reward)


def normalize_prompt(reward: Tensor) -> Tensor:
    """Divide by the standard deviation of the prompt's own rewards [GRPO, arXiv 2402.03300, eq. 4]."""
    return center(reward) / (reward.std(1, keepdim=True) + STD_FLOOR)


def normalize_batch(reward: Tensor) -> Tensor:
    """Divide by the standard deviation of the centred rewards of the whole update [ScaleRL, 3.2 and A.10].

    It is taken before any filter, so prompts without variance are part of it.
    """
    centered = center(reward)
    return centered / (torch.std(centered) + STD_FLOOR)


ADVANTAGES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "batch": normalize_batch,
    "prompt": normalize_prompt,
    "none": normalize_none,
}
"""Value of ``advantage_norm`` -> function of rewards (P, G), returning advantages (P, G)."""


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
