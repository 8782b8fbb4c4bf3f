"""AdamW with FP32 master weights."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from rlscaling.trainer.training.optimizer import Optimizer


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
