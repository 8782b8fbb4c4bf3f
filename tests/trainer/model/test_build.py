"""The seed decides the weights."""

from __future__ import annotations

import dataclasses

import torch

from rlscaling.trainer.model.build import build_model
from rlscaling.trainer.settings.make import make_config
from rlscaling.trainer.tasks.make import make_task


def test_the_seed_decides_the_weights() -> None:
    config = make_config(n_train_prompts=600)
    task = make_task(config)
    torch.manual_seed(77)
    first = build_model(config, task)
    after = torch.rand(1)
    torch.manual_seed(77)
    assert torch.equal(after, torch.rand(1)), "the caller's generator was touched"
    again = build_model(config, task)
    other = build_model(dataclasses.replace(config, seed=1), task)
    assert torch.equal(first.embed_tokens.weight, again.embed_tokens.weight)
    assert not torch.equal(first.embed_tokens.weight, other.embed_tokens.weight)
    assert 20_000 < sum(weight.numel() for weight in first.parameters()) < 30_000
