"""The sampler: frequencies against the softmax, log-probabilities against the row kernel, tokens against torch."""

from __future__ import annotations

import pytest
import scipy.stats
import torch
from torch import Tensor

from exact import far, row_values, rows_of_every_kind
from rlscaling.trainer import rng
from rlscaling.trainer.kernels import backends, ops


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
    for tokens, _ in others:
        assert (tokens == base).sum() < 5


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
