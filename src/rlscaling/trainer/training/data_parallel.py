"""How micro-batches are split and summed over ranks; a process on its own is the simplest case."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from rlscaling.trainer.model.decoder import Decoder
    from rlscaling.trainer.training.step_metrics import StepMetrics


@dataclasses.dataclass(frozen=True)
class MicroBatchShare:
    """The part of a micro-batch that one rank computes."""

    rows: Tensor  # (n,) completions, at least one
    weight: Tensor  # (n, T) of their tokens, all 0 where the row only stands in
    stands_in: bool = (
        False  # no completion is left for this rank: one row of weight 0, so that its passes match the others'
    )


class DataParallel(Protocol):
    """Splits micro-batches over ranks and adds up their sums.

    Every rank holds the whole batch, so advantages, filters and denominators are those of the batch whatever the
    split is.
    """

    def prepare(self, model: Decoder) -> None:
        """Change a fresh model in place before the optimizer takes its parameters."""

    def share(self, rows: Tensor, weight: Tensor) -> MicroBatchShare:
        """Return this rank's part of the completions ``rows``, (n,); ``weight`` is that of all tokens, (N, T)."""

    def load_balance(self, model: Decoder, share: MicroBatchShare) -> Tensor | None:
        """Return this rank's part of the load-balance loss of the last pass; None for a dense model."""

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss such that the gradients that the ranks share are those of the sum of their losses."""

    def add_up(self, stats: StepMetrics) -> None:
        """Turn the sums of this rank into those of all."""


class SingleProcess:
    """One process, which trains on everything."""

    def prepare(self, model: Decoder) -> None:
        """Leave the model as it is."""

    def share(self, rows: Tensor, weight: Tensor) -> MicroBatchShare:
        """Return all of it."""
        return MicroBatchShare(rows, weight[rows])

    def load_balance(self, model: Decoder, share: MicroBatchShare) -> Tensor | None:
        """Return the model's own."""
        return model.load_balance_loss

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss."""
        return loss

    def add_up(self, stats: StepMetrics) -> None:
        """Leave the sums as they are."""
