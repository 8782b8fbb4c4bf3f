"""Which prompt comes next: epochs over the training prompts, with or without those that the model has mastered.

No-Positive-Resampling [ScaleRL, 3.2; Polaris]: a prompt whose historical pass rate has reached the threshold
leaves all later epochs. The history is the whole one, successes over samples of all visits: judged by the last
visit alone, many prompts leave by luck, and the pool soon holds mostly prompts that cannot be solved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlscaling.trainer.errors import TrainError

if TYPE_CHECKING:
    from rlscaling.trainer.settings.config import TrainConfig


class PoolExhaustedError(TrainError):
    """Fewer prompts are left than one update takes: the run stops here, complete up to its last step."""


class Curriculum:
    """Draws training prompts epoch by epoch; within an epoch none comes twice.

    Parameters
    ----------
    n_prompts
        Training prompts, numbered from 0.
    per_step
        Prompts of one update: an epoch with fewer than that is not begun.
    kind
        ``"npr"`` or ``"uniform"``.
    threshold
        Historical pass rate from which a prompt leaves (``"npr"`` only).
    seed
        Orders of the epochs.

    Attributes
    ----------
    epoch : int
        Epochs begun before the current one.
    successes, samples : numpy.ndarray
        History of each prompt over all visits, shape (n_prompts,).
    """

    def __init__(self, n_prompts: int, per_step: int, *, kind: str, threshold: float, seed: int) -> None:
        self.n_prompts, self.per_step = n_prompts, per_step
        self.kind, self.threshold, self.seed = kind, threshold, seed
        self.successes = np.zeros(n_prompts)
        self.samples = np.zeros(n_prompts)
        self.epoch = -1
        self._order = np.empty(0, dtype=np.int64)
        self._next = 0

    @classmethod
    def of(cls, config: TrainConfig, n_prompts: int) -> Curriculum:
        """Return the curriculum of a run at its start."""
        return cls(
            n_prompts,
            config.prompts_per_step,
            kind=config.curriculum,
            threshold=config.npr_threshold,
            seed=config.seed,
        )

    def pool(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the numbers of the prompts that a next epoch would hold."""
        if self.kind == "uniform":
            return np.arange(self.n_prompts)
        # successes may be fractions that add up to 0.9 but for rounding
        mastered = (self.samples > 0) & (self.successes >= self.threshold * self.samples - 1e-9)
        return np.flatnonzero(~mastered)

    def draw(self) -> int:
        """Return the number of the next prompt.

        Raises
        ------
        PoolExhaustedError
            When the next epoch would hold fewer prompts than one update takes.
        """
        if self._next == len(self._order):
            self._begin_epoch()
        prompt = int(self._order[self._next])
        self._next += 1
        return prompt

    def _begin_epoch(self) -> None:
        pool = self.pool()
        if len(pool) < self.per_step:
            raise PoolExhaustedError(
                f"the pool has {len(pool)} of {self.n_prompts} prompts left, fewer than the {self.per_step} of one "
                f"update: the others have a historical pass rate of {self.threshold:g} or more; the task is solved "
                "at this size, so add prompts (n_train_prompts) or keep mastered ones (curriculum='uniform')"
            )
        self.epoch += 1
        self._order = np.random.default_rng([self.seed, self.epoch]).permutation(pool)
        self._next = 0

    def record(self, prompt: int, successes: float, samples: int) -> None:
        """Add the outcome of one visit to the history of a prompt."""
        self.successes[prompt] += successes
        self.samples[prompt] += samples

    def state_dict(self) -> dict[str, Any]:
        """Return everything a resumed run needs to draw the same prompts."""
        return {
            "epoch": self.epoch,
            "next": self._next,
            "order": torch.from_numpy(self._order.copy()),
            "successes": torch.from_numpy(self.successes.copy()),
            "samples": torch.from_numpy(self.samples.copy()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state_dict``."""
        self.epoch, self._next = int(state["epoch"]), int(state["next"])
        self._order = state["order"].numpy().copy()
        self.successes = state["successes"].numpy().copy()
        self.samples = state["samples"].numpy().copy()
