"""The operations in plain torch, FP32: the definition of every result, whatever computes it.

Distances from the row's maximum come first, then the temperature: ``(x - max) / T - log(sum)``. The naive order loses
a digit at low temperature (7.5e-5 in a log-probability at T = 0.1 and logits near 80).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlscaling.trainer.losses import LOSSES, Clip, LossStats
from rlscaling.trainer.rng import gumbel

CHUNK_BYTES = 64 * 2**20
"""Logits that ``policy_head`` holds at once."""


class HeadResult(NamedTuple):
    """What ``policy_head`` returns; only ``loss`` carries a gradient."""

    loss: Tensor  # ()
    logp: Tensor  # (N,)
    entropy: Tensor  # (N,)
    stats: LossStats


def head(hidden: Tensor, weight: Tensor, head_dtype: str = "fp32") -> Tensor:
    """Return FP32 logits ``hidden @ weight.T``, (..., V); ``"bf16"`` rounds both factors and the product."""
    if head_dtype == "bf16":
        return (hidden.bfloat16() @ weight.bfloat16().T).float()
    return hidden.float() @ weight.float().T


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    """Return ``(x - max) / T``, (N, V) float32."""
    x = logits.float()
    return (x - x.detach().amax(-1, keepdim=True)) * (1.0 / temperature)


def _entropy(logp: Tensor) -> Tensor:
    """Return the entropy of rows of log-probabilities; a token of probability 0 adds nothing."""
    return -(logp.exp() * logp.masked_fill(logp == -torch.inf, 0.0)).sum(-1)


def token_logprobs(logits: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each token and the entropy of its distribution, both with gradient."""
    z = _scaled(logits, temperature)
    logp = z - z.exp().sum(-1, keepdim=True).log()
    return logp.gather(-1, tokens[:, None]).squeeze(-1), _entropy(logp)


def sample(logits: Tensor, temperature: float, key: int, streams: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token of each row by Gumbel-max and return it with its log-probability."""
    z = _scaled(logits, temperature)
    tokens = (z + gumbel(key, streams, positions, z.shape[-1])).argmax(-1)
    return tokens, z.gather(-1, tokens[:, None]).squeeze(-1) - z.exp().sum(-1).log()


def policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    weight: Tensor,
    *,
    loss: str,
    clip_low: float,
    clip_high: float,
    sequence: Tensor | None = None,
) -> tuple[Tensor, LossStats]:
    """Return the weighted sum of token losses and its statistics: the functions of ``losses.py``."""
    if sequence is None:
        sequence = torch.zeros(len(logp), dtype=torch.long, device=logp.device)  # one loss reads it: gspo, checked
    return LOSSES[loss](logp, old_logp, advantage, weight, Clip(clip_low, clip_high), sequence)


def policy_head(
    hidden: Tensor,
    weight: Tensor,
    tokens: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    token_weight: Tensor,
    *,
    temperature: float,
    head_dtype: str,
    chunk_bytes: int = CHUNK_BYTES,
    **loss: Any,
) -> HeadResult:
    """Return loss, log-probabilities and entropies without ever holding all logits; see ``ops.policy_head``."""
    rows = max(1, chunk_bytes // (4 * weight.shape[0]))
    value, logp, entropy, *stats = _PolicyHead.apply(  # type: ignore[no-untyped-call]
        hidden, weight, tokens, (old_logp, advantage, token_weight), temperature, head_dtype, rows, loss
    )
    return HeadResult(value, logp, entropy, LossStats(*stats))


def _chunks(n: int, rows: int) -> Iterator[slice]:
    return (slice(start, start + rows) for start in range(0, n, rows))


class _PolicyHead(torch.autograd.Function):
    """Two passes over chunks of rows: log-probabilities, then gradients with the loss's coefficient per token.

    The coefficient ``dL/dlogp`` may depend on a whole sequence (GSPO), so it is known only after the first pass;
    with a single chunk the first pass's probabilities are kept and nothing is computed twice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        tokens: Tensor,
        given: tuple[Tensor, Tensor, Tensor],
        temperature: float,
        head_dtype: str,
        rows: int,
        loss: dict[str, Any],
    ) -> tuple[Tensor, ...]:
        n = len(hidden)
        logp, entropy = (torch.empty(n, dtype=torch.float32, device=hidden.device) for _ in range(2))
        kept = None
        for part in _chunks(n, rows):
            full = _log_softmax(hidden[part], weight, temperature, head_dtype)
            logp[part] = full.gather(-1, tokens[part, None]).squeeze(-1)
            entropy[part] = _entropy(full)
            kept = full if n <= rows else None
        with torch.enable_grad():
            leaf = logp.detach().requires_grad_()
            value, stats = policy_loss(leaf, *given, **loss)
            (coefficient,) = torch.autograd.grad(value, leaf) if n else (torch.empty_like(logp),)
        ctx.needs = any(ctx.needs_input_grad[:2])
        if ctx.needs:
            d_hidden = torch.empty_like(hidden)
            d_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
            for part in _chunks(n, rows):
                full = kept if kept is not None else _log_softmax(hidden[part], weight, temperature, head_dtype)
                slope = _slope(full, tokens[part], coefficient[part] / temperature)
                d_hidden[part] = _product(slope, weight, head_dtype).to(hidden.dtype)
                d_weight += _product(slope.T, hidden[part], head_dtype)
            ctx.save_for_backward(d_hidden, d_weight.to(weight.dtype))
        ctx.mark_non_differentiable(logp, entropy, *stats)
        return value.detach(), logp, entropy, *stats

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.needs:
            return (None,) * 8
        d_hidden, d_weight = ctx.saved_tensors
        return (d_hidden * grads[0].to(d_hidden.dtype), d_weight * grads[0].to(d_weight.dtype), *(None,) * 6)


def _log_softmax(hidden: Tensor, weight: Tensor, temperature: float, head_dtype: str) -> Tensor:
    z = _scaled(head(hidden, weight, head_dtype), temperature)
    return z - z.exp().sum(-1, keepdim=True).log()


def _slope(logp: Tensor, tokens: Tensor, coefficient: Tensor) -> Tensor:
    """Return the gradient of the logits, ``coefficient * (onehot - p)``; FP32, before the head's own rounding."""
    slope = logp.exp().neg_()
    slope.scatter_add_(-1, tokens[:, None], torch.ones_like(slope[:, :1]))
    return slope.mul_(coefficient[:, None])


def _product(a: Tensor, b: Tensor, head_dtype: str) -> Tensor:
    """Return ``a @ b`` in FP32 from factors of the head's precision."""
    if head_dtype == "bf16":
        return a.bfloat16().float() @ b.bfloat16().float()
    return a.float() @ b.float()
