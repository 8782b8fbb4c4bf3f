"""Metrics of one update: sums over its micro-batches, and the columns made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from rlscaling.trainer.generation.rollout import Batch
    from rlscaling.trainer.kernels.types import HeadResult


def batch_columns(batch: Batch) -> dict[str, float]:
    """Return what the completions of an update were like, before filters."""
    means = {
        "reward_mean": batch.reward,
        "train_pass_rate": batch.correct,
        "truncation_rate": batch.truncated,
        "interruption_rate": batch.interrupted,
        "mean_length": batch.length,
    }
    return {name: float(values.double().mean()) for name, values in means.items()}


class StepMetrics:
    """Sums over the tokens and completions that an update trains on.

    Parameters
    ----------
    updates
        Updates done before this one: the version of the weights it starts from.
    first_version
        (n,) version at the first token of each completion that it trains on.
    """

    def __init__(self, updates: int, first_version: Tensor) -> None:
        self.updates = updates
        self._lags = updates - first_version
        self.loss = 0.0
        self.n_tokens = self.n_clipped = self.n_fresh = 0
        self.ratio_sum = self.ratio_max = self.entropy_sum = self.gap_sum = 0.0

    def add(self, micro: Batch, weight: Tensor, result: HeadResult) -> None:
        """Add a micro-batch."""
        stats = result.stats
        self.loss += float(result.loss.detach())
        self.n_tokens += int(stats.n_tokens)
        self.n_clipped += int(stats.n_clipped)
        self.ratio_sum += float(stats.ratio_sum)
        self.ratio_max = max(self.ratio_max, float(stats.ratio_max))
        self.entropy_sum += float(result.entropy.sum())
        self._add_mismatch(micro, weight > 0, result.logp)

    def _add_mismatch(self, micro: Batch, inside: Tensor, logp: Tensor) -> None:
        """Compare the log-probabilities of completions that these very weights sampled from the first token on."""
        fresh = ((micro.version == self.updates) | (micro.version < 0)).all(1)
        tokens = fresh[:, None].expand_as(inside)[inside]
        self.n_fresh += int(tokens.sum())
        self.gap_sum += float((logp - micro.old_logp[inside])[tokens].abs().sum())

    def sums(self) -> list[float]:
        """Return what adds up over ranks; the largest ratio does not."""
        counts = (self.n_tokens, self.n_clipped, self.n_fresh)
        return [*map(float, counts), self.loss, self.ratio_sum, self.entropy_sum, self.gap_sum]

    def replace(self, sums: Sequence[float], ratio_max: float) -> None:
        """Take the sums, and the largest ratio, of all ranks."""
        self.n_tokens, self.n_clipped, self.n_fresh = map(int, sums[:3])
        self.loss, self.ratio_sum, self.entropy_sum, self.gap_sum = sums[3:]
        self.ratio_max = ratio_max

    def columns(self) -> dict[str, Any]:
        """Return the columns of a train row; a mean over nothing is None."""
        lags, n = self._lags.float(), self.n_tokens
        return {
            "loss": self.loss,
            "entropy": self.entropy_sum / n if n else None,
            "ratio_mean": self.ratio_sum / n if n else None,
            "ratio_max": self.ratio_max if n else None,
            "clip_fraction": self.n_clipped / n if n else None,
            "mismatch": self.gap_sum / self.n_fresh if self.n_fresh else None,
            "lag_mean": float(lags.mean()) if n else None,
            "lag_max": int(lags.max()) if n else None,
            "effective_batch": len(lags),
        }
