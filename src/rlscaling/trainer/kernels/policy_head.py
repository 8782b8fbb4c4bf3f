"""Policy loss of hidden states without the full logits: one loop for every backend.

A chunk of rows at a time: logits, one read of them, the slope of the loss per token, the gradient written over the
logits, and its two products. Three products a chunk, nothing computed twice. The exception is a loss with a ratio per
sequence (GSPO): its slope needs the log-probabilities of whole sequences, so its logits are computed in two phases,
unless one chunk holds them all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from rlscaling.trainer.algorithm.losses import Clip, Loss
from rlscaling.trainer.kernels import matmul
from rlscaling.trainer.kernels.types import Backend, HeadResult, RowStatistics

CHUNK_BYTES = 64 * 2**20
"""Logits that are held at once."""


@dataclasses.dataclass(frozen=True)
class Objective:
    """The loss and the head's settings; see ``ops.policy_head``."""

    loss: Loss
    clip: Clip
    temperature: float
    head_dtype: str
    chunk_bytes: int


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The inputs of the loss for N tokens; see ``ops.policy_loss``."""

    ids: Tensor
    old_logp: Tensor
    advantage: Tensor
    weight: Tensor
    sequence: Tensor | None


class _Head:
    """Hidden states and head weight, the logits of a chunk, and the gradients so far."""

    def __init__(self, hidden: Tensor, weight: Tensor, objective: Objective) -> None:
        self.n = len(hidden)
        self.rows = max(1, objective.chunk_bytes // (4 * len(weight)))
        self._hidden, self._weight = matmul.factors(hidden, weight, objective.head_dtype)
        kind = torch.bfloat16 if objective.head_dtype == "bf16" else torch.float32
        self._buffer = matmul.empty_rows(min(self.rows, self.n), len(weight), kind, hidden.device)

    def chunks(self) -> Iterator[slice]:
        return (slice(start, min(start + self.rows, self.n)) for start in range(0, self.n, self.rows))

    def logits(self, part: slice) -> Tensor:
        out = self._buffer[: part.stop - part.start]
        if out.dtype == torch.float32:
            return matmul.product(self._hidden[part], self._weight.T, out)
        return torch.mm(self._hidden[part], self._weight.T, out=out)

    def start_gradients(self, hidden: Tensor) -> None:
        self.d_hidden = torch.empty_like(hidden)
        self.d_weight = torch.zeros(self._weight.shape, dtype=torch.float32, device=hidden.device)

    def add_gradients(self, part: slice, slope: Tensor) -> None:
        """Add what the gradient of the logits gives: the two products, in the precision of the factors."""
        slope = slope.to(self._weight.dtype)
        self.d_hidden[part] = matmul.product(slope, self._weight)
        matmul.add_product(self.d_weight, slope.T, self._hidden[part])


def policy_head(
    backend: Backend, hidden: Tensor, weight: Tensor, tokens: Tokens, objective: Objective, *, gradients: bool
) -> tuple[HeadResult, Tensor | None, Tensor | None]:
    """Return loss, log-probabilities and entropies, and the gradients of ``hidden`` and ``weight`` where wanted.

    Parameters
    ----------
    backend
        What computes rows and losses.
    hidden, weight
        (N, D) and (V, D).
    tokens, objective
        The inputs of the loss, and its settings.
    gradients
        Whether to compute them.
    """
    head = _Head(hidden, weight, objective)
    temperature, by_chunk = objective.temperature, head.n > head.rows and not objective.loss.per_sequence
    logp, entropy = (torch.empty(head.n, dtype=torch.float32, device=hidden.device) for _ in range(2))
    if gradients:
        head.start_gradients(hidden)

    def forward(part: slice) -> tuple[Tensor, RowStatistics]:
        logits = head.logits(part)
        return logits, backend.row_forward(logits, tokens.ids[part], temperature)

    def backward(part: slice, logits: Tensor, rows: RowStatistics, slope: Tensor) -> None:
        backend.row_backward(logits, tokens.ids[part], rows, slope, None, temperature, logits)
        head.add_gradients(part, logits)

    for part in head.chunks():
        logits, rows = forward(part)
        logp[part], entropy[part] = rows.logp, rows.entropy
        if gradients and by_chunk:
            per_token = (tokens.old_logp[part], tokens.advantage[part], tokens.weight[part])
            terms = backend.policy_loss(rows.logp, *per_token, None, objective.loss, objective.clip)
            backward(part, logits, rows, terms.slope)
    per_token = (tokens.old_logp, tokens.advantage, tokens.weight)
    terms = backend.policy_loss(logp, *per_token, tokens.sequence, objective.loss, objective.clip)
    if gradients and not by_chunk:
        for part in head.chunks():
            if head.n > head.rows:
                logits, rows = forward(part)
            backward(part, logits, rows, terms.slope[part])
    result = HeadResult(terms.value, logp, entropy, terms.stats)
    if not gradients:
        return result, None, None
    return result, head.d_hidden, head.d_weight.to(weight.dtype)
