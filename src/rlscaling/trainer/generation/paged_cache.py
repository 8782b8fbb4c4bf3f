"""Paged keys and values of the completions in flight: as much memory as they have tokens, however long the longest.

A page holds the keys and values of up to 32 tokens of one row [PagedAttention, arXiv 2309.06180]. A row takes its next
page when the last one is full, and gives its pages back when it ends; only when many are free between those in use do
the last ones move into the holes. Attention reads the pages where they lie, each against the query of its row, and adds
up what belongs to the same row: nothing is gathered into a batch as long as its longest row, and time follows the
tokens as memory does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generation.kv_cache import KVCache, check_fits, check_sizes, grown
from rlscaling.trainer.model.spec import DTYPES, ModelSpec

PAGE = 32
"""Tokens of a page, or the positions of the model when it has fewer: then a row is one page."""

MIN_USED = 0.75
"""Share of the pages read that are in use; when it falls below, the last ones move into the holes."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclasses.dataclass(frozen=True)
class _Layout:
    """Which page holds what, on the device: U pages from the first to the last in use, u of them in use."""

    owner: Tensor  # (U,) row of each page; 0 for a free one, whose result is not used
    begin: Tensor  # (U,) position of its first token in the row
    order: Tensor  # (u,) pages in use, those of the first row, those of the second...
    first: Tensor  # (N,) where in that order those of each row begin
    last: Tensor  # (N,) page that each row writes to

    @property
    def whole(self) -> bool:
        """Whether every row is one page."""
        return len(self.order) == len(self.first)


def page_of(spec: ModelSpec) -> int:
    """Return the tokens of a page."""
    return min(PAGE, spec.max_positions)


def pages_of(spec: ModelSpec) -> int:
    """Return the pages of the longest row."""
    return -(-spec.max_positions // page_of(spec))


def bytes_per_row(spec: ModelSpec) -> int:
    """Return the bytes of the keys and values of the longest row, in whole pages.

    Examples
    --------
    >>> sizes = {"d_model": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2}
    >>> bytes_per_row(ModelSpec(20, max_positions=10, **sizes)), bytes_per_row(ModelSpec(20, max_positions=33, **sizes))
    (2560, 16384)
    """
    positions = pages_of(spec) * page_of(spec)
    return 2 * spec.n_layers * spec.n_kv_heads * positions * spec.d_head * DTYPES[spec.dtype].itemsize


class PagedCache:
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
        One a layer: keys (U, K, d, P), values (U, K, P, d); pages, key heads, width of a head, positions of a page. U
        grows by need. Keys stand on end because a product with them is faster so.
    positions : Tensor
        (N,) long, tokens that each live row holds. Behind them its last page holds zeros.
    page : int
        P.
    """

    def __init__(self, spec: ModelSpec, device: torch.device | str = "cpu", slots: int | None = None) -> None:
        self.spec, self.page = spec, page_of(spec)
        self._most = None if slots is None else slots * pages_of(spec)
        none = torch.zeros((0, spec.n_kv_heads, self.page, spec.d_head), dtype=DTYPES[spec.dtype], device=device)
        self.k, self.v = [none.mT.contiguous()] * spec.n_layers, [none] * spec.n_layers
        self.positions = torch.zeros(0, dtype=torch.long, device=device)
        # On the host, for its decisions: the positions once more, and of each page its row (-1 for none) and which of
        # the row's pages it is.
        self._lengths: Numbers = np.zeros(0, dtype=np.int64)
        self._owner: Numbers = np.zeros(0, dtype=np.int64)
        self._piece: Numbers = np.zeros(0, dtype=np.int64)
        self._layout: _Layout | None = None

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return int(self._lengths.max(initial=0))

    @property
    def n_bytes(self) -> int:
        """Bytes allocated."""
        return sum(part.numel() * part.element_size() for part in (*self.k, *self.v))

    def extend(self, other: KVCache, source: Tensor) -> None:
        """Append copies of rows of another cache.

        Parameters
        ----------
        other
            Of the same model.
        source
            (m,) long, its rows; they may repeat, so that completions of one prompt share what was read once.
        """
        lengths = other.positions[source].cpu().numpy()
        rows, pieces = _pieces(-(-lengths // self.page))
        pages = self._to_device(self._allocate(len(self) + rows, pieces))
        first, last = source[self._to_device(rows)], self._to_device(pieces)
        for i in range(self.spec.n_layers):
            k, v = (self._cut(part[i][:, :, : other.longest])[first, last] for part in (other.k, other.v))
            self.k[i][pages], self.v[i][pages] = k.mT, v
        self.positions = torch.cat((self.positions, other.positions[source]))
        self._lengths = np.concatenate((self._lengths, lengths))

    def _cut(self, part: Tensor) -> Tensor:
        """Return keys or values of whole rows, (g, K, S, d), as pages: (g, S / P, K, P, d)."""
        rows, heads, positions, width = part.shape
        padded = functional.pad(part, (0, 0, 0, -positions % self.page))
        return padded.view(rows, heads, -1, self.page, width).transpose(1, 2)

    def begin(self, n_tokens: int) -> _PagedPass:
        """Make room for one token of every row and count it in; a forward pass writes it."""
        assert n_tokens == 1, "a row in flight reads the token sampled last"
        end = self.longest + 1
        check_fits(self.spec, end)
        self._open_pages()
        layout = self._layout = self._layout or self._make_layout()
        at, width = self.positions, min(self.page, end)
        n_tokens_in_page = (at + 1)[layout.owner] - layout.begin
        hidden = torch.arange(width, device=at.device) >= n_tokens_in_page[:, None]  # (U, P)
        mask = torch.zeros(hidden.shape, device=at.device).masked_fill_(hidden, -torch.inf)[:, None, None]
        self.positions, self._lengths = at + 1, self._lengths + 1
        return _PagedPass(self, at[:, None], layout, mask, at % self.page, width)

    def _open_pages(self) -> None:
        """Give a page to each row whose last one is full."""
        full = np.flatnonzero(self._lengths % self.page == 0)
        if not len(full):
            return
        pages = self._to_device(self._allocate(full, self._lengths[full] // self.page))
        for part in (*self.k, *self.v):
            part.index_fill_(0, pages, 0.0)  # a masked NaN of the row before would still be multiplied by 0

    def _allocate(self, rows: Numbers, pieces: Numbers) -> Numbers:
        """Return free pages, one for each piece of a row: those that lie first."""
        free = np.flatnonzero(self._owner < 0)
        if len(free) < len(rows):
            self._grow(len(self._owner) - len(free) + len(rows))
            free = np.flatnonzero(self._owner < 0)
        pages = free[: len(rows)]
        self._owner[pages], self._piece[pages] = rows, pieces
        self._layout = None
        return pages

    def _grow(self, needed: int) -> None:
        room = len(self._owner)
        more = grown(room, needed, self._most) - room
        for parts in (self.k, self.v):
            for i, old in enumerate(parts):
                parts[i] = old.new_zeros((room + more, *old.shape[1:]))
                parts[i][:room] = old
        self._owner = np.concatenate((self._owner, np.full(more, -1)))
        self._piece = np.concatenate((self._piece, np.zeros(more, dtype=np.int64)))

    def _make_layout(self) -> _Layout:
        used = np.flatnonzero(self._owner >= 0)
        n = int(used[-1]) + 1
        order = used[np.lexsort((self._piece[used], self._owner[used]))]
        ends = np.bincount(self._owner[used], minlength=len(self)).cumsum()
        first = np.concatenate(([0], ends[:-1]))
        owner, begin = self._owner[:n].clip(min=0), self._piece[:n] * self.page
        numbers = (owner, begin, order, first, order[ends - 1])
        return _Layout(*(self._to_device(part) for part in numbers))

    def _to_device(self, numbers: Numbers) -> Tensor:
        return torch.from_numpy(numbers).to(self.positions.device)

    def compact(self, movers: Tensor, holes: Tensor, n: int) -> None:
        """Give back the pages of rows that ended, and let others take their numbers.

        Parameters
        ----------
        movers, holes
            (m,) long each, from ``slots.compaction``.
        n
            Rows that are left.
        """
        source, target = movers.cpu().numpy(), holes.cpu().numpy()
        number = np.full(len(self), -1)  # that each row has from now on
        number[:n] = np.arange(n)
        number[target] = -1
        number[source] = target
        used = self._owner >= 0
        self._owner[used] = number[self._owner[used]]
        lengths, stays = np.zeros(n, dtype=np.int64), number >= 0
        lengths[number[stays]] = self._lengths[stays]
        self.positions[holes] = self.positions[movers]
        self.positions, self._lengths, self._layout = self.positions[:n], lengths, None
        self._fill_holes()

    def _fill_holes(self) -> None:
        """Move the last pages into the holes before them when many of those that are read are free."""
        used = np.flatnonzero(self._owner >= 0)
        n = len(used)
        if not n or n >= MIN_USED * (used[-1] + 1):
            return
        movers, holes = used[used >= n], np.flatnonzero(self._owner[:n] < 0)
        source, target = self._to_device(movers), self._to_device(holes)
        for part in (*self.k, *self.v):
            part.index_copy_(0, target, part.index_select(0, source))
        self._owner[holes], self._piece[holes] = self._owner[movers], self._piece[movers]
        self._owner[movers] = -1

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds: the pages in use, keys (L, u, K, d, P) and values, and where they lay."""
        pages = self._to_device(np.flatnonzero(self._owner >= 0))
        k, v = (torch.stack([part.index_select(0, pages) for part in parts]) for parts in (self.k, self.v))
        owner, piece = (self._to_device(numbers)[pages] for numbers in (self._owner, self._piece))
        return {"k": k, "v": v, "pages": pages, "owner": owner, "piece": piece, "positions": self.positions.clone()}

    @classmethod
    def from_state(
        cls,
        spec: ModelSpec,
        state: Mapping[str, Any],
        device: torch.device | str = "cpu",
        slots: int | None = None,
    ) -> PagedCache:
        """Return the cache that ``state_dict`` came from, page for page where they fit.

        Raises
        ------
        TrainError
            When it belongs to a model of other sizes.
        """
        layers, n, heads, width, page = state["k"].shape
        check_sizes(spec, layers, heads, width)
        cache = cls(spec, device, slots)
        if page != cache.page:
            raise TrainError(
                f"the cache has pages of {page} tokens, the model with max_positions={spec.max_positions} takes "
                f"{cache.page}; resume with the model that wrote it"
            )
        cache.positions = state["positions"].to(device, copy=True)
        cache._lengths = state["positions"].cpu().numpy().copy()
        pages = state["pages"].cpu().numpy()
        if cache._most is not None and n and pages[-1] >= cache._most:  # there were more slots
            pages = np.arange(n)
        if n:
            cache._grow(int(pages[-1]) + 1)
        cache._owner[pages], cache._piece[pages] = state["owner"].cpu().numpy(), state["piece"].cpu().numpy()
        at = cache._to_device(pages)
        for parts, theirs in ((cache.k, state["k"]), (cache.v, state["v"])):
            for part, their in zip(parts, theirs, strict=True):
                part[at] = their.to(device)
        return cache


def _pieces(counts: Numbers) -> tuple[Numbers, Numbers]:
    """Return the row of each page and which of its pages it is, for rows of so many pages.

    Examples
    --------
    >>> _pieces(np.array([1, 3]))
    (array([0, 1, 1, 1]), array([0, 0, 1, 2]))
    """
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)


@dataclasses.dataclass(frozen=True)
class _PagedPass:
    """A pass over one token of every row."""

    cache: PagedCache
    positions: Tensor  # (N, 1)
    layout: _Layout
    mask: Tensor  # (U, 1, 1, P) float32, 0 or -inf
    offset: Tensor  # (N,) where in its last page each row writes
    width: int  # positions of a page that can hold a token by now

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return (N, H, 1, d)."""
        keys, values = self.cache.k[layer], self.cache.v[layer]
        keys[self.layout.last, :, :, self.offset], values[self.layout.last, :, self.offset] = k[:, :, 0], v[:, :, 0]
        n = len(self.layout.owner)
        keys, values = keys[:n, ..., : self.width], values[:n, :, : self.width]
        queries = q.view(len(q), k.shape[1], -1, q.shape[-1]).index_select(0, self.layout.owner)
        # in FP32 throughout: scores and weights rounded to BF16 would part generator and trainer
        queries, keys, values = queries.float(), keys.float(), values.float()
        scores = torch.add(self.mask, torch.matmul(queries, keys), alpha=q.shape[-1] ** -0.5)  # (U, K, G, P)
        if self.layout.whole:
            attended = torch.matmul(scores.softmax(-1), values).index_select(0, self.layout.order)
        else:
            attended = self._summed(scores, values)
        return attended.to(v.dtype).view(q.shape)

    def _summed(self, scores: Tensor, values: Tensor) -> Tensor:
        """Return the values weighted by a softmax over all pages of a row, (N, K * G, d)."""
        top = self._of_rows(scores.amax(-1), "max").index_select(0, self.layout.owner)  # (U, K * G)
        weight = scores.sub_(top.view(*scores.shape[:3], 1)).exp_()
        total = self._of_rows(weight.sum(-1), "sum")  # (N, K * G)
        gathered = self._of_rows(torch.matmul(weight, values), "sum")
        return gathered.view(*total.shape, -1) / total[..., None]

    def _of_rows(self, of_pages: Tensor, mode: str) -> Tensor:
        """Return the sum or the maximum over the pages of each row, (N, ...); in one order, so that it repeats."""
        layout = self.layout
        return functional.embedding_bag(layout.order, of_pages.flatten(1), layout.first, mode=mode)
