"""Continuous batching: whatever arrives when, and however few the slots, each completion is what it is alone."""

from __future__ import annotations

import dataclasses
import functools
import io
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.ragged_completions import LONGEST, SPEC, N, Ragged, check_same, decoder, generator
from rlscaling.trainer import TrainError, rng
from rlscaling.trainer.generation.generator import Generator, Sampling
from rlscaling.trainer.generation.rollout import Rollout
from rlscaling.trainer.tasks.task import Prompt


@functools.cache
def sampled_alone(group: int, n: int) -> list[Rollout]:
    own = generator()
    own.start([(group, Ragged().train_prompt(group), n)])
    return own.advance(decoder(), 0)


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    loaded: dict[str, Any] = torch.load(buffer, weights_only=True)
    return loaded


arrivals = st.lists(
    st.tuples(st.lists(st.integers(1, N), max_size=4), st.integers(0, 6), st.booleans()), min_size=1, max_size=6
)


@settings(max_examples=40)
@given(arrivals, st.none() | st.integers(1, 9), st.sampled_from([1, 5, 32, 64]))
def test_any_arrivals_in_any_number_of_slots(
    plan: list[tuple[list[int], int, bool]], slots: int | None, page: int
) -> None:
    """Groups of any size arrive between any calls, some after a restart: nothing is lost, doubled or changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", page)
        check_arrivals(plan, slots)


def check_arrivals(plan: list[tuple[list[int], int, bool]], slots: int | None) -> None:
    model, current, rollouts, expected, group = decoder(), generator(slots), [], [], 0
    for sizes, calls, restart in plan:
        for n in sizes:
            current.start([(group, Ragged().train_prompt(group), n)])
            expected += sampled_alone(group, n)
            group += 1
        rollouts += current.advance(model, 0, calls)
        if restart:
            state, current = through_a_file(current.state_dict()), generator(slots)
            current.load_state_dict(state, model)
        left = len(expected) - len(rollouts)
        assert current.n_live == (left if slots is None else min(left, slots)), "a slot is empty while others wait"
    rollouts += current.advance(model, 0)
    assert current.n_live == 0
    assert current.n_sampled == sum(rollout.length for rollout in expected)
    check_same(rollouts, expected)


@pytest.mark.parametrize("page", [4, 64])
@pytest.mark.parametrize("slots", [3, 7, None])
def test_a_restart_at_any_call_is_bit_for_bit(slots: int | None, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", page)
    model, whole = decoder(), generator(slots)
    groups = [(g, Ragged().train_prompt(g), N) for g in range(6)]
    whole.start(groups)
    states, expected = [], []
    while whole.n_live:
        states.append((through_a_file(whole.state_dict()), len(expected)))
        expected += whole.advance(model, 0, 1)
    for state, n_before in states[:: max(1, len(states) // 8)]:
        again = generator(slots)
        again.load_state_dict(state, model)
        rest = again.advance(model, 0)
        assert [(r.group, r.sample) for r in rest] == [(r.group, r.sample) for r in expected[n_before:]]
        check_same(rest, expected[n_before:], logp_within=0.0)
        assert (again.n_sampled, again.n_prefilled) == (whole.n_sampled, whole.n_prefilled)


@pytest.mark.parametrize("page", [4, 64])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_a_page_remembers_nothing_of_its_last_row(poison: float, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without a row are filled with poison after every call; no completion differs by a bit."""
    monkeypatch.setattr("rlscaling.trainer.generation.paged_cache.PAGE", page)
    model = decoder()
    clean, poisoned = generator(4), generator(4)
    rollouts: tuple[list[Rollout], list[Rollout]] = ([], [])
    n_poisoned = 0
    for own in (clean, poisoned):
        own.start([(g, Ragged().train_prompt(g), N) for g in range(8)])
    while clean.n_live:
        for own, out in zip((clean, poisoned), rollouts, strict=True):
            out += own.advance(model, 0, 1)
        cache = poisoned._cache
        if cache is not None:
            free = torch.from_numpy(cache._owner) < 0
            with torch.inference_mode():
                for part in (*cache.k, *cache.v):
                    n_poisoned += part[free].numel()
                    part[free] = poison
    assert n_poisoned > 0
    check_same(rollouts[1], rollouts[0], logp_within=0.0)


def test_lognormal_lengths_take_few_calls() -> None:
    """64 slots, sigma 1: a static batch runs until its longest completion ends."""
    limits = np.random.default_rng(0).lognormal(np.log(4), 1.0, 4096).round().clip(1, 60).astype(int)
    task = Ragged()
    task.stop_ids, task.max_new_tokens = (-1,), 60
    own = Generator(task, Sampling(rng.key_of(0), 1), slots=64)  # type: ignore[arg-type]
    own.start([(i, Prompt((2, 3), "", "", i, length=int(limit)), 1) for i, limit in enumerate(limits)])
    model = decoder(dataclasses.replace(SPEC, n_layers=1))
    calls = 0
    while own.n_live:
        own.advance(model, 0, 1)
        calls += 1
    static = sum(part.max() for part in limits.reshape(-1, 64))
    assert calls <= 0.3 * static
    assert own.n_sampled == limits.sum()
    assert own.n_sampled / (64 * calls) >= 0.85


def test_the_cache_is_as_large_as_its_rows_need() -> None:
    """A model of 100,000 positions costs what its short rows use; more slots than rows cost nothing."""
    spec = dataclasses.replace(SPEC, max_positions=100_000)
    own = generator(1000)
    own.start([(g, Ragged().train_prompt(g), N) for g in range(4)])
    own.advance(decoder(spec), 0, 1)
    cache = own._cache
    assert cache is not None
    per_token = 2 * spec.n_layers * spec.n_kv_heads * spec.d_head * 4
    assert cache.n_bytes <= 4 * N * (40 + LONGEST) * per_token
    own.advance(decoder(spec), 0)
    assert own._cache is None, "nothing is kept when nothing is live"


def test_no_slots() -> None:
    with pytest.raises(TrainError, match=r"slots=0 decodes nothing; take at least 1"):
        generator(0)


def test_fewer_slots_than_rows_in_flight() -> None:
    model, own = decoder(), generator()
    own.start([(0, dataclasses.replace(Ragged().train_prompt(1), length=20), N)])
    own.advance(model, 0, 1)
    with pytest.raises(TrainError, match=r"3 rows are in flight and slots=2; go on with at least 3"):
        generator(2).load_state_dict(own.state_dict(), model)


PROMPT = Prompt((2, 3), "", "", 0, length=4)


@pytest.mark.parametrize(
    ("prompt", "n", "message"),
    [
        (PROMPT, 0, r"0 completions of group 7 leave nothing to sample"),
        (dataclasses.replace(PROMPT, ids=()), 1, r"the prompt of group 7 is empty"),
        (dataclasses.replace(PROMPT, length=0), 1, r"may have length=0 tokens; the task allows 1 to max_new_tokens=24"),
        (dataclasses.replace(PROMPT, length=25), 1, r"length=25 tokens"),
    ],
)
def test_groups_that_cannot_be_sampled(prompt: Prompt, n: int, message: str) -> None:
    own = generator()
    with pytest.raises(TrainError, match=message):
        own.start([(6, PROMPT, 1), (7, prompt, n)])
    assert own.n_live == 0, "all or nothing"


def test_a_group_that_is_in_flight() -> None:
    own = generator()
    with pytest.raises(TrainError, match=r"group 7 is in flight already"):
        own.start([(7, PROMPT, 2), (7, PROMPT, 2)])
    own.start([(7, PROMPT, 2)])
    with pytest.raises(TrainError, match=r"group 7 is in flight already"):
        own.start([(7, PROMPT, 2)])


def test_a_prompt_longer_than_the_model() -> None:
    own = generator()
    own.start([(7, dataclasses.replace(PROMPT, ids=(2,) * 61), 2)])
    message = r"the prompt of group 7 has 61 tokens and its completions up to 4; the model has max_positions=64"
    for _ in range(2):  # and it stays refused
        with pytest.raises(TrainError, match=message):
            own.advance(decoder(), 0)
