"""The warm-up lowers the loss."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.small_runs import small_config
from rlscaling.trainer.training.run_state import RunState
from rlscaling.trainer.training.warmup import supervised_warmup


@pytest.mark.parametrize("changes", [{}, {"task": "addition", "n_digits": 2, "thinking_budget": 8}, {"dtype": "bf16"}])
def test_warmup_lowers_the_loss(changes: dict[str, Any]) -> None:
    losses = []
    for steps in (1, 40):
        config = small_config(**changes, warmup_steps=steps)
        run = RunState.new(config)
        losses.append(supervised_warmup(run.learner.model, run.learner.task, config))
    assert losses[1] < 0.8 * losses[0]
