"""The cache in pages against the plain one, which is checked against no cache at all in test_model.py."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rlscaling.trainer import TrainError
from rlscaling.trainer.generation.kv_cache import KVCache
from rlscaling.trainer.generation.paged_cache import PagedCache, bytes_per_row
from rlscaling.trainer.generation.slots import compaction
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.model.spec import ModelSpec

MOST = 40
SPEC = ModelSpec(vocab_size=15, d_model=24, d_ff=24, n_heads=6, n_kv_heads=2, max_positions=MOST)
SPECS = {
    "grouped": SPEC,
    "one key head": dataclasses.replace(SPEC, n_kv_heads=1),
    "no sharing": dataclasses.replace(SPEC, n_kv_heads=6),
    "qwen3": dataclasses.replace(SPEC, qk_norm=True, head_width=8, qkv_bias=True),
    "experts": dataclasses.replace(SPEC, n_experts=3),
}


def decoder(spec: ModelSpec = SPEC) -> Decoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Decoder(spec)


def sequences(rows: int, seed: int = 1) -> Tensor:
    return torch.randint(SPEC.vocab_size, (rows, MOST), generator=torch.Generator().manual_seed(seed))


def read(model: Decoder, tokens: Tensor) -> KVCache:
    cache = KVCache(model.spec, len(tokens))
    model(tokens, cache=cache)
    return cache


def n_pages(cache: PagedCache) -> int:
    return int((cache._owner >= 0).sum())


class Flight:
    """Rows of a paged cache, of which each goes on with a sequence of its own."""

    def __init__(self, model: Decoder, tokens: Tensor, slots: int | None = None) -> None:
        self.model, self.tokens, self.cache = model, tokens, PagedCache(model.spec, slots=slots)
        self.full = model(tokens)  # (R, S, D) of each sequence without a cache
        self.rows: list[tuple[int, int]] = []  # its sequence, and the tokens read of it

    def join(self, sequence: int, length: int, copies: int = 1) -> None:
        prompt = read(self.model, self.tokens[sequence : sequence + 1, :length])
        self.cache.extend(prompt, torch.zeros(copies, dtype=torch.long))
        self.rows += [(sequence, length)] * copies

    def leave(self, leavers: set[int]) -> None:
        done = torch.tensor([i in leavers for i in range(len(self.rows))], dtype=torch.bool)
        n = len(self.rows) - len(leavers)
        movers, holes = compaction(done, n)
        for mover, hole in zip(movers.tolist(), holes.tolist(), strict=True):
            self.rows[hole] = self.rows[mover]
        del self.rows[n:]
        self.cache.compact(movers, holes, n)

    def step(self) -> None:
        tokens = torch.stack([self.tokens[s, n : n + 1] for s, n in self.rows])
        actual = self.model(tokens, cache=self.cache)[:, 0]
        expected = torch.stack([self.full[s, n] for s, n in self.rows])
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)
        self.rows = [(s, n + 1) for s, n in self.rows]
        self.check()

    def check(self) -> None:
        """Every row has the pages that its tokens need, each once, with zeros behind the last token."""
        cache = self.cache
        lengths = [n for _, n in self.rows]
        assert cache.positions.tolist() == cache._lengths.tolist() == lengths
        used = np.flatnonzero(cache._owner >= 0)
        actual = sorted(zip(cache._owner[used].tolist(), cache._piece[used].tolist(), strict=True))
        assert actual == [(row, piece) for row, n in enumerate(lengths) for piece in range(-(-n // cache.page))]
        filled = np.array(lengths)[cache._owner[used]] - cache._piece[used] * cache.page
        behind = torch.arange(cache.page) >= torch.from_numpy(filled)[:, None]
        for part in (*cache.k, *(v.mT for v in cache.v)):
            assert not part[torch.from_numpy(used)].permute(0, 3, 1, 2)[behind].any()


@pytest.mark.parametrize("page", [1, 3, 16, MOST])
@pytest.mark.parametrize("name", SPECS)
@torch.inference_mode()
def test_every_row_sees_its_own_tokens(name: str, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", page)
    flight = Flight(decoder(SPECS[name]), sequences(6))
    flight.join(0, 9)
    flight.join(1, 1, copies=2)
    for _ in range(8):
        flight.step()
    flight.join(2, 16, copies=2)
    flight.step()
    flight.leave({0, 3})
    for _ in range(5):
        flight.step()
    flight.join(3, 3)
    flight.leave({1})
    for _ in range(10):
        flight.step()


plans = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 7), st.integers(1, 12), st.integers(1, 3)),
        st.tuples(st.just("leave"), st.sets(st.integers(0, 9), max_size=4)),
        st.tuples(st.just("step"), st.integers(1, 4)),
        st.tuples(st.just("restart")),
    ),
    max_size=14,
)


@settings(max_examples=60)
@given(plans, st.integers(1, MOST + 3))
@torch.inference_mode()
def test_any_history(plan: list[tuple[object, ...]], page: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", page)
        flight = Flight(decoder(), sequences(8))
        for what, *how in plan:
            live = len(flight.rows)
            if what == "join":
                flight.join(*how)  # type: ignore[arg-type]
            elif what == "leave":
                flight.leave({i for i in how[0] if i < live})  # type: ignore[attr-defined]
            elif what == "restart" and live:
                flight.cache = PagedCache.from_state(SPEC, flight.cache.state_dict())
            elif what == "step" and live and max(n for _, n in flight.rows) + how[0] <= MOST:  # type: ignore[operator]
                for _ in range(how[0]):  # type: ignore[call-overload]
                    flight.step()
            flight.check()


@pytest.mark.parametrize("page", [5, MOST])
@torch.inference_mode()
def test_a_row_that_diverged_spoils_no_other(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are not finite stay with their row, and leave nothing in the pages that it gives back."""
    monkeypatch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", page)
    flight = Flight(decoder(), sequences(4))
    flight.join(0, 9)
    spoiled = read(flight.model, flight.tokens[1:2, :11])
    for part in (*spoiled.k, *spoiled.v):
        part.fill_(float("nan"))
    flight.cache.extend(spoiled, torch.tensor([0]))
    flight.join(2, 6)
    tokens = torch.stack((flight.tokens[0, 9:10], flight.tokens[1, 11:12], flight.tokens[2, 6:7]))
    actual = flight.model(tokens, cache=flight.cache)[:, 0]
    assert actual[1].isnan().all()
    torch.testing.assert_close(actual[0], flight.full[0, 9], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(actual[2], flight.full[2, 6], atol=1e-5, rtol=1e-4)
    flight.rows = [(0, 10), (1, 12), (2, 7)]
    flight.leave({1})
    flight.join(3, 8, copies=2)
    for _ in range(12):
        flight.step()


@torch.inference_mode()
def test_a_long_row_takes_no_room_of_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", 4)
    flight = Flight(decoder(), sequences(8))
    flight.join(0, 30)
    flight.join(1, 2, copies=50)
    flight.step()
    assert n_pages(flight.cache) == 8 + 50
    per_page = 2 * SPEC.n_layers * SPEC.n_kv_heads * 4 * SPEC.d_head * 4
    assert flight.cache.n_bytes <= 1.5 * 58 * per_page


@torch.inference_mode()
def test_pages_given_back_are_taken_again() -> None:
    """Rows come and go a hundred times over in the memory of the first ones."""
    flight = Flight(decoder(), sequences(8), slots=6)
    for i in range(100):
        flight.join(i % 8, 3, copies=6 - len(flight.rows))
        for _ in range(3):
            flight.step()
        flight.leave(set(range(i % 3, 6, 2)))
    assert flight.cache.n_bytes == 6 * 2 * 2 * SPEC.n_layers * SPEC.n_kv_heads * 32 * SPEC.d_head * 4 / 2


@torch.inference_mode()
def test_few_pages_are_read_when_few_rows_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", 4)
    flight = Flight(decoder(), sequences(8))
    for sequence in range(8):
        flight.join(sequence, 3 + sequence, copies=4)
    flight.step()
    flight.leave(set(range(31)))
    flight.step()
    assert flight.cache._layout is not None
    assert len(flight.cache._layout.owner) * 0.75 <= n_pages(flight.cache) == 3
    flight.leave({0})
    assert (len(flight.cache), n_pages(flight.cache), flight.cache.longest) == (0, 0, 0)


@pytest.mark.parametrize("page", [8, MOST])
@torch.inference_mode()
def test_bf16_is_no_further_from_fp32_than_the_plain_cache_is(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores and weights stay in FP32: rounded to BF16 they take the generator away from the trainer."""
    monkeypatch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", page)
    model = decoder(dataclasses.replace(SPEC, dtype="bf16"))
    for layer in model.layers:  # sharp attention
        layer.self_attn.q_proj.weight.mul_(4)
    exact = decoder()
    exact.load_state_dict({name: value.float() for name, value in model.state_dict().items()})
    tokens = sequences(64)
    plain, paged = read(model, tokens[:, :5]), PagedCache(model.spec)
    paged.extend(read(model, tokens[:, :5]), torch.arange(64))
    expected, gaps = exact(tokens), {}
    for name, cache in (("plain", plain), ("paged", paged)):
        actual = torch.cat([model(tokens[:, t : t + 1], cache=cache) for t in range(5, MOST)], 1)
        assert actual.dtype == torch.bfloat16
        gaps[name] = float((actual.float() - expected[:, 5:]).abs().mean())
    assert gaps["paged"] <= 1.05 * gaps["plain"]


@torch.inference_mode()
def test_past_the_last_position() -> None:
    model = decoder()
    message = r"a row of 41 tokens does not fit the model, which has max_positions=40"
    with pytest.raises(TrainError, match=message):
        read(model, torch.zeros((1, 41), dtype=torch.long))
    flight = Flight(model, sequences(1))
    flight.join(0, MOST)
    with pytest.raises(TrainError, match=message):
        model(torch.zeros((1, 1), dtype=torch.long), cache=flight.cache)


def test_a_cache_of_another_model() -> None:
    message = r"the cache has 2 layers of 2 key heads of width 4, the model 3 of 2 of 4"
    other = dataclasses.replace(SPEC, n_layers=3)
    plain, paged = KVCache(SPEC, 2), PagedCache(SPEC)
    paged.extend(plain, torch.tensor([0]))
    with pytest.raises(TrainError, match=message):
        KVCache.from_state(other, plain.state_dict())
    with pytest.raises(TrainError, match=message):
        PagedCache.from_state(other, paged.state_dict())


@torch.inference_mode()
def test_a_cache_of_a_model_with_other_pages() -> None:
    paged = PagedCache(dataclasses.replace(SPEC, max_positions=20))
    paged.extend(KVCache(SPEC, 1), torch.tensor([0]))
    with pytest.raises(TrainError, match=r"pages of 20 tokens, the model with max_positions=40 takes 32"):
        PagedCache.from_state(SPEC, paged.state_dict())


@torch.inference_mode()
def test_rows_go_on_in_just_as_many_slots() -> None:
    """Pages lie higher than fewer slots have room for when there are holes before them."""
    spec = dataclasses.replace(SPEC, max_positions=30)
    flight = Flight(decoder(spec), sequences(4)[:, :30], slots=4)
    for sequence in range(4):
        flight.join(sequence, 3)
    flight.step()
    flight.leave({2})
    assert flight.cache._owner.tolist() == [0, 1, -1, 2]
    flight.cache = PagedCache.from_state(spec, flight.cache.state_dict(), slots=3)
    for _ in range(5):
        flight.step()


@pytest.mark.parametrize("positions", [10, 34, 40, 66])
@torch.inference_mode()
def test_the_bytes_of_full_rows_are_those_foreseen(positions: int) -> None:
    spec = dataclasses.replace(SPEC, max_positions=positions)
    model, cache = decoder(spec), PagedCache(spec, slots=7)
    cache.extend(read(model, torch.ones((1, 3), dtype=torch.long)), torch.zeros(7, dtype=torch.long))
    for _ in range(3, positions):
        model(torch.ones((7, 1), dtype=torch.long), cache=cache)
    assert cache.n_bytes == 7 * bytes_per_row(spec)
