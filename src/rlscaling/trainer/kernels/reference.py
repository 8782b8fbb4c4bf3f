"""Plain torch, FP32: the definition of every result, whatever computes it.

Distances from the row's maximum come first, then the temperature: ``(x - max) / T - log(sum)``. The naive order loses
a digit at low temperature (5e-5 off in a log-probability at T = 0.1 and logits near 80).
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlscaling.trainer.algorithm.losses import Clip, Loss
from rlscaling.trainer.kernels.types import LossTerms, RowStatistics
from rlscaling.trainer.rng import gumbel


def row_forward(logits: Tensor, tokens: Tensor, temperature: float) -> RowStatistics:
    """Return log-probability of each row's token, entropy, maximum and log of the sum."""
    x = logits.float()
    top = x.amax(-1)
    z = (x - top[:, None]) * (1.0 / temperature)
    weight = z.exp()
    total = weight.sum(-1)
    log_sum = total.log()
    logp = z.gather(-1, tokens[:, None]).squeeze(-1) - log_sum
    # two terms of one sign; a token of weight 0 adds nothing
    entropy = log_sum - weight.mul_(z.masked_fill_(z == -torch.inf, 0.0)).sum(-1) / total
    return RowStatistics(logp, entropy, top, log_sum)


def row_backward(
    logits: Tensor,
    tokens: Tensor,
    rows: RowStatistics,
    d_logp: Tensor,
    d_entropy: Tensor | None,
    temperature: float,
    out: Tensor,
) -> None:
    """Write the gradient of the logits to ``out``: ``d_logp (onehot - p) - d_entropy p (log p + entropy)``, over T.

    FP32 before it is rounded to the type of ``out``: ``p - 1`` cancels in bf16.
    """
    scale = 1.0 / temperature
    logp = (logits.float() - rows.top[:, None]) * scale - rows.log_sum[:, None]
    p = logp.exp()
    slope = -p
    slope.scatter_add_(-1, tokens[:, None], torch.ones_like(slope[:, :1]))
    slope.mul_((d_logp * scale)[:, None])
    if d_entropy is not None:
        distance = torch.where(p > 0, logp + rows.entropy[:, None], 0.0)
        slope.sub_(p.mul_(distance).mul_((d_entropy * scale)[:, None]))
    out.copy_(slope)


def sample(logits: Tensor, streams: Tensor, positions: Tensor, key: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Draw one token of each row by Gumbel-max and return it with its log-probability."""
    x = logits.float()
    z = (x - x.amax(-1, keepdim=True)) * (1.0 / temperature)
    tokens = (z + gumbel(key, streams, positions, z.shape[-1])).argmax(-1)
    return tokens, z.gather(-1, tokens[:, None]).squeeze(-1) - z.exp().sum(-1).log()


def policy_loss(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, sequence: Tensor | None, loss: Loss, clip: Clip
) -> LossTerms:
    """Return the weighted sum of token losses, its gradient and statistics: the functions of ``losses.py``."""
    if sequence is None:
        sequence = torch.zeros(
            len(logp), dtype=torch.long, device=logp.device
        )  # no loss reads it that is not per sequence
    with torch.inference_mode(False), torch.enable_grad():
        leaf = logp.clone().detach().requires_grad_()
        value, stats = loss(leaf, old_logp, advantage, weight, clip, sequence)
        (slope,) = torch.autograd.grad(value, leaf)
    return LossTerms(value.detach(), slope, stats)
