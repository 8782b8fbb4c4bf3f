"""Log-probability, entropy and their gradient against float64, and bit for bit where the address of a row changes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from exact import TEMPERATURES, WIDTHS, far, row_gradient, row_values, rows_of_every_kind, tokens_for, worst
from rlscaling.trainer.kernels import ops

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
        for got, want in zip(everything(moved, tokens), expected, strict=True):
            assert torch.equal(got, want)


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
        for got, want in zip(everything(x[i : i + 1], tokens[i : i + 1])[:3], together[:3], strict=True):
            assert torch.equal(got[0], want[i])


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
