"""The losses as kernels against ``losses.py`` under autograd in float64: value, slope and every statistic."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from clips import CLIPS
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.losses import LOSSES

SIZES = (1, 31, 257, 5000)
"""One thread of one block; less than a warp; a block and a thread; twenty blocks."""


def tokens(n: int, *, sorted_sequences: bool = True) -> dict[str, Tensor]:
    """Tokens of sequences of seven on average, one of them without tokens in the loss, one without tokens at all."""
    generator = torch.Generator().manual_seed(n)
    sequence = torch.randint(max(1, n // 7), (n,), generator=generator)
    sequence = torch.where(sequence == 2, 1, sequence)
    if sorted_sequences:
        sequence = sequence.sort().values
    logp = -torch.rand(n, generator=generator) * 3 - 0.01
    weight = torch.rand(n, generator=generator) * (torch.rand(n, generator=generator) > 0.2) / n
    return {
        "logp": logp,
        "old_logp": logp + torch.randn(n, generator=generator) * 0.3,
        "advantage": torch.randn(n, generator=generator),
        "weight": weight.masked_fill(sequence == 1, 0.0),
        "sequence": sequence,
    }


def asked(given: dict[str, Tensor], loss: str, device: torch.device) -> tuple[Tensor, Tensor, ops.LossStats]:
    moved: dict[str, Any] = {name: value.to(device) for name, value in given.items()}
    leaf = moved.pop("logp").requires_grad_()
    low, high = CLIPS[loss]
    value, stats = ops.policy_loss(leaf, **moved, loss=loss, clip_low=low, clip_high=high)
    (slope,) = torch.autograd.grad(3 * value, leaf)
    return value.detach().cpu(), slope.cpu() / 3, ops.LossStats(*(number.cpu() for number in stats))


@pytest.mark.parametrize("sorted_sequences", [True, False])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("loss", LOSSES)
def test_against_float64(loss: str, n: int, sorted_sequences: bool, kernel_device: torch.device) -> None:
    given = tokens(n, sorted_sequences=sorted_sequences)
    exact = {k: v if k == "sequence" else v.double() for k, v in given.items()}
    leaf = exact.pop("logp").requires_grad_()
    order = ("old_logp", "advantage", "weight")
    expected, wanted = LOSSES[loss](leaf, *(exact[k] for k in order), CLIPS[loss], exact["sequence"])
    (expected_slope,) = torch.autograd.grad(expected, leaf)
    value, slope, stats = asked(given, loss, kernel_device)
    torch.testing.assert_close(value.double(), expected.detach(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(slope.double(), expected_slope, atol=1e-5 / n, rtol=1e-5)
    assert stats.n_tokens == wanted.n_tokens
    assert stats.n_clipped == wanted.n_clipped
    torch.testing.assert_close(stats.ratio_sum.double(), wanted.ratio_sum, atol=0, rtol=1e-5)
    torch.testing.assert_close(stats.ratio_max.double(), wanted.ratio_max, atol=0, rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_tokens_of_weight_zero_may_hold_anything(loss: str, kernel_device: torch.device) -> None:
    given = tokens(300)
    outside = given["weight"] == 0
    wild = {**given, **{k: given[k].masked_fill(outside, torch.nan) for k in ("old_logp", "advantage")}}
    for got, want in zip(asked(wild, loss, kernel_device)[:2], asked(given, loss, kernel_device)[:2], strict=True):
        assert torch.equal(got, want)
    assert (asked(wild, loss, kernel_device)[1][outside] == 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_ratio_that_is_no_number_is_not_hidden_by_the_clip(loss: str, device: torch.device) -> None:
    given = tokens(300)
    given["logp"][int(given["weight"].argmax())] = torch.nan
    value, slope, _ = asked(given, loss, device)
    assert value.isnan()
    assert slope.isnan().any() or loss == "reinforce"


@pytest.mark.parametrize("loss", LOSSES)
def test_no_tokens(loss: str, device: torch.device) -> None:
    given = {name: value[:0] for name, value in tokens(5).items()}
    value, slope, stats = asked(given, loss, device)
    assert value == 0
    assert slope.shape == (0,)
    assert [float(number) for number in stats] == [0.0] * 4


@pytest.mark.parametrize("loss", LOSSES)
def test_every_token_outside(loss: str, device: torch.device) -> None:
    given = tokens(40)
    value, slope, stats = asked({**given, "weight": torch.zeros(40)}, loss, device)
    assert value == 0
    assert not slope.any()
    assert [float(number) for number in stats] == [0.0] * 4
