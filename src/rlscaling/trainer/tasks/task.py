"""`Task`, `Prompt`, `Score`: what training needs of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

Ids = tuple[int, ...]

HIDDEN_SCORE = 0.1
"""Probability of guessing a hidden digit."""


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A question and what is needed to check its answer."""

    ids: Ids  # (P,) token ids; where all are to be of one length, padded on the left by a token like any other
    answer: str  # text, or digits; the shown ones only where one is hidden
    domain: str
    index: int  # number among the training prompts, or among the held-out ones
    hidden: bool = False  # one digit is not shown, so no completion is right with more than probability 0.1
    length: int = 0  # longest completion, the forced phrase included
    fixed: bool = True  # every answer has this length: no end token is needed, and nothing is truncated
    thinks: bool = False  # the completion begins by thinking

    @property
    def ceiling(self) -> float:
        """Best pass rate that any model can reach on this prompt."""
        return HIDDEN_SCORE if self.hidden else 1.0


class Score(NamedTuple):
    """How right a completion is, from 0 to 1, and its reward: +1 or -1."""

    correct: float
    reward: float


class Task(Protocol):
    """What training and evaluation need to know about a task."""

    name: str
    pad_id: int
    stop_ids: Ids  # any of them ends a completion
    prompt_length: int  # of the longest prompt
    max_new_tokens: int
    domains: tuple[str, ...]
    n_train: int
    downstream: tuple[str, ...]  # those of the domains that are only evaluated
    think_end_id: int
    phrase: Ids
    fingerprint: str  # differs between data or models whose runs cannot be one; empty where the settings say it all

    @property
    def vocab_size(self) -> int:
        """Tokens that the model knows."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the data, and why."""

    @property
    def ceilings(self) -> dict[str, float]:
        """Best pass rate that any model can reach on the held-out prompts of each domain, where it is known."""

    def train_prompt(self, i: int) -> Prompt:
        """Return training prompt ``i``, 0 to ``n_train - 1``."""

    def heldout_prompts(self, n: int) -> list[Prompt]:
        """Return the first ``n`` held-out prompts of each domain, domain after domain."""

    def sft_example(self, i: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Return training prompt ``i`` and a completion to imitate."""

    def score(self, prompt: Prompt, completion: Ids, u: float | None = None) -> Score:
        """Check a completion; ``u`` in [0, 1) draws what is hidden, None takes the mean over it (evaluation)."""

    def state_dict(self) -> dict[str, Any]:
        """Return totals of the run so far: columns of every row, and part of a checkpoint."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state_dict``."""
