"""Which completions enter the loss, and the weight of their tokens."""

from __future__ import annotations

import pytest
import torch

from helpers.float64_kernels import tensor
from rlscaling.trainer.algorithm.filters import AGGREGATIONS, has_variance, kept_completions, token_weights


def test_variance_is_judged_on_correctness() -> None:
    assert has_variance(tensor([[1, 1, 1], [0, 0, 0], [0, 1, 0]])).tolist() == [False, False, True]


def test_truncated_and_uniform_groups_leave_the_batch() -> None:
    correct = tensor([[1, 0, 0], [1, 1, 1]])
    truncated = torch.tensor([[False, False, True], [False, False, False]])
    dropped = kept_completions(correct, truncated, zero_variance="drop")
    kept = kept_completions(correct, truncated, zero_variance="keep")
    assert dropped.tolist() == [[True, True, False], [False, False, False]]
    assert kept.tolist() == [[True, True, False], [True, True, True]]


def test_token_weights_by_hand() -> None:
    # two prompts of two completions: 1 and 3 tokens; 2 and 4, of which the last is out
    lengths = torch.tensor([1, 3, 2, 4])
    mask = torch.arange(4) < lengths[:, None]
    keep = torch.tensor([[True, True], [True, False]])
    firsts = {
        "prompt": [1 / (2 * 4), 1 / (2 * 4), 1 / (2 * 2), 0.0],
        "sample": [1 / (3 * 1), 1 / (3 * 3), 1 / (3 * 2), 0.0],
        "token": [1 / 6, 1 / 6, 1 / 6, 0.0],
    }
    for aggregation, expected in firsts.items():
        weight = token_weights(mask, keep, aggregation=aggregation)
        assert weight[:, 0].tolist() == pytest.approx(expected)
        assert float(weight.sum()) == pytest.approx(1.0)
        assert not weight[~mask].any()


def test_an_empty_batch_weighs_nothing() -> None:
    for aggregation in AGGREGATIONS:
        weight = token_weights(
            torch.ones(2, 3, dtype=torch.bool), torch.zeros(1, 2, dtype=torch.bool), aggregation=aggregation
        )
        assert weight.tolist() == [[0.0] * 3] * 2
