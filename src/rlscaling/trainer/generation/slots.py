"""State of the completions in flight, their cache aside: which they are, how far they have come, their tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rlscaling.trainer.generation.kv_cache import grown


@dataclasses.dataclass(frozen=True)
class SlotState:
    """The state of N rows, T tokens at most."""

    group: Tensor  # (N,)
    sample: Tensor  # (N,)
    limit: Tensor  # (N,) tokens after which the row ends
    fixed: Tensor  # (N,) bool: reaching the limit is no truncation
    thinking: Tensor  # (N,) bool
    interrupt_at: Tensor  # (N,) tokens of thinking after which it is ended
    forced: Tensor  # (N,) tokens of the phrase already given; 0 where not interrupted
    n: Tensor  # (N,) tokens so far
    tokens: Tensor  # (N, T)
    logp: Tensor  # (N, T) float32
    sampled: Tensor  # (N, T) bool
    version: Tensor  # (N, T)

    def __len__(self) -> int:
        return len(self.n)

    def map(self, change: Callable[[Tensor], Tensor]) -> SlotState:
        """Return the rows with every field changed."""
        return SlotState(**{name: change(value) for name, value in vars(self).items()})

    def select(self, at: Tensor) -> SlotState:
        """Return copies of some rows, (m,) long."""
        return self.map(lambda value: value.index_select(0, at))

    @property
    def last(self) -> Tensor:
        """Last token of each row, (N, 1)."""
        return self.tokens.gather(1, self.n[:, None] - 1)


def compaction(done: Tensor, n_left: int) -> tuple[Tensor, Tensor]:
    """Return which rows move, and the holes they move to, so that the rows that go on are the first ``n_left``.

    Parameters
    ----------
    done
        (N,) bool, rows that ended.
    n_left
        Rows that did not.

    Examples
    --------
    >>> movers, holes = compaction(torch.tensor([True, False, True, False, False]), 3)
    >>> movers.tolist(), holes.tolist()
    ([3, 4], [0, 2])
    """
    return (~done[n_left:]).nonzero()[:, 0] + n_left, done[:n_left].nonzero()[:, 0]


class Slots:
    """Rows in the first of a number of slots; room grows by need, and an end moves one row.

    Parameters
    ----------
    most
        Slots at most; None sets no bound.

    Attributes
    ----------
    live : SlotState or None
        Views of the rows in flight, to be changed in place; None when there are none.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.live: SlotState | None = None
        self._room: SlotState | None = None

    def __len__(self) -> int:
        return len(self.live) if self.live is not None else 0

    def extend(self, new: SlotState) -> None:
        """Append rows."""
        first, n = len(self), len(self) + len(new)
        if self._room is None or n > len(self._room):
            slots = grown(len(self._room) if self._room is not None else 0, n, self.most)
            room = new.map(lambda value: value.new_zeros((slots, *value.shape[1:])))
            self._write(room, self.live, 0)
            self._room = room
        self._write(self._room, new, first)
        self._keep(n)

    @staticmethod
    def _write(room: SlotState, state: SlotState | None, first: int) -> None:
        for name, value in vars(state).items() if state is not None else ():
            getattr(room, name)[first : first + len(value)] = value

    def _keep(self, n: int) -> None:
        assert self._room is not None
        self.live = self._room.map(lambda value: value[:n])

    def compact(self, movers: Tensor, holes: Tensor, n: int) -> None:
        """Move rows into the slots of others that ended, and keep the first ``n``; free the room when none is left."""
        if not n:
            self.live = self._room = None
            return
        if len(movers):
            assert self._room is not None
            for value in vars(self._room).values():
                value.index_copy_(0, holes, value.index_select(0, movers))
        self._keep(n)

    def state_dict(self) -> dict[str, Tensor] | None:
        """Return the rows in flight for a checkpoint."""
        return None if self.live is None else {name: value.clone() for name, value in vars(self.live).items()}

    def load_state_dict(self, state: Mapping[str, Tensor] | None, device: torch.device | str) -> None:
        """Go on from ``state_dict``."""
        self.live = self._room = None
        if state is not None:
            self.extend(SlotState(**{name: value.to(device) for name, value in state.items()}))
