"""Rollouts in a checkpoint and in a batch."""

from __future__ import annotations

import numpy as np

from helpers.small_runs import SHORT_THINKING, short_config, small_config
from rlscaling.trainer.generation.rollout import collate, pack_rollouts, unpack_rollouts
from rlscaling.trainer.training.run_state import RunState


def test_collate_pads_and_masks() -> None:
    run = RunState.new(short_config(**SHORT_THINKING, length_control="interruption"))
    groups = run.cluster.next_batch(run.learner.model)
    batch = collate(groups, run.learner.task.pad_id)
    for i, rollout in enumerate(rollout for group in groups for rollout in group.rollouts):
        n = len(rollout.tokens)
        assert batch.tokens[i, :n].tolist() == list(rollout.tokens)
        assert (batch.tokens[i, n:] == run.learner.task.pad_id).all()
        assert batch.mask[i, :n].tolist() == list(rollout.sampled)
        assert not batch.mask[i, n:].any()
        assert (batch.version[i, n:] == -1).all()
        assert int(batch.length[i]) == rollout.length


def test_packed_rollouts_come_back() -> None:
    run = RunState.new(small_config(task="addition", n_digits=2, thinking_budget=8))
    groups = run.cluster.next_batch(run.learner.model)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    back = unpack_rollouts(pack_rollouts(rollouts), run.learner.task.train_prompt)
    for old, new in zip(rollouts, back, strict=True):
        for name in ("tokens", "logp", "sampled", "version"):
            assert np.array_equal(getattr(old, name), getattr(new, name))
        for name in ("group", "sample", "prompt", "truncated", "interrupted", "correct", "reward"):
            assert getattr(old, name) == getattr(new, name)
    assert unpack_rollouts(pack_rollouts([]), run.learner.task.train_prompt) == []
