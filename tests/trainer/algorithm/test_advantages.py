"""Advantages and length penalties against hand-computed values and NumPy."""

from __future__ import annotations

import numpy as np
import torch

from helpers.float64_kernels import tensor
from rlscaling.trainer.algorithm.advantages import (
    length_penalty,
    normalize_batch,
    normalize_none,
    normalize_prompt,
    penalized_reward,
)

REWARD = np.array([[1.0, -1.0, -1.0, -1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0]])


def test_advantages_against_numpy() -> None:
    centered = REWARD - REWARD.mean(1, keepdims=True)
    reward = torch.from_numpy(REWARD)
    np.testing.assert_allclose(normalize_none(reward), centered)
    np.testing.assert_allclose(normalize_batch(reward), centered / (centered.std(ddof=1) + 1e-6))
    np.testing.assert_allclose(normalize_prompt(reward), centered / (REWARD.std(1, ddof=1, keepdims=True) + 1e-6))


def test_groups_without_variance_have_advantage_zero() -> None:
    for normalize in (normalize_none, normalize_prompt, normalize_batch):
        assert normalize(torch.ones(2, 4)).tolist() == [[0.0] * 4] * 2


def test_length_penalty_by_hand() -> None:
    """PAPER: L_max 14k, L_cache 2k: nothing up to 12k, half at 13k, -1 from 14k on."""
    length = torch.tensor([100, 12_000, 13_000, 14_000, 20_000])
    assert length_penalty(length, maximum=14_000, cache=2_000).tolist() == [0.0, 0.0, -0.5, -1.0, -1.0]


def test_only_correct_completions_are_penalized() -> None:
    reward, correct = tensor([1.0, -1.0]), tensor([1.0, 0.0])
    length = torch.tensor([14, 14])
    assert penalized_reward(reward, correct, length, maximum=14, cache=2).tolist() == [0.0, -1.0]
