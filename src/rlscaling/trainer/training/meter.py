"""Seconds by role, tokens and floating-point operations of a run so far."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlscaling.trainer.generation.rollout import Batch
    from rlscaling.trainer.model.decoder import Decoder


ROLES = ("generate", "train", "evaluate", "warmup", "checkpoint")


@dataclasses.dataclass(frozen=True)
class FlopModel:
    """Floating-point operations, a multiplication and an addition counting as two.

    * ``2 * body`` for each token that a pass reads: the matrices of the layers, of a mixture only the experts that
      a token visits. Looking up an embedding, norms, rotations and activations count nothing.
    * ``2 * head`` for each token that a pass predicts.
    * ``4 * layers * width`` for each pair of a query and a key, scores and mixture. Without a cache that is the full
      square: the reference computes it and masks half.
    * A backward pass costs two forward passes.
    """

    body: int
    head: int
    n_layers: int
    width: int

    @classmethod
    def of(cls, model: Decoder) -> FlopModel:
        """Return the constants of a model."""
        spec = model.spec
        visited = spec.top_k_experts / spec.n_experts if spec.n_experts else 1.0
        body = sum(
            weight.numel() * (visited if ".experts." in name else 1.0)
            for name, weight in model.layers.named_parameters()
            if weight.dim() == 2
        )
        return cls(round(body), model.lm_head.weight.numel(), spec.n_layers, spec.n_heads * spec.d_head)

    def forward(self, rows: int, length: int, predicted: int) -> int:
        """Return the cost of one pass over ``rows`` sequences of ``length`` tokens."""
        pairs = rows * length * length
        return 2 * self.body * rows * length + 2 * self.head * predicted + 4 * self.n_layers * self.width * pairs

    def update(self, rows: int, length: int, predicted: int) -> int:
        """Return the cost of a forward and a backward pass."""
        return 3 * self.forward(rows, length, predicted)

    def generation(self, prompts: int, prompt_length: int, lengths: Sequence[int]) -> int:
        """Return the cost of completions of some prompts, each of which is read once.

        After that each token is read once and attends to all before it and itself. The last one is never read.
        """
        read = sum(n - 1 for n in lengths)
        pairs = sum((n - 1) * prompt_length + n * (n - 1) // 2 for n in lengths)
        later = 2 * (self.body + self.head) * read + 4 * self.n_layers * self.width * pairs
        return self.forward(prompts, prompt_length, prompts) + later


@dataclasses.dataclass
class Meter:
    """Running totals of a run; ``lost_hours`` is what resumes threw away."""

    n_devices: int = 1
    seconds: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(ROLES, 0.0))
    wall_before: float = 0.0  # wall time of earlier processes
    lost_hours: float = 0.0
    flops: int = 0
    tokens_generated: int = 0
    tokens_trained: int = 0
    rollouts: int = 0
    _began: float = dataclasses.field(default_factory=time.perf_counter)

    @contextlib.contextmanager
    def time(self, role: str) -> Iterator[None]:
        """Add the time inside to a role; what raises is not counted."""
        began = time.perf_counter()
        yield
        self.seconds[role] += time.perf_counter() - began

    @property
    def compute_hours(self) -> float:
        """Device-hours of generation and training: no evaluation, no supervised warm-up, no checkpoints."""
        return self._hours("generate", "train")

    @property
    def wall_time(self) -> float:
        """Seconds since the run began, over all its processes."""
        return self.wall_before + time.perf_counter() - self._began

    def _hours(self, *roles: str) -> float:
        return sum(self.seconds[role] for role in roles) * self.n_devices / 3600

    def count_step(
        self, model: FlopModel, batch: Batch, *, prompts: int, trained_rows: int, trained_tokens: int
    ) -> None:
        """Add the batch of an update: its generation, and the passes over the completions that were trained on.

        Every prompt counts as long as the longest of the batch, since padding is computed as well.
        Completions in flight count when their batch is trained on.
        """
        prompt_length = batch.prompt_ids.shape[1]
        lengths = (batch.version >= 0).sum(1).tolist()
        self.flops += model.generation(prompts, prompt_length, lengths)
        self.flops += model.update(trained_rows, prompt_length + batch.tokens.shape[1] - 1, trained_tokens)
        self.tokens_generated += int(batch.length.sum())
        self.tokens_trained += trained_tokens
        self.rollouts += len(batch)

    def columns(self, compute_column: str) -> dict[str, Any]:
        """Return the columns of a trace row that say what the run has cost up to now."""
        return {
            compute_column: self.compute_hours,
            "eval_gpu_hours": self._hours("evaluate"),
            "lost_gpu_hours": self.lost_hours,
            "wall_time": self.wall_time,
            **{f"seconds_{role}": self.seconds[role] for role in ROLES},
            "flops": self.flops,
            "tokens_generated": self.tokens_generated,
            "tokens_trained": self.tokens_trained,
            "rollouts": self.rollouts,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the totals."""
        counts = {key: getattr(self, key) for key in ("flops", "tokens_generated", "tokens_trained", "rollouts")}
        return {"seconds": dict(self.seconds), "wall": self.wall_time, **counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state_dict``."""
        self.seconds = dict(state["seconds"])
        self.wall_before = state["wall"]
        self._began = time.perf_counter()
        for key in ("flops", "tokens_generated", "tokens_trained", "rollouts"):
            setattr(self, key, int(state[key]))
