"""Keys and values of the completions in flight: one slot a row, as much room as the rows need.

The rows that are live stand in the first slots, so that a forward pass reads a view and copies nothing. When some of
them end, the last rows move into the holes and what joins goes behind: an end costs the copy of one row, however many
are live. A slot is wiped before it is given away, so that nothing of its last row is left, be it finite or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.model import DTYPES, ModelSpec

_FIRST_POSITIONS = 32
"""Positions of the first allocation: short tasks never grow."""

GIB = 2**30


def grown(room: int, needed: int, most: int | None = None) -> int:
    """Return the room to allocate: at least half as much again as before, so that growing costs little.

    Parameters
    ----------
    room, needed
        What there is, and what there must be.
    most
        Never more than this; None sets no bound.

    Examples
    --------
    >>> grown(32, 33), grown(32, 33, 40), grown(32, 20), grown(0, 7)
    (48, 40, 32, 7)
    """
    if needed <= room:
        return room
    wanted = max(needed, room + room // 2)
    return wanted if most is None else min(wanted, most)


class KVCache:
    """Keys and values of N live rows, each with its own number of tokens.

    Parameters
    ----------
    spec
        Sizes of the decoder.
    device
        Where it lies.
    slots
        Most rows it will ever hold; None sets no bound.

    Attributes
    ----------
    k, v : list of Tensor
        One a layer, (R, K, S, d): slots, key heads, positions, width of a head. R >= N and S >= ``longest`` grow by
        need.
    positions : Tensor
        (N,) long, tokens that each live row holds. Behind them a row holds zeros.
    longest : int
        At least the largest of ``positions``, known without asking the device.
    """

    def __init__(self, spec: ModelSpec, device: torch.device | str = "cpu", slots: int | None = None) -> None:
        self.spec, self.slots = spec, slots
        none = torch.zeros((0, spec.n_kv_heads, 0, spec.d_head), dtype=DTYPES[spec.dtype], device=device)
        self.k, self.v = [none] * spec.n_layers, [none] * spec.n_layers
        self.positions = torch.zeros(0, dtype=torch.long, device=device)
        self.longest = 0

    @classmethod
    def empty(cls, spec: ModelSpec, rows: int, device: torch.device | str = "cpu") -> KVCache:
        """Return a cache of ``rows`` live rows without tokens."""
        cache = cls(spec, device)
        cache.reserve(rows, 0)
        cache.positions = torch.zeros(rows, dtype=torch.long, device=device)
        return cache

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def n_bytes(self) -> int:
        """Bytes allocated."""
        return sum(part.numel() * part.element_size() for part in (*self.k, *self.v))

    def reserve(self, rows: int, positions: int) -> None:
        """Make room for so many live rows of so many positions, one layer after the other.

        Raises
        ------
        TrainError
            When a row would hold more than the model has positions for.
        """
        most = self.spec.max_positions
        if positions > most:
            raise TrainError(
                f"a row of {positions} tokens does not fit the model, which has max_positions={most}; shorten the "
                "prompt or the completion, or raise max_positions"
            )
        slots, room = self.k[0].shape[0], self.k[0].shape[2]
        if rows <= slots and positions <= room:
            return
        shape = (
            grown(slots, rows, self.slots),
            self.spec.n_kv_heads,
            grown(room, max(positions, min(_FIRST_POSITIONS, most)), most),
            self.spec.d_head,
        )
        n = len(self)
        for parts in (self.k, self.v):
            for i, old in enumerate(parts):
                parts[i] = old.new_zeros(shape)
                parts[i][:n, :, :room] = old[:n]

    def layer(self, i: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the live rows in layer ``i``, (N, K, S, d) each: views to write to."""
        n = len(self)
        return self.k[i][:n], self.v[i][:n]

    def extend(self, other: KVCache, source: Tensor) -> None:
        """Append copies of rows of another cache.

        Parameters
        ----------
        other
            Of the same model.
        source
            (m,) long, its rows; they may repeat, so that completions of one prompt share what was read once.
        """
        first, n = len(self), len(self) + len(source)
        self.reserve(n, other.longest)
        for parts, theirs in ((self.k, other.k), (self.v, other.v)):
            for part, their in zip(parts, theirs, strict=True):
                part[first:n, :, : other.longest] = their[:, :, : other.longest].index_select(0, source)
                part[first:n, :, other.longest :] = 0.0  # a masked NaN would still be multiplied by 0
        self.positions = torch.cat((self.positions, other.positions[source]))
        self.longest = max(self.longest, other.longest)

    def compact(self, movers: Tensor, holes: Tensor, n: int) -> None:
        """Move rows into the slots of others that ended, and keep the first ``n`` slots.

        Parameters
        ----------
        movers, holes
            (m,) long each, from ``rows.compaction``.
        n
            Rows that are left.
        """
        if len(movers):
            for part in (*self.k, *self.v):
                used = part[:, :, : self.longest]
                used.index_copy_(0, holes, used.index_select(0, movers))
            self.positions[holes] = self.positions[movers]
        self.positions = self.positions[:n]
        self.longest = int(self.positions.max()) if n else 0

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds: live rows, and only positions that hold a token; (L, N, K, S, d)."""
        n, end = len(self), self.longest
        k, v = (torch.stack([part[:n, :, :end] for part in parts]) for parts in (self.k, self.v))
        return {"k": k, "v": v, "positions": self.positions.clone()}

    @classmethod
    def from_state(
        cls,
        spec: ModelSpec,
        state: Mapping[str, Any],
        device: torch.device | str = "cpu",
        slots: int | None = None,
    ) -> KVCache:
        """Return the cache that ``state_dict`` came from.

        Raises
        ------
        TrainError
            When it belongs to a model of other sizes.
        """
        layers, n, heads, end, width = state["k"].shape
        if (layers, heads, width) != (spec.n_layers, spec.n_kv_heads, spec.d_head):
            raise TrainError(
                f"the cache has {layers} layers of {heads} key heads of width {width}, the model {spec.n_layers} of "
                f"{spec.n_kv_heads} of {spec.d_head}; resume with the model that wrote it"
            )
        cache = cls(spec, device, slots)
        cache.reserve(n, end)
        cache.positions, cache.longest = state["positions"].to(device, copy=True), end
        for parts, theirs in ((cache.k, state["k"]), (cache.v, state["v"])):
            for part, their in zip(parts, theirs, strict=True):
                part[:n, :, :end] = their.to(device)
        return cache


def bytes_per_row(spec: ModelSpec) -> int:
    """Return the bytes of a row's keys and values when every position is taken.

    Examples
    --------
    >>> bytes_per_row(ModelSpec(20, d_model=32, n_layers=2, n_heads=4, n_kv_heads=2, max_positions=10))
    2560
    """
    values = 2 * spec.n_layers * spec.n_kv_heads * spec.max_positions * spec.d_head
    return values * DTYPES[spec.dtype].itemsize
