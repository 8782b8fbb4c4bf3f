"""What is launched, and what is not."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from rlscaling.trainer.algorithm.losses import LOSSES, Clip
from rlscaling.trainer.kernels import reference
from rlscaling.trainer.kernels.compiled import Compiled


def test_a_loss_without_a_kernel_runs_in_plain_torch() -> None:
    own = dataclasses.replace(LOSSES["cispo"], name="own", kernel_kind=None)
    launches: list[Any] = []
    g = torch.Generator().manual_seed(0)
    logp, old_logp, advantage, weight = torch.randn(4, 20, generator=g)
    inputs = (logp, old_logp, advantage, weight.abs(), None, own, Clip(0.0, 2.0))
    terms = Compiled(lambda *launch: launches.append(launch)).policy_loss(*inputs)
    expected = reference.policy_loss(*inputs)
    assert not launches
    assert torch.equal(terms.value, expected.value)
    assert torch.equal(terms.slope, expected.slope)
