"""Sampling in flight: replays, interruption, truncation, compaction, and a state that survives a restart."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from helpers.generators import by_name, generator_of, same, setting
from rlscaling.trainer import rng
from rlscaling.trainer.generation.generator import Generator, Sampling
from rlscaling.trainer.generation.rollout import Rollout
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.model.decoder import Decoder

THINKING: dict[str, Any] = {"task": "addition", "thinking_budget": 12, "n_train_prompts": 600}


def replayed(model: Decoder, rollout: Rollout, temperature: float) -> np.ndarray[Any, Any]:
    """Log-probabilities of a completion from one forward pass without a cache."""
    read = torch.tensor([*rollout.prompt.ids, *rollout.tokens.tolist()])
    with torch.no_grad():
        hidden = model(read[None, :-1])[0, len(rollout.prompt.ids) - 1 :]
        logp, _ = ops.token_logprobs(model.logits(hidden), torch.tensor(rollout.tokens), temperature)
    return logp.numpy()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.6},
        {"head_dtype": "bf16"},
        {"n_experts": 4},
        {"task": "sort+modular", "n_digits": 4},
        THINKING,
    ],
)
def test_recorded_log_probabilities_are_those_of_a_forward_pass(fields: dict[str, Any]) -> None:
    config, task, model = setting(**fields)
    generator = generator_of(config, task)
    generator.start([(i, task.train_prompt(i), 4) for i in range(10)])
    rollouts = generator.advance(model, 0)
    assert len(rollouts) == 40
    assert generator.n_live == 0
    for rollout in rollouts:
        expected = replayed(model, rollout, config.temperature)
        # a bf16 head may round the last bit of a hidden state either way
        np.testing.assert_allclose(
            rollout.logp[rollout.sampled],
            expected[rollout.sampled],
            atol=1e-5 if config.head_dtype == "fp32" else 5e-2,
        )


def test_rollouts_do_not_depend_on_what_is_sampled_beside_them() -> None:
    config, task, model = setting(**THINKING)
    together = generator_of(config, task)
    together.start([(i, task.train_prompt(i), 4) for i in range(8)])
    apart = []
    for i in range(8):
        alone = generator_of(config, task)
        alone.start([(i, task.train_prompt(i), 4)])
        apart += alone.advance(model, 0)
    assert same(together.advance(model, 0), apart, 1e-5)


def test_groups_that_start_late_join_the_rows_in_flight() -> None:
    config, task, model = setting(**THINKING)
    at_once, late = generator_of(config, task), generator_of(config, task)
    groups = [(i, task.train_prompt(i), 4) for i in range(6)]
    at_once.start(groups)
    rollouts = []
    for group in groups:
        late.start([group])
        rollouts += late.advance(model, 0, 2)
    rollouts += late.advance(model, 0)
    assert same(at_once.advance(model, 0), rollouts, 1e-5)


def test_the_seed_and_the_group_decide_the_tokens() -> None:
    _, task, model = setting()

    def tokens(seed: int, group: int) -> list[list[int]]:
        generator = Generator(task, Sampling(rng.key_of(seed), 4))
        generator.start([(group, task.train_prompt(0), 4)])
        return [rollout.tokens.tolist() for rollout in generator.advance(model, 0)]

    assert tokens(0, 0) == tokens(0, 0)
    assert tokens(0, 0) != tokens(1, 0)
    assert tokens(0, 0) != tokens(0, 1)
    assert len({tuple(t) for t in tokens(0, 0)}) > 1


def test_every_token_knows_its_version_and_a_stale_cache_is_kept() -> None:
    """New weights go into completions in flight; keys of earlier tokens stay those of the old weights."""
    config, task, model = setting()
    generator = generator_of(config, task)
    generator.start([(i, task.train_prompt(i), 4) for i in range(6)])
    newer = copy.deepcopy(model)
    with torch.no_grad():
        for weight in newer.parameters():
            weight.mul_(1.3)
    rollouts = generator.advance(model, 5, 3) + generator.advance(newer, 6)
    full = [rollout for rollout in rollouts if len(rollout.tokens) == 5]
    assert full
    for rollout in full:
        assert rollout.version.tolist() == [5, 5, 5, 6, 6]
        old, new = replayed(model, rollout, 1.0), replayed(newer, rollout, 1.0)
        np.testing.assert_allclose(rollout.logp[:3], old[:3], atol=1e-5)
        assert np.abs(rollout.logp[3:] - new[3:]).max() > 1e-5, "the whole cache was recomputed"
        assert np.abs(rollout.logp[3:] - old[3:]).max() > 1e-5, "the new weights were not used"


def test_interruption_puts_the_phrase_into_the_window() -> None:
    config, task, model = setting(**THINKING)
    low, high = config.interrupt_window
    generator = generator_of(config, task)
    generator.start([(i, task.train_prompt(i), 4) for i in range(64)])
    at = []
    for rollout in generator.advance(model, 0):
        tokens, phrase = rollout.tokens.tolist(), list(task.phrase)
        forced = np.flatnonzero(~rollout.sampled).tolist()
        assert rollout.interrupted == bool(forced)
        assert rollout.length == len(tokens) - len(forced)
        if forced:
            assert forced == list(range(forced[0], forced[0] + len(phrase)))
            assert [tokens[i] for i in forced] == phrase
            assert task.think_end_id not in tokens[: forced[0]], "it had stopped by itself"
            assert not rollout.logp[forced].any()
            at.append(forced[0])
        elif task.think_end_id in tokens:
            assert tokens.index(task.think_end_id) <= high
    assert set(at) == set(range(low, high + 1)), "every length of the window is drawn"


def test_truncation_is_counted_where_a_completion_may_go_on() -> None:
    config, task, model = setting(**{**THINKING, "length_control": "none"})
    generator = generator_of(config, task)
    generator.start([(i, task.train_prompt(i), 4) for i in range(64)])
    rollouts = generator.advance(model, 0)
    for rollout in rollouts:
        ended = rollout.tokens[-1] == task.eos_id
        assert rollout.truncated == (not ended)
        assert ended or len(rollout.tokens) == config.max_new_tokens
        assert task.eos_id not in rollout.tokens[:-1]
    assert 0 < np.mean([rollout.truncated for rollout in rollouts]) < 1
    fixed = setting()
    other = generator_of(fixed[0], fixed[1])
    other.start([(0, fixed[1].train_prompt(0), 8)])
    assert not any(rollout.truncated for rollout in other.advance(fixed[2], 0))


@pytest.mark.parametrize("calls", [0, 1, 5, 9])
def test_a_restart_changes_nothing(calls: int) -> None:
    """State saved between calls, rows in flight and rows still unread alike, goes on bit for bit."""
    config, task, model = setting(**THINKING)
    whole, first, second = (generator_of(config, task) for _ in range(3))
    early, late = ([(i, task.train_prompt(i), 4) for i in part] for part in (range(5), range(5, 7)))
    expected = []
    for generator, out in ((whole, expected), (first, rollouts := [])):
        generator.start(early)
        out += generator.advance(model, 0, calls)
        generator.start(late)
    second.load_state_dict(copy.deepcopy(first.state_dict()), model)
    assert second.n_live == whole.n_live
    expected += whole.advance(model, 1)
    rollouts += second.advance(model, 1)
    assert same(expected, rollouts)
    assert [r.version.tolist() for r in by_name(expected)] == [r.version.tolist() for r in by_name(rollouts)]
    assert (second.n_sampled, second.n_prefilled) == (whole.n_sampled, whole.n_prefilled)
    assert second.n_sampled == sum(rollout.length for rollout in expected)
