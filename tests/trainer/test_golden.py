"""Ten steps of four recipes: their losses stand in ``golden_losses.json``, so a change of any number shows.

After a change that is meant, write them again: ``python tests/trainer/test_golden.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlscaling.trainer import make_config, train

GOLDEN = Path(__file__).with_name("golden_losses.json")
RECIPES = ("scalerl", "grpo", "dapo", "gspo")
FIXED = {
    "threads": 1,
    "steps": 10,
    "checkpoint_every": 0,
    "n_train_prompts": 400,
    "n_digits": 4,
    "d_model": 16,
    "d_ff": 32,
    "rope_theta": 100.0,
    "prompts_per_step": 16,
    "generations": 8,
    "lr": 1e-3,
    "lr_warmup": 4,
    "adam_beta2": 0.95,
    "warmup_steps": 60,
    "warmup_batch": 64,
    "warmup_lr": 5e-3,
    "eval_every": 10,
    "eval_prompts": 16,
    "eval_samples": 2,
}


def losses(recipe: str) -> list[float]:
    rows = train(make_config(recipe, **FIXED)).rows
    return [row["loss"] for row in rows if row["kind"] == "train"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_losses_of_ten_steps(recipe: str) -> None:
    # other processors round otherwise; a sampled token that flips would show in the fourth digit
    assert losses(recipe) == pytest.approx(json.loads(GOLDEN.read_text())[recipe], rel=2e-3, abs=1e-5)


if __name__ == "__main__":
    GOLDEN.write_text(
        json.dumps({recipe: [round(x, 8) for x in losses(recipe)] for recipe in RECIPES}, indent=1) + "\n"
    )
