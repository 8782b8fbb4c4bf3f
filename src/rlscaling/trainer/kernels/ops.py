"""The operations: inputs checked once, backend chosen.

Every shape is flat: N rows or tokens. ``backend()`` says which implementation runs, and why. Ids out of range are an
error on the CPU; on CUDA, where looking at them would stop the stream, their log-probability is NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlscaling.trainer.algorithm.losses import LossStats
from rlscaling.trainer.kernels import backends, custom_ops, input_checks, matmul
from rlscaling.trainer.kernels.policy_head import CHUNK_BYTES
from rlscaling.trainer.kernels.types import HeadResult


def backend(device: str | None = None) -> tuple[str, str]:
    """Return the name of the implementation in use and why it was chosen.

    Parameters
    ----------
    device
        ``"cpu"`` or ``"cuda"``: where the tensors are. None is CUDA where there is a device.

    Raises
    ------
    TrainError
        When ``RLSCALING_KERNELS`` forces one that is not available here.
    """
    choice = backends.current(device or backends.default_device())
    return choice.name, choice.reason


def head(hidden: Tensor, weight: Tensor, head_dtype: str = "fp32") -> Tensor:
    """Return the logits ``hidden @ weight.T`` in FP32.

    Parameters
    ----------
    hidden
        (..., D).
    weight
        (V, D).
    head_dtype
        ``"fp32"``, or ``"bf16"`` for factors and product rounded to bf16: the paper's baseline.

    Returns
    -------
    Tensor
        (..., V) float32.

    Raises
    ------
    TrainError
        For another precision.
    """
    input_checks.check_head_dtype(head_dtype)
    return matmul.head(hidden, weight, head_dtype)


def token_logprobs(logits: Tensor, tokens: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of tokens and entropies of their distributions, in nats.

    Parameters
    ----------
    logits
        (N, V) float32 or bfloat16, rows contiguous; -inf is a token that cannot be drawn.
    tokens
        (N,) long.
    temperature
        Divides the logits.

    Returns
    -------
    tuple of Tensor
        (N,) float32 each, with gradient.

    Raises
    ------
    TrainError
        For a wrong shape, type, stride or device, a temperature that is not above 0, and ids out of range.
    """
    _check_logits(logits, temperature)
    input_checks.check_vector("tokens", tokens, logits, torch.int64)
    logp, entropy, _, _ = custom_ops.row_forward(logits, tokens, float(temperature))
    return logp, entropy


def sample(
    logits: Tensor, streams: Tensor, positions: Tensor, *, key: int, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Draw one token of each row: the largest of ``logit / T`` plus Gumbel noise of a counter.

    Parameters
    ----------
    logits
        (N, V) float32 or bfloat16, rows contiguous.
    streams, positions
        (N,) long: which completion, and which of its tokens. With the key they decide the noise, so a token does
        not depend on the rows sampled beside it.
    key
        From ``rng.key_of``.
    temperature
        Divides the logits.

    Returns
    -------
    tuple of Tensor
        Tokens (N,) long, and their log-probabilities at that temperature, (N,) float32.

    Raises
    ------
    TrainError
        For a wrong shape, type, stride or device, and a temperature that is not above 0.
    """
    _check_logits(logits, temperature)
    input_checks.check_vector("streams", streams, logits, torch.int64)
    input_checks.check_vector("positions", positions, logits, torch.int64)
    signed = key - 2**64 if key >= 2**63 else key  # torch counts in signed 64 bits; the bits stay
    tokens, logp = custom_ops.sample(logits.detach(), streams, positions, signed, float(temperature))
    return tokens, logp


def policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    weight: Tensor,
    *,
    loss: str = "cispo",
    clip_low: float = 0.0,
    clip_high: float = 4.0,
    sequence: Tensor | None = None,
) -> tuple[Tensor, LossStats]:
    """Return ``sum_t weight_t * loss_t`` and the statistics of the importance ratio.

    With ``rho = exp(logp - old_logp)`` and advantage ``Adv``, to be minimised:

    ========= ==========================================================================================
    cispo     ``-sg(min(rho, clip_high)) * Adv * logp``
    dapo      ``-min(rho * Adv, clip(rho, 1 - clip_low, 1 + clip_high) * Adv)``
    grpo      as dapo with ``clip_low`` on both sides
    gspo      as dapo with ``rho`` the geometric mean over the tokens of a sequence
    reinforce ``-Adv * logp``
    ========= ==========================================================================================

    Parameters
    ----------
    logp, old_logp, advantage, weight
        (N,) float32. The weight of a token carries aggregation and denominator; a token of weight 0 is not in the
        loss. Only ``logp`` gets a gradient.
    loss
        A name in the table.
    clip_low, clip_high
        Bounds, as in the table.
    sequence
        (N,) long from 0 up: the completion of each token; losses with a ratio per sequence (gspo) need it.

    Returns
    -------
    tuple
        Loss () with gradient, and ``LossStats``.

    Raises
    ------
    TrainError
        For an unknown loss, one per sequence without sequences, and a wrong shape, type or device.
    """
    input_checks.check_loss(loss, sequence)
    input_checks.check_vector("logp", logp, logp, torch.float32)
    _check_tokens(logp, sequence, old_logp=old_logp, advantage=advantage, weight=weight)
    value, _, *stats = custom_ops.policy_loss(
        logp, old_logp, advantage, weight, sequence, loss, float(clip_low), float(clip_high)
    )
    return value, LossStats(*stats)


def policy_head(
    hidden: Tensor,
    weight: Tensor,
    tokens: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    token_weight: Tensor,
    *,
    temperature: float = 1.0,
    head_dtype: str = "fp32",
    chunk_bytes: int = CHUNK_BYTES,
    loss: str = "cispo",
    clip_low: float = 0.0,
    clip_high: float = 4.0,
    sequence: Tensor | None = None,
) -> HeadResult:
    """Return the policy loss of hidden states, the logits held chunk by chunk only.

    The same as ``head``, ``token_logprobs`` and ``policy_loss`` one after the other, with the gradients of ``hidden``
    and ``weight`` computed on the way; the full logits of a large vocabulary would not fit in memory.

    Parameters
    ----------
    hidden
        (N, D) float32 or bfloat16.
    weight
        (V, D), of the head.
    tokens, old_logp, advantage, token_weight
        (N,), as in ``policy_loss``.
    temperature, head_dtype
        As in ``token_logprobs`` and ``head``.
    chunk_bytes
        Logits held at once; at least one row is.
    loss, clip_low, clip_high, sequence
        As in ``policy_loss``.

    Returns
    -------
    HeadResult
        Loss () with gradient; log-probabilities and entropies (N,) and statistics without.

    Raises
    ------
    TrainError
        As in ``token_logprobs`` and ``policy_loss``.
    """
    input_checks.check_loss(loss, sequence)
    input_checks.check_head_dtype(head_dtype)
    input_checks.check_temperature(temperature)
    input_checks.check_matrix("hidden", hidden, "(N, D)")
    input_checks.check_matrix("weight", weight, "(V, D)")
    input_checks.check_same_width(hidden, weight)
    input_checks.check_width("the head", len(weight))
    input_checks.check_vector("tokens", tokens, hidden, torch.int64)
    _check_tokens(hidden, sequence, old_logp=old_logp, advantage=advantage, token_weight=token_weight)
    input_checks.check_chunk(chunk_bytes)
    gradients = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    value, logp, entropy, *stats, _, _ = custom_ops.policy_head(
        hidden,
        weight,
        tokens,
        old_logp,
        advantage,
        token_weight,
        sequence,
        float(temperature),
        head_dtype,
        chunk_bytes,
        loss,
        float(clip_low),
        float(clip_high),
        gradients,
    )
    return HeadResult(value, logp, entropy, LossStats(*stats))


def _check_logits(logits: Tensor, temperature: float) -> None:
    input_checks.check_temperature(temperature)
    input_checks.check_matrix("logits", logits, "(N, V)")
    input_checks.check_width("logits", logits.shape[1])


def _check_tokens(like: Tensor, sequence: Tensor | None, **floats: Tensor) -> None:
    for name, x in floats.items():
        input_checks.check_vector(name, x, like, torch.float32)
    if sequence is not None:
        input_checks.check_vector("sequence", sequence, like, torch.int64)
