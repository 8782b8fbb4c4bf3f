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

from rlscaling.trainer import TrainError, rng
from rlscaling.trainer.config import make_config
from rlscaling.trainer.evaluate import evaluation_slots, generate_all
from rlscaling.trainer.generate import Generator, Sampling
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.model import Decoder, ModelSpec, build_model
from rlscaling.trainer.pages import PagedCache
from rlscaling.trainer.prefill import at_once, piece, read_prompts
from rlscaling.trainer.rollout import Rollout
from rlscaling.trainer.tasks import Prompt, Score, make_task

VOCAB, LONGEST, MAX_POSITIONS, N = 12, 24, 64, 5
SPEC = ModelSpec(VOCAB, d_model=16, d_ff=16, max_positions=MAX_POSITIONS)


class Ragged:
    """Prompts of 1 to 40 tokens whose completions end at a limit of their own, or at the end token before it."""

    pad_id, eos_id, think_end_id, stop_ids = 0, 1, 2, (1,)
    phrase = (3, 2)
    max_new_tokens = LONGEST

    def train_prompt(self, i: int) -> Prompt:
        draw = np.random.default_rng([7, i])
        ids = tuple(draw.integers(2, VOCAB, int(draw.choice([1, 2, 5, 6, 40]))).tolist())
        limit = min(LONGEST, max(1, round(draw.lognormal(1.6, 1.0))))
        return Prompt(ids, "", "ragged", i, length=limit, fixed=False, thinks=bool(i % 2))

    def score(self, prompt: Prompt, completion: tuple[int, ...], u: float | None = None) -> Score:
        return Score(float(sum(completion) % 2), 1.0)


def decoder(spec: ModelSpec = SPEC, seed: int = 0) -> Decoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Decoder(spec)


def generator(slots: int | None = None, window: tuple[int, int] | None = (3, 6)) -> Generator:
    return Generator(Ragged(), Sampling(rng.key_of(3), N, window=window), slots=slots)  # type: ignore[arg-type]


@functools.cache
def alone(group: int, n: int) -> list[Rollout]:
    own = generator()
    own.start([(group, Ragged().train_prompt(group), n)])
    return own.advance(decoder(), 0)


def check_same(found: list[Rollout], expected: list[Rollout], logp_within: float = 1e-5) -> None:
    names = [(r.group, r.sample) for r in expected]
    assert sorted((r.group, r.sample) for r in found) == sorted(names), "each completion ends exactly once"
    by_name = {(r.group, r.sample): r for r in found}
    for want in expected:
        got = by_name[want.group, want.sample]
        assert got.tokens.tolist() == want.tokens.tolist()
        assert got.sampled.tolist() == want.sampled.tolist()
        assert (got.correct, got.truncated, got.interrupted) == (want.correct, want.truncated, want.interrupted)
        assert np.abs(got.logp - want.logp).max() <= logp_within


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
        patch.setattr("rlscaling.trainer.pages.PAGE", page)
        check_arrivals(plan, slots)


def check_arrivals(plan: list[tuple[list[int], int, bool]], slots: int | None) -> None:
    model, current, found, expected, group = decoder(), generator(slots), [], [], 0
    for sizes, calls, restart in plan:
        for n in sizes:
            current.start([(group, Ragged().train_prompt(group), n)])
            expected += alone(group, n)
            group += 1
        found += current.advance(model, 0, calls)
        if restart:
            state, current = through_a_file(current.state_dict()), generator(slots)
            current.load_state_dict(state, model)
        left = len(expected) - len(found)
        assert current.n_live == (left if slots is None else min(left, slots)), "a slot is empty while others wait"
    found += current.advance(model, 0)
    assert current.n_live == 0
    assert current.n_sampled == sum(rollout.length for rollout in expected)
    check_same(found, expected)


@pytest.mark.parametrize("page", [4, 64])
@pytest.mark.parametrize("slots", [3, 7, None])
def test_a_restart_at_any_call_is_bit_for_bit(slots: int | None, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlscaling.trainer.pages.PAGE", page)
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
    monkeypatch.setattr("rlscaling.trainer.pages.PAGE", page)
    model = decoder()
    clean, poisoned = generator(4), generator(4)
    found: tuple[list[Rollout], list[Rollout]] = ([], [])
    n_poisoned = 0
    for own in (clean, poisoned):
        own.start([(g, Ragged().train_prompt(g), N) for g in range(8)])
    while clean.n_live:
        for own, out in zip((clean, poisoned), found, strict=True):
            out += own.advance(model, 0, 1)
        cache = poisoned._cache
        if cache is not None:
            free = torch.from_numpy(cache._owner) < 0
            with torch.inference_mode():
                for part in (*cache.k, *cache.v):
                    n_poisoned += part[free].numel()
                    part[free] = poison
    assert n_poisoned > 0
    check_same(found[1], found[0], logp_within=0.0)


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


def test_a_prompt_is_read_once_for_completions_that_wait() -> None:
    model, own, prompt = decoder(), generator(2), Ragged().train_prompt(1)
    own.start([(1, prompt, N)])
    own.advance(model, 0)
    assert own.n_prefilled == len(prompt.ids)


def test_new_weights_read_a_prompt_again() -> None:
    """Completions that wait begin with the weights that sample them, so that their log-probabilities are of those."""
    old, new, own = decoder(), decoder(seed=1), generator(1, window=None)
    prompt = dataclasses.replace(Ragged().train_prompt(2), length=1)
    own.start([(2, prompt, 2)])
    (first,) = own.advance(old, 0, 1)
    (second,) = own.advance(new, 1, 1)
    assert own.n_prefilled == 2 * len(prompt.ids)
    for rollout, model in ((first, old), (second, new)):
        with torch.no_grad():
            logits = model.logits(model(torch.tensor([prompt.ids]))[0, -1:])
        expected, _ = ops.token_logprobs(logits, torch.tensor(rollout.tokens), 1.0)
        np.testing.assert_allclose(rollout.logp, expected.numpy(), atol=1e-5)


# --- memory ---------------------------------------------------------------------------------------------


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


def test_evaluation_decodes_no_more_rows_than_its_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(make_config(n_train_prompts=600))
    model = build_model(make_config(n_train_prompts=600), task)
    whole = generate_all(model, task, task.heldout_prompts(20), 4, seed=0)
    monkeypatch.setattr("rlscaling.trainer.evaluate.MAX_EVALUATION_BYTES", 13 * 2816 + 100)
    assert evaluation_slots(model.spec) == 13
    seen = []
    real = PagedCache.begin
    monkeypatch.setattr(PagedCache, "begin", lambda cache, n: (seen.append(len(cache)), real(cache, n))[1])
    parts = generate_all(model, task, task.heldout_prompts(20), 4, seed=0)
    assert max(seen) == 13
    check_same(parts, whole)


LENGTHS = (1, 3, 3, 9, 17, 30, 30, 31, 31, 60)


@pytest.mark.parametrize(("tokens", "scores", "longest"), [(8192, 2**22, 512), (60, 10**6, 7), (10**6, 400, 512)])
def test_prompts_of_any_length_are_read_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, tokens: int, scores: int, longest: int
) -> None:
    for name, value in (("MAX_TOKENS", tokens), ("MAX_SCORES", scores), ("MAX_PIECE", longest)):
        monkeypatch.setattr(f"rlscaling.trainer.prefill.{name}", value)
    model, draw = decoder(), np.random.default_rng(5)
    prompts = [tuple(draw.integers(2, VOCAB, length).tolist()) for length in draw.permutation(LENGTHS)]
    passes: list[tuple[int, int, int]] = []

    def note(_: Any, args: tuple[torch.Tensor], kwargs: dict[str, Any]) -> None:
        passes.append((*args[0].shape, kwargs["cache"].longest))

    model.register_forward_pre_hook(note, with_kwargs=True)
    seen = []
    with torch.no_grad():
        for reading in read_prompts(model, prompts, 0):
            for row, i in enumerate(reading.prompts):
                whole = decoder()(torch.tensor([prompts[i]]))[0, -1]
                torch.testing.assert_close(reading.hidden[row], whole, atol=1e-5, rtol=1e-4)
                assert int(reading.cache.positions[row]) == len(prompts[i])
                seen.append(i)
    assert sorted(seen) == list(range(len(prompts)))
    for rows, width, before in passes:
        assert width <= longest
        assert rows * width <= max(tokens, width)
        assert rows == 1 or rows * width * (before + width) <= scores
        assert width == 1 or width * (before + width) <= max(scores, width * width)


def test_pieces_keep_to_their_bounds() -> None:
    for length in (1, 6, 511, 512, 513, 4096, 8192, 131_072, 10**7):
        assert 1 <= piece(length) <= min(length, 512)
        assert at_once(length) >= 1
        if length <= 8192:
            assert piece(length) * at_once(length) * length <= 2**22


# --- what is refused ------------------------------------------------------------------------------------


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
