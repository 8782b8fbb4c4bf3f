"""Prompts into a cache: of any lengths, several at once, long ones piece by piece, in bounded memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlscaling.trainer.generation.kv_cache import KVCache
from rlscaling.trainer.model.decoder import Decoder

MAX_TOKENS = 8192
"""Tokens of one forward pass: bounds the activations."""

MAX_SCORES = 2**22
"""Pairs of token and position of one forward pass: bounds the mask, 16 MiB of FP32 for each query head of a group."""

MAX_PIECE = 512


@dataclasses.dataclass(frozen=True)
class PrefilledPrompts:
    """Prompts that were read together."""

    numbers: tuple[int, ...]  # (g,) which of the prompts
    cache: KVCache  # of g rows
    hidden: Tensor  # (g, D) state after the last token of each, from which the first of a completion is sampled


def read_prompts(model: Decoder, prompts: Sequence[tuple[int, ...]], pad_id: int) -> Iterator[PrefilledPrompts]:
    """Read prompts, those of like length together.

    A shorter prompt is padded on its right, where none of its tokens attends; what the padding left in the cache is
    wiped.

    Parameters
    ----------
    model
        The policy.
    prompts
        Token ids, at least one each.
    pad_id
        Any token.

    Yields
    ------
    PrefilledPrompts
        As many prompts as fit into one forward pass; take what is needed before the next.
    """
    by_length = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    first = 0
    while first < len(by_length):
        last = first + 1
        while last < len(by_length) and last - first < at_once(len(prompts[by_length[last]])):
            last += 1
        numbers = tuple(by_length[first:last])
        yield PrefilledPrompts(numbers, *_read(model, [prompts[i] for i in numbers], pad_id))
        first = last


def piece(length: int) -> int:
    """Return how many tokens of a prompt of this length are read in one forward pass.

    Examples
    --------
    >>> piece(6), piece(4000), piece(100_000)
    (6, 512, 41)
    """
    return min(length, MAX_PIECE, max(1, MAX_SCORES // length))


def at_once(length: int) -> int:
    """Return how many prompts of at most this length are read together.

    Examples
    --------
    >>> at_once(6), at_once(100), at_once(1000), at_once(100_000)
    (1365, 81, 8, 1)
    """
    tokens = piece(length)
    return max(1, min(MAX_TOKENS // tokens, MAX_SCORES // (tokens * length)))


def _read(model: Decoder, prompts: Sequence[tuple[int, ...]], pad_id: int) -> tuple[KVCache, Tensor]:
    """Return the cache of some prompts and the hidden state after the last token of each, (g, D)."""
    device = model.embed_tokens.weight.device
    sizes, longest = [len(prompt) for prompt in prompts], max(len(prompt) for prompt in prompts)
    padded = [(*prompt, *(pad_id,) * (longest - len(prompt))) for prompt in prompts]
    tokens = torch.tensor(padded, device=device)  # (g, P)
    cache = KVCache(model.spec, len(prompts), device)
    cache.reserve(longest)
    step = piece(longest)
    if step == longest == min(sizes):
        return cache, model(tokens, cache=cache)[:, -1]
    length = torch.tensor(sizes, device=device)
    hidden = None
    for start in range(0, longest, step):
        out = model(tokens[:, start : start + step], cache=cache)  # (g, t, D)
        at = (length - 1 - start).clamp(0, out.shape[1] - 1)
        inside = (length > start) & (length <= start + out.shape[1])
        here = out[torch.arange(len(prompts), device=device), at]
        hidden = here if hidden is None else torch.where(inside[:, None], here, hidden)
    assert hidden is not None
    padding = (torch.arange(cache.k[0].shape[2], device=device) >= length[:, None])[:, None, :, None]  # (g, 1, S, 1)
    for part in (*cache.k, *cache.v):
        part.masked_fill_(padding, 0.0)
    cache.positions = length
    return cache, hidden
