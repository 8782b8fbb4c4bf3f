"""One function for each operation that a device may have a kernel for; the backend is decided once, here.

Every shape is flat: N rows or tokens. ``backend()`` says which implementation answers, and why.
"""

from __future__ import annotations

from torch import Tensor

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import reference
from rlscaling.trainer.kernels.reference import HeadResult
from rlscaling.trainer.losses import LOSSES, LossStats

__all__ = [
    "LOSSES",
    "HeadResult",
    "LossStats",
    "backend",
    "head",
    "policy_head",
    "policy_loss",
    "sample",
    "token_logprobs",
]

_backend = reference


def backend() -> tuple[str, str]:
    """Return the name of the implementation in use and why it was chosen."""
    return "reference", "plain torch in FP32: this version has no other implementation"


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
    """
    return _backend.head(hidden, weight, head_dtype)


def token_logprobs(logits: Tensor, tokens: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of tokens and entropies of their distributions, in nats.

    Parameters
    ----------
    logits
        (N, V); -inf is a token that cannot come.
    tokens
        (N,) long.
    temperature
        Divides the logits.

    Returns
    -------
    tuple of Tensor
        (N,) float32 each, with gradient.
    """
    return _backend.token_logprobs(logits, tokens, temperature)


def sample(
    logits: Tensor, streams: Tensor, positions: Tensor, *, key: int, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Draw one token of each row: the largest of ``logit / T`` plus Gumbel noise of a counter.

    Parameters
    ----------
    logits
        (N, V).
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
    """
    return _backend.sample(logits, temperature, key, streams, positions)


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
        (N,) long from 0 up: the completion of each token; gspo needs it.

    Returns
    -------
    tuple
        Loss () with gradient, and ``LossStats``.

    Raises
    ------
    TrainError
        For an unknown loss, and for gspo without sequences.
    """
    _check_loss(loss, sequence)
    return _backend.policy_loss(
        logp,
        old_logp,
        advantage,
        weight,
        loss=loss,
        clip_low=clip_low,
        clip_high=clip_high,
        sequence=sequence,
    )


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
    chunk_bytes: int = reference.CHUNK_BYTES,
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
        (N, D).
    weight
        (V, D), of the head.
    tokens, old_logp, advantage, token_weight
        (N,), as in ``policy_loss``.
    temperature, head_dtype
        As in ``token_logprobs`` and ``head``.
    chunk_bytes
        Logits held at once.
    loss, clip_low, clip_high, sequence
        As in ``policy_loss``.

    Returns
    -------
    HeadResult
        Loss () with gradient; log-probabilities and entropies (N,) and statistics without.

    Raises
    ------
    TrainError
        For an unknown loss, and for gspo without sequences.
    """
    _check_loss(loss, sequence)
    return _backend.policy_head(
        hidden,
        weight,
        tokens,
        old_logp,
        advantage,
        token_weight,
        temperature=temperature,
        head_dtype=head_dtype,
        chunk_bytes=chunk_bytes,
        loss=loss,
        clip_low=clip_low,
        clip_high=clip_high,
        sequence=sequence,
    )


def _check_loss(loss: str, sequence: Tensor | None) -> None:
    if loss not in LOSSES:
        raise TrainError(f"loss={loss!r} is unknown; choose one of {', '.join(LOSSES)}")
    if loss == "gspo" and sequence is None:
        raise TrainError("loss='gspo' without sequence: its ratio is that of a whole completion; pass one id per token")
