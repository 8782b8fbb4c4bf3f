"""The operations as torch custom operators, so that ``torch.compile`` and FSDP see them whole.

Each has a fake implementation (shapes without values) and, where it has a gradient, a formula for it. Shapes and types
are checked in ``ops.py``; here only values are, where that costs no look at a GPU.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from rlscaling.trainer.algorithm.losses import LOSSES, Clip
from rlscaling.trainer.kernels import input_checks
from rlscaling.trainer.kernels import policy_head as heads
from rlscaling.trainer.kernels.backends import active
from rlscaling.trainer.kernels.matmul import rows_like
from rlscaling.trainer.kernels.types import RowStatistics

Stats = tuple[Tensor, Tensor, Tensor, Tensor]


def _check_tokens(tokens: Tensor, width: int) -> None:
    input_checks.check_range("tokens", tokens, width, f"the vocabulary has {width} tokens")


def _check_sequence(sequence: Tensor | None) -> None:
    if sequence is not None:
        input_checks.check_range("sequence", sequence, math.inf, "number the completions from 0 up")


# --- rows -----------------------------------------------------------------------------------------------


@torch.library.custom_op("rlscaling::row_forward", mutates_args=())
def row_forward(logits: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return log-probability, entropy, maximum and log of the sum of each row, (N,) each."""
    _check_tokens(tokens, logits.shape[1])
    rows = active(logits.device).row_forward(logits, tokens, temperature)
    return rows.logp, rows.entropy, rows.top, rows.log_sum


@row_forward.register_fake
def _(logits: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(logits.new_empty(len(logits), dtype=torch.float32) for _ in RowStatistics._fields)


@torch.library.custom_op("rlscaling::row_backward", mutates_args=())
def row_backward(
    logits: Tensor,
    tokens: Tensor,
    logp: Tensor,
    entropy: Tensor,
    top: Tensor,
    log_sum: Tensor,
    d_logp: Tensor,
    d_entropy: Tensor,
    temperature: float,
) -> Tensor:
    """Return the gradient of the logits, (N, V)."""
    out = rows_like(logits)
    rows = RowStatistics(logp, entropy, top, log_sum)
    active(logits.device).row_backward(logits, tokens, rows, d_logp, d_entropy, temperature, out)
    return out


@row_backward.register_fake
def _(logits: Tensor, *_: Any) -> Tensor:
    return rows_like(logits)


def _keep_rows(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    logits, tokens, ctx.temperature = inputs
    ctx.mark_non_differentiable(output[2], output[3])
    ctx.save_for_backward(logits, tokens, *output)


def _row_gradients(ctx: Any, d_logp: Tensor, d_entropy: Tensor, *_: Any) -> tuple[Tensor, None, None]:
    return row_backward(*ctx.saved_tensors, d_logp, d_entropy, ctx.temperature), None, None


row_forward.register_autograd(_row_gradients, setup_context=_keep_rows)


# --- sampling -------------------------------------------------------------------------------------------


@torch.library.custom_op("rlscaling::sample", mutates_args=())
def sample(logits: Tensor, streams: Tensor, positions: Tensor, key: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Return a token of each row and its log-probability, (N,) each."""
    return active(logits.device).sample(logits, streams, positions, key, temperature)


@sample.register_fake
def _(logits: Tensor, streams: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(streams), logits.new_empty(len(logits), dtype=torch.float32)


# --- the loss -------------------------------------------------------------------------------------------


def _fake_stats(like: Tensor) -> Stats:
    kinds = (torch.int64, torch.float32, torch.float32, torch.int64)  # as in LossStats
    n_tokens, ratio_sum, ratio_max, n_clipped = (like.new_empty((), dtype=kind) for kind in kinds)
    return n_tokens, ratio_sum, ratio_max, n_clipped


@torch.library.custom_op("rlscaling::policy_loss", mutates_args=())
def policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    weight: Tensor,
    sequence: Tensor | None,
    loss: str,
    clip_low: float,
    clip_high: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the loss, its slope (N,), and the four statistics of ``LossStats``."""
    _check_sequence(sequence)
    clip = Clip(clip_low, clip_high)
    terms = active(logp.device).policy_loss(logp, old_logp, advantage, weight, sequence, LOSSES[loss], clip)
    return terms.value, terms.slope, *terms.stats


@policy_loss.register_fake
def _(logp: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return logp.new_empty(()), torch.empty_like(logp), *_fake_stats(logp)


def _keep_slope(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(output[1])


def _loss_gradients(ctx: Any, d_value: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    (slope,) = ctx.saved_tensors
    return (slope * d_value, *(None,) * 7)


policy_loss.register_autograd(_loss_gradients, setup_context=_keep_slope)


# --- the head -------------------------------------------------------------------------------------------


@torch.library.custom_op("rlscaling::policy_head", mutates_args=())
def policy_head(
    hidden: Tensor,
    weight: Tensor,
    tokens: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    token_weight: Tensor,
    sequence: Tensor | None,
    temperature: float,
    head_dtype: str,
    chunk_bytes: int,
    loss: str,
    clip_low: float,
    clip_high: float,
    gradients: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return loss, log-probabilities and entropies (N,), four statistics, and the gradients of the first two inputs."""
    _check_tokens(tokens, len(weight))
    _check_sequence(sequence)
    per_token = heads.Tokens(tokens, old_logp, advantage, token_weight, sequence)
    objective = heads.Objective(LOSSES[loss], Clip(clip_low, clip_high), temperature, head_dtype, chunk_bytes)
    backend = active(hidden.device)
    result, d_hidden, d_weight = heads.policy_head(backend, hidden, weight, per_token, objective, gradients=gradients)
    if d_hidden is None or d_weight is None:
        d_hidden, d_weight = hidden.new_empty(0), weight.new_empty(0)
    return result.loss, result.logp, result.entropy, *result.stats, d_hidden, d_weight


@policy_head.register_fake
def _(hidden: Tensor, weight: Tensor, tokens: Tensor, old_logp: Tensor, *others: Any) -> tuple[Tensor, ...]:
    *_, gradients = others
    per_token = (torch.empty_like(old_logp) for _ in range(2))
    matrices = (torch.empty_like(x) if gradients else x.new_empty(0) for x in (hidden, weight))
    return old_logp.new_empty(()), *per_token, *_fake_stats(hidden), *matrices


def _keep_gradients(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)  # no zeros of the size of dW for outputs without gradient
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*output[-2:])


def _head_gradients(ctx: Any, d_loss: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    d_hidden, d_weight = ctx.saved_tensors
    return (d_hidden * d_loss.to(d_hidden.dtype), d_weight * d_loss.to(d_weight.dtype), *(None,) * 12)


policy_head.register_autograd(_head_gradients, setup_context=_keep_gradients)
