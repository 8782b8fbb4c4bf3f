"""Optimizer, warm-up, evaluation, meter, and rollouts in a checkpoint."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rlscaling.trainer import TrainConfig, make_config
from rlscaling.trainer.evaluate import evaluate, mean_at_n
from rlscaling.trainer.meter import FlopModel, Meter
from rlscaling.trainer.optim import Optimizer
from rlscaling.trainer.policy import hidden_states, token_logp
from rlscaling.trainer.rollout import pack_rollouts, unpack_rollouts
from rlscaling.trainer.run import Run
from rlscaling.trainer.warmup import supervised_warmup
from small_runs import SMALL


def small(**changes: Any) -> TrainConfig:
    return make_config("scalerl", **{**SMALL, "eval_samples": 3, **changes})


# --- optimizer ------------------------------------------------------------------------------------------


def linear(dtype: torch.dtype = torch.float32, value: float = 0.02) -> nn.Linear:
    layer = nn.Linear(4, 1, bias=False, dtype=dtype)
    nn.init.constant_(layer.weight, value)
    return layer


def optimizer(layer: nn.Module, **changes: Any) -> Optimizer:
    settings: dict[str, Any] = {
        "lr": 1e-3,
        "warmup": 0,
        "betas": (0.9, 0.95),
        "eps": 1e-15,
        "weight_decay": 0.0,
        "clip": 1.0,
    }
    return Optimizer(layer, **{**settings, **changes})


def gradient(layer: nn.Linear, optimizer: Optimizer, value: float) -> None:
    layer.weight.grad = torch.full_like(layer.weight, value)
    optimizer.accumulate()


def test_bf16_weights_move_by_tiny_steps() -> None:
    """1,000 bf16 updates of 5e-7 leave 0.02 where it is; the FP32 copy moves by 5e-4, and bf16 follows."""
    layer = linear(torch.bfloat16)
    start = float(layer.weight.detach()[0, 0])
    adam = optimizer(layer, lr=5e-7)
    for _ in range(1000):
        gradient(layer, adam, 1.0)
        adam.step()
    assert float(adam.masters[0][0, 0].detach()) == pytest.approx(start - 5e-4, rel=1e-2)
    assert float(layer.weight.detach()[0, 0]) == pytest.approx(start - 5e-4, rel=4e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_clipping_keeps_the_direction_and_reports_the_norm_before(dtype: torch.dtype) -> None:
    layer = linear(dtype)
    adam = optimizer(layer, clip=0.5)
    gradient(layer, adam, 3.0)
    gradient_norm = adam.step()
    assert gradient_norm == pytest.approx(6.0)  # 4 entries of 3
    assert float(adam.adamw.state[adam.masters[0]]["exp_avg"].norm()) == pytest.approx(0.1 * 0.5, rel=1e-4)


def test_micro_batches_are_added_in_fp32() -> None:
    layer = linear(torch.bfloat16)
    adam = optimizer(layer, clip=0.0)
    gradient(layer, adam, 1.0)
    gradient(layer, adam, 0.001)  # lost in a bf16 sum
    assert adam.masters[0].grad is not None
    assert float(adam.masters[0].grad[0, 0]) == pytest.approx(1.001, rel=1e-5)


def test_rate_rises_linearly_and_stays() -> None:
    layer = linear()
    adam, rates = optimizer(layer, warmup=4), []
    for _ in range(6):
        gradient(layer, adam, 1.0)
        adam.step()
        rates.append(adam.adamw.param_groups[0]["lr"])
    assert rates == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3, 1e-3])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradient_that_is_no_number_changes_nothing(value: float) -> None:
    layer = linear()
    adam = optimizer(layer)
    gradient(layer, adam, value)
    assert not math.isfinite(adam.step())
    assert (layer.weight == 0.02).all()
    assert adam.steps == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_resumed_optimizer_takes_the_same_steps(dtype: torch.dtype) -> None:
    layer, other = linear(dtype), linear(dtype, 0.5)
    first, second = optimizer(layer, warmup=5), optimizer(other, warmup=5)
    for i in range(6):
        if i == 3:
            second.load_state_dict(first.state_dict())
        for pair in ((layer, first), (other, second)) if i >= 3 else ((layer, first),):
            gradient(*pair, float(i + 1))
            pair[1].step()
    assert torch.equal(layer.weight, other.weight)


# --- warm-up and evaluation -----------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"task": "addition", "n_digits": 2, "thinking_budget": 8}, {"dtype": "bf16"}])
def test_warmup_lowers_the_loss(changes: dict[str, Any]) -> None:
    losses = []
    for steps in (1, 40):
        config = small(**changes, warmup_steps=steps)
        run = Run(config)
        losses.append(supervised_warmup(run.model, run.task, config))
    assert losses[1] < 0.8 * losses[0]


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
    config = small(task="sort+modular")
    run = Run(config)
    first, again, other = (evaluate(run.model, run.task, run.heldout, config, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [(result.domain, result.n_prompts, result.n_samples) for result in first] == [
        ("sort", 10, 3),
        ("modular", 10, 3),
    ]
    assert all(0 <= result.mismatch < 1e-5 for result in first)


# --- meter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"tied_head": True}, {"n_digits": 5, "d_model": 64, "n_layers": 3}])
def test_flops_of_an_update_against_a_count(changes: dict[str, Any]) -> None:
    """torch counts the products of each operator that runs, attention spelled out as products too."""
    run = Run(small(**changes))
    rows, prompt, new = 6, run.task.prompt_length, run.task.max_new_tokens
    prompts = torch.randint(2, 9, (rows, prompt))
    tokens = torch.randint(2, 9, (rows, new))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        token_logp(run.model, prompts, tokens, torch.ones(rows, new, dtype=torch.bool)).sum().backward()
    model = FlopModel.of(run.model)
    # the backward pass of the lowest layer is counted whole: the embedding needs its gradient
    assert model.update(rows, prompt + new - 1, rows * new) == pytest.approx(counter.get_total_flops(), rel=1e-6)


def test_flops_of_a_forward_pass_of_experts_count_the_visited_ones() -> None:
    run = Run(small(n_experts=4))
    prompts, tokens = torch.randint(2, 9, (6, run.task.prompt_length)), torch.randint(2, 9, (6, 2))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        hidden_states(run.model, prompts, tokens, torch.ones(6, 2, dtype=torch.bool))
    model = FlopModel.of(run.model)
    assert model.forward(6, run.task.prompt_length + 1, 0) == pytest.approx(counter.get_total_flops(), rel=1e-6)


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


# --- rollouts -------------------------------------------------------------------------------------------


def test_packed_rollouts_come_back() -> None:
    run = Run(small(task="addition", n_digits=2, thinking_budget=8))
    groups = run.cluster.next_batch(run.model)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    back = unpack_rollouts(pack_rollouts(rollouts), run.task.train_prompt)
    for old, new in zip(rollouts, back, strict=True):
        for name in ("tokens", "logp", "sampled", "version"):
            assert np.array_equal(getattr(old, name), getattr(new, name))
        for name in ("group", "sample", "prompt", "truncated", "interrupted", "correct", "reward"):
            assert getattr(old, name) == getattr(new, name)
    assert unpack_rollouts(pack_rollouts([]), run.task.train_prompt) == []


def test_importing_the_trainer_imports_no_torch() -> None:
    script = "import sys, rlscaling.trainer as t; t.make_config('dapo'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
