"""The operations in float64 on the CPU, and the inputs on which they are compared."""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.clip_bounds import CLIPS
from rlscaling.trainer.algorithm.losses import LOSSES

WIDTHS = (1, 2, 31, 1000, 32_000, 151_936)
"""A lone token; less than 16 bytes; an odd row of one warp; the longest of one warp but 24; Llama 2's; Qwen 2.5's."""

TEMPERATURES = (0.1, 0.7, 1.0, 2.0)


def rows_of_every_kind(width: int, seed: int = 0) -> Tensor:
    """Nine rows: random, wide, with impossible tokens, all equal, at +-80, one certain token, rising, falling, tiny."""
    generator = torch.Generator().manual_seed(seed + width)
    x = torch.randn(9, width, generator=generator)
    x[1] *= 20
    x[2, 1::2] = -torch.inf
    x[3] = 3.25
    x[4] = torch.where(x[4] > 0, 80.0, -80.0)
    x[5, width // 2] = 60.0
    x[6], x[7] = torch.linspace(-9, 9, width), torch.linspace(9, -9, width)
    x[8] *= 1e-3
    return x


def tokens_for(x: Tensor, seed: int = 1) -> Tensor:
    """A possible token of each row."""
    generator = torch.Generator().manual_seed(seed)
    even = torch.randint((x.shape[1] + 1) // 2, (len(x),), generator=generator) * 2
    return even.clamp(max=(x.shape[1] - 1) // 2 * 2)


def row_values(x: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies in float64."""
    logp = (x.double() / temperature).log_softmax(-1)
    entropy = -(logp.exp() * logp.masked_fill(logp == -torch.inf, 0.0)).sum(-1)
    return logp.gather(1, tokens[:, None])[:, 0], entropy


def row_gradient(x: Tensor, tokens: Tensor, temperature: float, d_logp: Tensor, d_entropy: Tensor) -> Tensor:
    """Gradient of ``d_logp * logp + d_entropy * entropy`` in float64, by hand: autograd makes NaN of ``0 * -inf``."""
    logp = (x.double() / temperature).log_softmax(-1)
    p = logp.exp()
    finite = logp.masked_fill(p == 0, 0.0)
    entropy = -(p * finite).sum(-1, keepdim=True)
    onehot = torch.zeros_like(p).scatter_(1, tokens[:, None], 1.0)
    slope = d_logp.double()[:, None] * (onehot - p) - d_entropy.double()[:, None] * p * (finite + entropy)
    return slope / temperature


def head_values(
    inputs: dict[str, Tensor], loss: str, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss, log-probabilities, and gradients by hidden states and weight in float64, where the inputs are."""
    hidden, weight = (inputs[name].detach().double().requires_grad_() for name in ("hidden", "weight"))
    logp = (hidden @ weight.T / temperature).log_softmax(-1).gather(1, inputs["tokens"][:, None])[:, 0]
    rest = (inputs[name].double() for name in ("old_logp", "advantage", "token_weight"))
    value, _ = LOSSES[loss](logp, *rest, CLIPS[loss], inputs["sequence"])
    return (value.detach(), logp.detach(), *torch.autograd.grad(value, (hidden, weight)))


def far(x: Tensor, exact: Tensor, absolute: float, relative: float = 0.0) -> Tensor:
    """How far x is from the exact values, in units of what is allowed."""
    return ((x.cpu().double() - exact).abs() / (absolute + relative * exact.abs())).max()


def worst(*errors: Tensor | float) -> float:
    """The largest error; NaN if any is, where Python's ``max`` may leave it out."""
    return float(torch.tensor([float(error) for error in errors], dtype=torch.float64).max())


def tensor(values: object, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(values, dtype=dtype)
