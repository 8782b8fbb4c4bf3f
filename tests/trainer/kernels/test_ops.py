"""The operations on every implementation, against float64: rows, samples, losses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

from helpers.clip_bounds import CLIPS
from helpers.float64_kernels import (
    TEMPERATURES,
    WIDTHS,
    far,
    row_gradient,
    row_values,
    rows_of_every_kind,
    tokens_for,
    worst,
)
from helpers.operation_inputs import tokens
from rlscaling.trainer import rng
from rlscaling.trainer.algorithm.losses import LOSSES, LossStats
from rlscaling.trainer.kernels import backends, ops

SIZES = (1, 31, 257, 5000)
"""One thread of one block; less than a warp; a block and a thread; twenty blocks."""


def loss_of(per_token: dict[str, Tensor], loss: str, device: torch.device) -> tuple[Tensor, Tensor, LossStats]:
    moved: dict[str, Any] = {name: value.to(device) for name, value in per_token.items()}
    leaf = moved.pop("logp").requires_grad_()
    low, high = CLIPS[loss]
    value, stats = ops.policy_loss(leaf, **moved, loss=loss, clip_low=low, clip_high=high)
    (slope,) = torch.autograd.grad(3 * value, leaf)
    return value.detach().cpu(), slope.cpu() / 3, LossStats(*(number.cpu() for number in stats))


@pytest.mark.parametrize("sorted_sequences", [True, False])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("loss", LOSSES)
def test_against_float64(loss: str, n: int, sorted_sequences: bool, kernel_device: torch.device) -> None:
    per_token = tokens(n, sorted_sequences=sorted_sequences)
    exact = {k: v if k == "sequence" else v.double() for k, v in per_token.items()}
    leaf = exact.pop("logp").requires_grad_()
    order = ("old_logp", "advantage", "weight")
    expected, wanted = LOSSES[loss](leaf, *(exact[k] for k in order), CLIPS[loss], exact["sequence"])
    (expected_slope,) = torch.autograd.grad(expected, leaf)
    value, slope, stats = loss_of(per_token, loss, kernel_device)
    torch.testing.assert_close(value.double(), expected.detach(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(slope.double(), expected_slope, atol=1e-5 / n, rtol=1e-5)
    assert stats.n_tokens == wanted.n_tokens
    assert stats.n_clipped == wanted.n_clipped
    torch.testing.assert_close(stats.ratio_sum.double(), wanted.ratio_sum, atol=0, rtol=1e-5)
    torch.testing.assert_close(stats.ratio_max.double(), wanted.ratio_max, atol=0, rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_tokens_of_weight_zero_may_hold_anything(loss: str, kernel_device: torch.device) -> None:
    per_token = tokens(300)
    outside = per_token["weight"] == 0
    wild = {**per_token, **{k: per_token[k].masked_fill(outside, torch.nan) for k in ("old_logp", "advantage")}}
    plain, of_wild = (loss_of(values, loss, kernel_device)[:2] for values in (per_token, wild))
    for actual, reference in zip(of_wild, plain, strict=True):
        assert torch.equal(actual, reference)
    assert (loss_of(wild, loss, kernel_device)[1][outside] == 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_ratio_that_is_no_number_is_not_hidden_by_the_clip(loss: str, device: torch.device) -> None:
    per_token = tokens(300)
    per_token["logp"][int(per_token["weight"].argmax())] = torch.nan
    value, slope, _ = loss_of(per_token, loss, device)
    assert value.isnan()
    assert slope.isnan().any() or loss == "reinforce"


@pytest.mark.parametrize("loss", LOSSES)
def test_no_tokens(loss: str, device: torch.device) -> None:
    per_token = {name: value[:0] for name, value in tokens(5).items()}
    value, slope, stats = loss_of(per_token, loss, device)
    assert value == 0
    assert slope.shape == (0,)
    assert [float(number) for number in stats] == [0.0] * 4


@pytest.mark.parametrize("loss", LOSSES)
def test_every_token_outside(loss: str, device: torch.device) -> None:
    per_token = tokens(40)
    value, slope, stats = loss_of({**per_token, "weight": torch.zeros(40)}, loss, device)
    assert value == 0
    assert not slope.any()
    assert [float(number) for number in stats] == [0.0] * 4


BF16_HALF_ULP = 2.0**-8  # of a number: 8 bits
DTYPES = (torch.float32, torch.bfloat16)


def test_an_error_that_is_no_number_is_the_worst() -> None:
    """Wherever it stands; a NaN in a tensor of results is one too."""
    assert worst(1.0, 3.0, 2.0) == 3
    assert math.isnan(worst(1.0, math.nan, 2.0))
    one = torch.ones(3)
    assert math.isnan(worst(0.0, far(torch.tensor([1.0, math.nan, 1.0]), one.double(), 1e-6), 0.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("width", WIDTHS)
def test_values_against_float64(width: int, temperature: float, dtype: torch.dtype, device: torch.device) -> None:
    x = rows_of_every_kind(width).to(dtype)
    tokens = tokens_for(x)
    logp, entropy = ops.token_logprobs(x.to(device), tokens.to(device), temperature)
    exact_logp, exact_entropy = row_values(x, tokens, temperature)
    assert far(logp, exact_logp, 5e-6, 1e-7) <= 1
    assert far(entropy, exact_entropy, 5e-6) <= 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("width", WIDTHS)
def test_gradients_against_float64(width: int, temperature: float, dtype: torch.dtype, device: torch.device) -> None:
    """To 1e-5 of the largest possible slope, 1 / T, in FP32; in bf16 half of its last digit more."""
    x = rows_of_every_kind(width).to(dtype)
    tokens = tokens_for(x)
    d_logp, d_entropy = torch.linspace(-1, 1, len(x)), torch.linspace(0.5, -0.5, len(x))
    leaf = x.to(device).requires_grad_()
    logp, entropy = ops.token_logprobs(leaf, tokens.to(device), temperature)
    torch.autograd.backward([logp, entropy], [d_logp.to(device), d_entropy.to(device)])
    exact = row_gradient(x, tokens, temperature, d_logp, d_entropy)
    assert leaf.grad is not None
    assert leaf.grad.dtype == dtype
    relative = 0.0 if dtype == torch.float32 else BF16_HALF_ULP
    assert far(leaf.grad, exact, 1e-5 / temperature, relative) <= 1


def everything(x: Tensor, tokens: Tensor) -> list[Tensor]:
    """All results of the row kernels and the sampler on these rows."""
    n = torch.arange(len(x), device=x.device)
    leaf = x.detach().requires_grad_()
    logp, entropy = ops.token_logprobs(leaf, tokens, 0.7)
    (gradient,) = torch.autograd.grad((2 * logp + entropy).sum(), leaf)
    return [logp.detach(), entropy.detach(), gradient, *ops.sample(x, n, n, key=5, temperature=0.7)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 2, 31, 1000, 4097, 32_000])
def test_the_address_of_a_row_changes_no_bit(width: int, dtype: torch.dtype, kernel_device: torch.device) -> None:
    """Rows on 16 bytes, off them by each element, and rows of odd stride, each on another boundary."""
    x = rows_of_every_kind(width).to(dtype).to(kernel_device)
    tokens = tokens_for(x).to(kernel_device)
    padded = -(-width // 8) * 8
    expected = everything(torch.empty(9, padded, dtype=dtype, device=x.device)[:, :width].copy_(x), tokens)
    for stride, offset in [(padded + 8, 1), (padded + 8, 2), (padded + 8, 3), (padded + 9, 0), (width, 0)]:
        room = torch.empty(9 * stride + offset, dtype=dtype, device=x.device)
        moved = room[offset:].as_strided((9, width), (stride, 1)).copy_(x)
        for actual, reference in zip(everything(moved, tokens), expected, strict=True):
            assert torch.equal(actual, reference)


def test_a_bf16_row_is_the_fp32_row_of_the_same_numbers(kernel_device: torch.device) -> None:
    """Other loads, other order of sums, the same values to rounding."""
    x = rows_of_every_kind(4097).bfloat16().to(kernel_device)
    tokens = tokens_for(x).to(kernel_device)
    for a, b in zip(ops.token_logprobs(x, tokens), ops.token_logprobs(x.float(), tokens), strict=True):
        torch.testing.assert_close(a, b, atol=2e-6, rtol=1e-7)


def test_rows_do_not_depend_on_the_others(kernel_device: torch.device) -> None:
    x = rows_of_every_kind(1000).to(kernel_device)
    tokens = tokens_for(x).to(kernel_device)
    together = everything(x, tokens)
    for i in range(len(x)):
        for actual, reference in zip(everything(x[i : i + 1], tokens[i : i + 1])[:3], together[:3], strict=True):
            assert torch.equal(actual[0], reference[i])


def test_a_row_without_a_number_says_so(device: torch.device) -> None:
    """NaN anywhere, or no possible token: the results are NaN and no other row changes."""
    x = rows_of_every_kind(1000)[:4].to(device)
    tokens = tokens_for(x).to(device)
    clean = ops.token_logprobs(x, tokens)
    x[1, 700], x[2] = torch.nan, -torch.inf
    logp, entropy = ops.token_logprobs(x, tokens)
    assert logp.isnan().tolist() == [False, True, True, False]
    assert entropy.isnan().tolist() == [False, True, True, False]
    assert torch.equal(logp[[0, 3]], clean[0][[0, 3]])
    drawn, _ = ops.sample(x, tokens, tokens, key=1)
    assert ((drawn >= 0) & (drawn < 1000)).all()


def test_no_rows(device: torch.device) -> None:
    x = torch.empty(0, 7, device=device, requires_grad=True)
    none = torch.empty(0, dtype=torch.long, device=device)
    logp, entropy = ops.token_logprobs(x, none)
    assert logp.shape == entropy.shape == (0,)
    logp.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (0, 7)
    assert ops.sample(x, none, none, key=1)[0].shape == (0,)


def draw(x: Tensor, temperature: float = 1.0, seed: int = 0, position: int = 3) -> tuple[Tensor, Tensor]:
    """One token of each row, row i being completion i."""
    streams = torch.arange(len(x), device=x.device)
    return ops.sample(x, streams, torch.full_like(streams, position), key=rng.key_of(seed), temperature=temperature)


def test_frequencies(kernel_device: torch.device) -> None:
    """Chi-squared of 200,000 draws at T = 0.7 against the softmax in float64."""
    n, width, temperature = 200_000, 37, 0.7
    x = torch.randn(width, generator=torch.Generator().manual_seed(2))
    tokens, _ = draw(x.to(kernel_device).expand(n, width), temperature)
    expected = (x.double() / temperature).softmax(0) * n
    assert expected.min() > 5
    counts = torch.bincount(tokens.cpu(), minlength=width)
    assert scipy.stats.chisquare(counts.numpy(), expected.numpy()).pvalue > 0.001


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 2, 31, 1000, 4097, 32_000])
def test_its_logprob_is_that_of_the_row_kernel(width: int, dtype: torch.dtype, kernel_device: torch.device) -> None:
    """Not one bit apart: generator and trainer read the same logits alike."""
    x = rows_of_every_kind(width).to(dtype).to(kernel_device)
    for temperature in (0.1, 1.0):
        tokens, logp = draw(x, temperature)
        assert torch.equal(logp, ops.token_logprobs(x, tokens, temperature)[0])
        assert far(logp, row_values(x.cpu(), tokens.cpu(), temperature)[0], 5e-6, 1e-7) <= 1


def test_a_logit_of_60_is_drawn_every_time(kernel_device: torch.device) -> None:
    """2,000 of 2,000 among 128,256 tokens: noise lies between -2.8 and 22.9.

    As ``-log(-log(u))`` of a u in 24 bits it would be infinite where u rounds to 1, on average 15 times in these draws.
    """
    x = torch.zeros(128_256, device=kernel_device)
    x[77_777] = 60.0
    for first in range(0, 2000, 500):
        tokens, logp = draw(x.expand(500, -1), seed=first)
        assert (tokens == 77_777).all()
        assert (logp == 0).all()


@pytest.mark.parametrize(("width", "n"), [(13, 60_000), (1000, 3000), (32_000, 200)])
def test_the_same_counter_draws_the_same_token_everywhere(width: int, n: int, kernel_device: torch.device) -> None:
    """99.99 % of tokens as the reference draws them; what is left are ties to rounding."""
    x = torch.randn(n, width, generator=torch.Generator().manual_seed(width)) * 3
    with backends.using("reference"):
        expected, _ = draw(x, 0.8)
    tokens, _ = draw(x.to(kernel_device), 0.8)
    assert (tokens.cpu() == expected).double().mean() >= 0.9999


def test_every_counter_counts(kernel_device: torch.device) -> None:
    """Key, purpose, stream (both halves) and position each give other tokens."""
    x = torch.zeros(64, 500, device=kernel_device)
    streams, zero = torch.arange(64, device=kernel_device), torch.zeros(64, dtype=torch.long, device=kernel_device)
    base, _ = ops.sample(x, streams, zero, key=0)
    others = [
        ops.sample(x, streams, zero, key=1),
        ops.sample(x, streams, zero, key=rng.key_of(0, rng.EVALUATION)),
        ops.sample(x, streams, zero, key=2**64 - 1),
        ops.sample(x, streams + 2**32, zero, key=0),
        ops.sample(x, streams, zero + 1, key=0),
    ]
    for drawn, _ in others:
        assert (drawn == base).sum() < 5


def test_a_lone_token_wins_with_the_least_noise(device: torch.device) -> None:
    """Word 3 of this counter rounds to u = 1, where the noise would be -inf and no token better than another."""
    x = torch.tensor([[-torch.inf, -torch.inf, -torch.inf, 0.5]], device=device)
    stream, zero = torch.tensor([10_475_606], device=device), torch.zeros(1, dtype=torch.long, device=device)
    assert rng.uniforms(0, stream, zero, 4)[0, 3] == rng.LARGEST_U
    tokens, logp = ops.sample(x, stream, zero, key=0)
    assert (tokens.tolist(), logp.tolist()) == ([3], [0.0])


def test_impossible_tokens_are_never_drawn(kernel_device: torch.device) -> None:
    x = torch.full((3000, 9), -torch.inf, device=kernel_device)
    x[:, 4], x[:, 7] = 0.0, 1.0
    tokens, _ = draw(x)
    assert set(tokens.tolist()) == {4, 7}
