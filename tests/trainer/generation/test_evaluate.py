"""mean@n: its error, its repeatability, its memory, its own noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.generators import generator_of, same, setting
from helpers.ragged_completions import check_same
from helpers.small_runs import small_config
from rlscaling.trainer import rng
from rlscaling.trainer.generation.evaluate import evaluate, evaluation_slots, generate_all, mean_at_n
from rlscaling.trainer.generation.generator import Generator, Sampling
from rlscaling.trainer.generation.paged_cache import PagedCache
from rlscaling.trainer.model.build import build_model
from rlscaling.trainer.settings.make import make_config
from rlscaling.trainer.tasks.make import make_task
from rlscaling.trainer.training.run_state import RunState


def test_evaluation_returns_every_completion_in_order() -> None:
    _, task, model = setting(task="sort+modular", n_digits=4)
    prompts = task.heldout_prompts(30)
    rollouts = generate_all(model, task, prompts, 3, seed=0)
    assert [(r.group, r.sample) for r in rollouts] == [(i, j) for i in range(60) for j in range(3)]
    assert all(rollout.prompt is prompts[rollout.group] for rollout in rollouts)


def test_evaluation_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _, task, model = setting()
    whole = generate_all(model, task, task.heldout_prompts(20), 4, seed=0)
    monkeypatch.setattr("rlscaling.trainer.generation.evaluate.MAX_EVALUATION_ROWS", 12)
    assert same(whole, generate_all(model, task, task.heldout_prompts(20), 4, seed=0), 1e-5)


def test_evaluation_shares_no_noise_with_training() -> None:
    _, task, model = setting()
    generator = Generator(task, Sampling(rng.key_of(0), 4))
    prompts = task.heldout_prompts(20)
    generator.start([(i, prompt, 4) for i, prompt in enumerate(prompts)])
    assert not same(generator.advance(model, 0), generate_all(model, task, prompts, 4, seed=0), 1.0)


def test_hidden_digits_score_exactly_in_evaluation_only() -> None:
    """A completion is right for one hidden digit in ten: 0.1 in evaluation, 0 or 1 in training."""
    config, task, model = setting(n_digits=2, n_train_prompts=8, eval_prompts=8, prompts_per_step=4, hidden_share=0.5)
    scores = {r.correct for r in generate_all(model, task, task.heldout_prompts(8), 512, seed=0) if r.prompt.hidden}
    assert scores == {0.0, 0.1}
    generator = generator_of(config, task, 512)
    generator.start([(i, task.train_prompt(i), 512) for i in range(8)])
    hidden = [rollout for rollout in generator.advance(model, 0) if rollout.prompt.hidden]
    assert {(r.correct, r.reward) for r in hidden} == {(0.0, -1.0), (1.0, 1.0)}


def test_mean_at_n_against_numpy(rng: np.random.Generator) -> None:
    correct = (rng.random((40, 8)) < rng.random((40, 1))).astype(float)
    rate, error = mean_at_n(correct)
    assert rate == pytest.approx(np.mean([row.mean() for row in correct]))
    assert error == pytest.approx(math.sqrt(sum(np.var(row, ddof=1) / 8 for row in correct)) / 40)
    assert mean_at_n(correct[:, :1])[1] is None


def test_standard_error_is_that_of_repeated_evaluations(rng: np.random.Generator) -> None:
    p = rng.random((50, 1))
    rates, errors = zip(*(mean_at_n((rng.random((50, 8)) < p).astype(float)) for _ in range(400)), strict=True)
    assert np.mean(errors) == pytest.approx(np.std(rates), rel=0.1)


def test_evaluation_repeats_and_its_seed_matters() -> None:
    config = small_config(task="sort+modular")
    run = RunState.new(config)
    first, again, other = (
        evaluate(run.learner.model, run.learner.task, run.heldout, config, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert [(result.domain, result.n_prompts, result.n_samples) for result in first] == [
        ("sort", 10, 3),
        ("modular", 10, 3),
    ]
    assert all(0 <= result.mismatch < 1e-5 for result in first)


def test_evaluation_decodes_no_more_rows_than_its_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(make_config(n_train_prompts=600))
    model = build_model(make_config(n_train_prompts=600), task)
    whole = generate_all(model, task, task.heldout_prompts(20), 4, seed=0)
    monkeypatch.setattr("rlscaling.trainer.generation.evaluate.MAX_EVALUATION_BYTES", 13 * 2816 + 100)
    assert evaluation_slots(model.spec) == 13
    seen = []
    real = PagedCache.begin
    monkeypatch.setattr(PagedCache, "begin", lambda cache, n: (seen.append(len(cache)), real(cache, n))[1])
    parts = generate_all(model, task, task.heldout_prompts(20), 4, seed=0)
    assert max(seen) == 13
    check_same(parts, whole)
