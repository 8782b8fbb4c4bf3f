"""What one update looked like: sums over its micro-batches, and the columns made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from rlscaling.trainer.kernels.ops import HeadResult
    from rlscaling.trainer.rollout import Batch


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


class StepStats:
    """Sums over the tokens and completions that an update trains on.

    Parameters
    ----------
    updates
        Updates done before this one: the version of the weights it starts from.
    """

    def __init__(self, updates: int) -> None:
        self.updates = updates
        self.loss = 0.0
        self.n_tokens = self.n_clipped = self.n_fresh = 0
        self.ratio_sum = self.ratio_max = self.entropy_sum = self.gap_sum = 0.0
        self._lags: list[Tensor] = []

    def add(self, micro: Batch, weight: Tensor, result: HeadResult) -> None:
        """Add a micro-batch."""
        stats = result.stats
        self.loss += float(result.loss.detach())
        self.n_tokens += int(stats.n_tokens)
        self.n_clipped += int(stats.n_clipped)
        self.ratio_sum += float(stats.ratio_sum)
        self.ratio_max = max(self.ratio_max, float(stats.ratio_max))
        self.entropy_sum += float(result.entropy.sum())
        self._lags.append((self.updates - micro.version[:, 0]).cpu())
        self._add_mismatch(micro, weight > 0, result.logp)

    def _add_mismatch(self, micro: Batch, inside: Tensor, logp: Tensor) -> None:
        """Compare the log-probabilities of completions that these very weights sampled from the first token on."""
        fresh = ((micro.version == self.updates) | (micro.version < 0)).all(1)
        tokens = fresh[:, None].expand_as(inside)[inside]
        self.n_fresh += int(tokens.sum())
        self.gap_sum += float((logp - micro.old_logp[inside])[tokens].abs().sum())

    def columns(self) -> dict[str, Any]:
        """Return the columns of a train row; a mean over nothing is None."""
        lags = torch.cat(self._lags).float() if self._lags else torch.empty(0)
        n = self.n_tokens
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
