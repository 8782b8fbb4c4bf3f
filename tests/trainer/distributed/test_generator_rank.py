"""Shares of an evaluation are the evaluation."""

from __future__ import annotations

from helpers.small_runs import SMALL
from rlscaling.trainer import make_config
from rlscaling.trainer.distributed.generator_rank import share_of
from rlscaling.trainer.generation.evaluate import evaluation_seed, generate_all, heldout_rollouts
from rlscaling.trainer.training.run_state import RunState


def test_shares_of_an_evaluation_are_the_evaluation() -> None:
    config = make_config(**{**SMALL, "eval_samples": 3})
    run = RunState.new(config)
    seed = evaluation_seed(config, 5)
    whole = generate_all(run.learner.model, run.learner.task, run.heldout, 3, seed=seed)
    shares = [share_of(len(run.heldout), i, 4) for i in range(4)]
    assert [len(share) for share in shares] == [2, 3, 2, 3]
    parts = []
    for share in shares:
        prompts = [run.heldout[i] for i in share]
        parts += heldout_rollouts(run.learner.model, run.learner.task, prompts, config, seed=seed, numbers=share)
    assert [(r.group, r.sample, r.tokens.tolist()) for r in parts] == [
        (r.group, r.sample, r.tokens.tolist()) for r in whole
    ]
