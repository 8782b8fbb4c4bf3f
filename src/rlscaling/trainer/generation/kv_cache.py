"""Contiguous keys and values of rows that are read together: what a prompt is read into."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.model.attention import folded_attention, later_hidden
from rlscaling.trainer.model.spec import DTYPES, ModelSpec


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


def check_fits(spec: ModelSpec, tokens: int) -> None:
    """Check that the model has positions for a row of so many tokens."""
    if tokens > spec.max_positions:
        raise TrainError(
            f"a row of {tokens} tokens does not fit the model, which has max_positions={spec.max_positions}; shorten "
            "the prompt or the completion, or raise max_positions"
        )


def check_sizes(spec: ModelSpec, layers: int, heads: int, width: int) -> None:
    """Check that keys and values belong to a model of these sizes."""
    if (layers, heads, width) != (spec.n_layers, spec.n_kv_heads, spec.d_head):
        raise TrainError(
            f"the cache has {layers} layers of {heads} key heads of width {width}, the model {spec.n_layers} of "
            f"{spec.n_kv_heads} of {spec.d_head}; resume with the model that wrote it"
        )


class KVCache:
    """Keys and values of N rows, each with its own number of tokens.

    Parameters
    ----------
    spec
        Sizes of the decoder.
    rows
        How many, without tokens.
    device
        Where it lies.

    Attributes
    ----------
    k, v : list of Tensor
        One a layer, (N, K, S, d): rows, key heads, positions, width of a head. S >= ``longest`` grows by need.
    positions : Tensor
        (N,) long, tokens that each row holds. Behind them a row holds zeros.
    longest : int
        At least the largest of ``positions``, known without asking the device.
    """

    def __init__(self, spec: ModelSpec, rows: int, device: torch.device | str = "cpu") -> None:
        self.spec = spec
        none = torch.zeros((rows, spec.n_kv_heads, 0, spec.d_head), dtype=DTYPES[spec.dtype], device=device)
        self.k, self.v = [none] * spec.n_layers, [none] * spec.n_layers
        self.positions = torch.zeros(rows, dtype=torch.long, device=device)
        self.longest = 0

    def __len__(self) -> int:
        return len(self.positions)

    def reserve(self, positions: int) -> None:
        """Make room for rows of so many positions, one layer after the other.

        Raises
        ------
        TrainError
            When that is more than the model has positions for.
        """
        check_fits(self.spec, positions)
        room = self.k[0].shape[2]
        if positions <= room:
            return
        n, heads, _, width = self.k[0].shape
        shape = (n, heads, grown(room, positions, self.spec.max_positions), width)
        for parts in (self.k, self.v):
            for i, old in enumerate(parts):
                parts[i] = old.new_zeros(shape)
                parts[i][:, :, :room] = old

    def begin(self, n_tokens: int) -> _CachedPass:
        """Make room for so many tokens of every row and count them in; a forward pass writes them."""
        end = self.longest + n_tokens
        self.reserve(end)
        device = self.positions.device
        at = self.positions[:, None] + torch.arange(n_tokens, device=device)
        rows, heads = (torch.arange(n, device=device) for n in (len(self), self.spec.n_kv_heads))
        write = (rows[:, None, None], heads[None, :, None], at[:, None, :])
        mask = later_hidden(self.spec, at, end, DTYPES[self.spec.dtype])
        self.positions, self.longest = self.positions + n_tokens, end
        return _CachedPass(self, at, mask, write, end)

    def row(self, i: int) -> KVCache:
        """Return a copy of one row."""
        one = KVCache(self.spec, 1, self.positions.device)
        one.k, one.v = ([part[i : i + 1].clone() for part in parts] for parts in (self.k, self.v))
        one.positions, one.longest = self.positions[i : i + 1].clone(), self.longest
        return one

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds: only positions that hold a token; keys and values (L, N, K, S, d)."""
        k, v = (torch.stack([part[:, :, : self.longest] for part in parts]) for parts in (self.k, self.v))
        return {"k": k, "v": v, "positions": self.positions.clone()}

    @classmethod
    def from_state(cls, spec: ModelSpec, state: Mapping[str, Any], device: torch.device | str = "cpu") -> KVCache:
        """Return the cache that ``state_dict`` came from.

        Raises
        ------
        TrainError
            When it belongs to a model of other sizes.
        """
        layers, rows, heads, end, width = state["k"].shape
        check_sizes(spec, layers, heads, width)
        cache = cls(spec, rows, device)
        cache.reserve(end)
        cache.positions, cache.longest = state["positions"].to(device, copy=True), end
        for parts, theirs in ((cache.k, state["k"]), (cache.v, state["v"])):
            for part, their in zip(parts, theirs, strict=True):
                part[:, :, :end] = their.to(device)
        return cache


@dataclasses.dataclass(frozen=True)
class _CachedPass:
    """A pass over tokens that go on where the rows of a cache end."""

    cache: KVCache
    positions: Tensor  # (N, T)
    mask: Tensor  # (N, 1, G * T, S)
    write: tuple[Tensor, Tensor, Tensor]  # rows, key heads, positions
    end: int

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return (N, H, T, d)."""
        keys, values = self.cache.k[layer], self.cache.v[layer]
        keys[self.write], values[self.write] = k, v
        return folded_attention(q, keys[:, :, : self.end], values[:, :, : self.end], self.mask)
