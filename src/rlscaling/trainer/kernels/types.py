"""Result types of the operations, and the `Backend` protocol."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from rlscaling.trainer.algorithm.losses import Clip, Loss, LossStats


class HeadResult(NamedTuple):
    """What ``policy_head`` returns; only ``loss`` carries a gradient."""

    loss: Tensor  # ()
    logp: Tensor  # (N,)
    entropy: Tensor  # (N,)
    stats: LossStats


class RowStatistics(NamedTuple):
    """What the gradient needs of N rows of logits, all (N,) float32."""

    logp: Tensor  # of each row's token
    entropy: Tensor
    top: Tensor  # largest logit
    log_sum: Tensor  # log of the sum of exp((x - top) / T)


class LossTerms(NamedTuple):
    """A policy loss, its gradient and its statistics."""

    value: Tensor  # ()
    slope: Tensor  # (N,) d value / d logp
    stats: LossStats


class Backend(Protocol):
    """An implementation of the operations; the inputs are checked before, and nothing here makes a graph."""

    def row_forward(self, logits: Tensor, tokens: Tensor, temperature: float) -> RowStatistics:
        """Return log-probability of each row's token, entropy, maximum and log of the sum."""
        ...

    def row_backward(
        self,
        logits: Tensor,
        tokens: Tensor,
        rows: RowStatistics,
        d_logp: Tensor,
        d_entropy: Tensor | None,
        temperature: float,
        out: Tensor,
    ) -> None:
        """Write the gradient of the logits to ``out``, which may be ``logits`` itself."""
        ...

    def sample(
        self, logits: Tensor, streams: Tensor, positions: Tensor, key: int, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Return a token of each row and its log-probability."""
        ...

    def policy_loss(
        self,
        logp: Tensor,
        old_logp: Tensor,
        advantage: Tensor,
        weight: Tensor,
        sequence: Tensor | None,
        loss: Loss,
        clip: Clip,
    ) -> LossTerms:
        """Return the weighted sum of token losses, its gradient and statistics."""
        ...
