"""Time by role, and FLOPs against a count."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from helpers.small_runs import small_config
from rlscaling.trainer.model.scoring import hidden_states, token_logp
from rlscaling.trainer.training.meter import FlopModel, Meter
from rlscaling.trainer.training.run_state import RunState


@pytest.mark.parametrize("changes", [{}, {"tied_head": True}, {"n_digits": 5, "d_model": 64, "n_layers": 3}])
def test_flops_of_an_update_against_a_count(changes: dict[str, Any]) -> None:
    """torch counts the products of each operator that runs, attention spelled out as products too."""
    run = RunState.new(small_config(**changes))
    rows, prompt, new = 6, run.learner.task.prompt_length, run.learner.task.max_new_tokens
    prompts = torch.randint(2, 9, (rows, prompt))
    tokens = torch.randint(2, 9, (rows, new))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        token_logp(run.learner.model, prompts, tokens, torch.ones(rows, new, dtype=torch.bool)).sum().backward()
    model = FlopModel.of(run.learner.model)
    # the backward pass of the lowest layer is counted whole: the embedding needs its gradient
    assert model.update(rows, prompt + new - 1, rows * new) == pytest.approx(counter.get_total_flops(), rel=1e-6)


def test_flops_of_a_forward_pass_of_experts_count_the_visited_ones() -> None:
    run = RunState.new(small_config(n_experts=4))
    prompts, tokens = torch.randint(2, 9, (6, run.learner.task.prompt_length)), torch.randint(2, 9, (6, 2))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        hidden_states(run.learner.model, prompts, tokens, torch.ones(6, 2, dtype=torch.bool))
    model = FlopModel.of(run.learner.model)
    assert model.forward(6, run.learner.task.prompt_length + 1, 0) == pytest.approx(counter.get_total_flops(), rel=1e-6)


def test_flops_of_generation_by_hand() -> None:
    model = FlopModel(body=10, head=3, n_layers=2, width=4)
    # two prompts of 3 tokens, completions of 1 and 2: read once 6 tokens and 2 * 9 pairs, predict 2; then one token
    # is read, attends to 4, and predicts
    assert model.generation(2, 3, [1, 2]) == 2 * 10 * 6 + 2 * 3 * 2 + 4 * 2 * 4 * 18 + 2 * 13 + 4 * 2 * 4 * 4


def test_meter_adds_time_by_role_and_survives_a_checkpoint() -> None:
    meter = Meter(n_devices=2)
    with meter.time("train"):
        time.sleep(0.02)
    with meter.time("evaluate"):
        time.sleep(0.01)
    row = meter.columns("compute")
    assert row["compute"] == pytest.approx(2 * row["seconds_train"] / 3600)
    assert 0.02 <= row["seconds_train"] < 2
    assert row["eval_gpu_hours"] == pytest.approx(2 * row["seconds_evaluate"] / 3600)
    other = Meter(n_devices=2)
    other.load_state_dict(meter.state_dict())
    assert other.columns("compute")["compute"] == row["compute"]
    assert other.wall_time >= row["wall_time"]
