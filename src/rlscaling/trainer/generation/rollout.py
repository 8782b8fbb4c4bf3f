"""What generation hands to training: a completion (`Rollout`), those of a prompt (`Group`), a padded `Batch`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from rlscaling.trainer.tasks.task import Prompt


_TOKEN_FIELDS = (("tokens", np.int64), ("logp", np.float32), ("sampled", np.bool_), ("version", np.int64))
_ROW_FIELDS = (
    ("group", np.int64),
    ("sample", np.int64),
    ("truncated", np.bool_),
    ("interrupted", np.bool_),
    ("correct", np.float64),
    ("reward", np.float64),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Rollout:
    """One completion of one prompt, T tokens with the end token; arrays of numpy or tensors on the CPU."""

    group: int  # number of the group in start order: the first prompt of the run is 0
    sample: int  # 0 .. generations - 1
    prompt: Prompt
    tokens: Any  # (T,) int64
    logp: Any  # (T,) float32: log-probability under the weights that sampled the token; 0 where forced
    sampled: Any  # (T,) bool: False on the tokens of a forced phrase
    version: Any  # (T,) int64: updates done to the weights that sampled the token
    truncated: bool  # cut off at the length limit
    interrupted: bool  # thinking was ended by the forced phrase
    correct: float  # 0 .. 1, what the pass rate counts
    reward: float  # +1 or -1, before any length penalty

    @property
    def length(self) -> int:
        """Sampled tokens; a forced phrase does not count."""
        return int(np.asarray(self.sampled).sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """All completions of one prompt, in the order of their sample numbers."""

    index: int
    prompt: Prompt
    rollouts: tuple[Rollout, ...]  # (G,)

    @property
    def n_tokens(self) -> int:
        """Sampled tokens of all completions."""
        return sum(rollout.length for rollout in self.rollouts)

    @property
    def successes(self) -> float:
        """Sum over the completions of how correct they are."""
        return sum(float(rollout.correct) for rollout in self.rollouts)


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """N completions padded to one length; the G completions of a prompt stand together."""

    prompt_ids: Tensor  # (N, P) long, padding last
    prompt_length: Tensor  # (N,) long
    tokens: Tensor  # (N, T) long
    mask: Tensor  # (N, T) bool: the token was sampled, so neither padding nor a forced phrase
    old_logp: Tensor  # (N, T) float32, 0 where not sampled
    version: Tensor  # (N, T) long, -1 on padding
    reward: Tensor  # (N,) float32
    correct: Tensor  # (N,) float32
    group: Tensor  # (N,) long
    truncated: Tensor  # (N,) bool
    interrupted: Tensor  # (N,) bool
    length: Tensor  # (N,) long, sampled tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def select(self, rows: Tensor) -> Batch:
        """Return the batch of these rows, shape (n,) of indices or (N,) of bool."""
        return self._map(lambda value: value[rows])

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on another device."""
        return self._map(lambda value: value.to(device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(**{field.name: change(getattr(self, field.name)) for field in dataclasses.fields(self)})


def collate(groups: Sequence[Group], pad_id: int) -> Batch:
    """Return the completions of all groups as one padded batch."""
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    flat, sizes = _flatten(rollouts)
    inside = np.arange(max(sizes.max(initial=0), 1)) < sizes[:, None]  # (N, T)

    def padded(values: np.ndarray[Any, Any], fill: Any) -> Tensor:
        full = np.full(inside.shape, fill, dtype=values.dtype)
        full[inside] = values
        return torch.from_numpy(full)

    mask = padded(flat["sampled"], False)
    prompt_ids, prompt_length = pad_ids([rollout.prompt.ids for rollout in rollouts], pad_id)
    return Batch(
        prompt_ids=prompt_ids,
        prompt_length=prompt_length,
        tokens=padded(flat["tokens"], pad_id),
        mask=mask,
        old_logp=padded(flat["logp"], 0.0).masked_fill(~mask, 0.0),
        version=padded(flat["version"], -1),
        reward=torch.tensor([float(rollout.reward) for rollout in rollouts]),
        correct=torch.tensor([float(rollout.correct) for rollout in rollouts]),
        group=torch.tensor([rollout.group for rollout in rollouts]),
        truncated=torch.tensor([bool(rollout.truncated) for rollout in rollouts]),
        interrupted=torch.tensor([bool(rollout.interrupted) for rollout in rollouts]),
        length=mask.sum(1),
    )


def pad_ids(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return rows of token ids padded behind to one length, (N, L), and how long each was, (N,)."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    longest = int(lengths.max()) if rows else 0
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], dtype=torch.long), lengths


def _flatten(rollouts: Sequence[Rollout]) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Return each per-token field of all rollouts end to end, and how many tokens each rollout has."""
    sizes = np.array([len(rollout.tokens) for rollout in rollouts], dtype=np.int64)
    empty = np.empty(0)
    flat = {
        name: np.concatenate([np.asarray(getattr(rollout, name)) for rollout in rollouts] or [empty]).astype(kind)
        for name, kind in _TOKEN_FIELDS
    }
    return flat, sizes


def pack_rollouts(rollouts: Sequence[Rollout]) -> dict[str, Tensor]:
    """Return rollouts as a few tensors for a checkpoint; prompts go by their index."""
    flat, sizes = _flatten(rollouts)
    rows = {name: np.array([getattr(r, name) for r in rollouts], dtype=kind) for name, kind in _ROW_FIELDS}
    prompts = np.array([rollout.prompt.index for rollout in rollouts], dtype=np.int64)
    arrays = {**flat, **rows, "size": sizes, "prompt": prompts}
    return {name: torch.from_numpy(values) for name, values in arrays.items()}


def unpack_rollouts(packed: dict[str, Tensor], prompt_of: Callable[[int], Prompt]) -> list[Rollout]:
    """Return the rollouts that ``pack_rollouts`` packed; ``prompt_of`` gives the prompt of an index."""
    sizes = packed["size"].tolist()
    columns: dict[str, list[Any]] = {name: packed[name].tolist() for name, _ in _ROW_FIELDS}
    for name, _ in _TOKEN_FIELDS:
        columns[name] = [part.numpy() for part in torch.split(packed[name], sizes)]
    return [
        Rollout(prompt=prompt_of(index), **{name: values[i] for name, values in columns.items()})
        for i, index in enumerate(packed["prompt"].tolist())
    ]
