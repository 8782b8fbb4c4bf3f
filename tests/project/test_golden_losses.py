"""Ten steps of four recipes: their losses stand in ``golden_losses.json``, so a change of any number shows.

After a change that is meant, write them again: ``python tests/project/test_golden_losses.py --renew``.

A run samples tokens: where another processor rounds otherwise, a token flips and the next losses are other ones. The
runs are therefore made in a process of their own that uses the instructions that every x86 processor has.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).with_name("golden_losses.json")
SAME_EVERYWHERE = {"ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}
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


def losses_of_all() -> dict[str, list[float]]:
    """The losses of each recipe, in this process."""
    from rlscaling.trainer import make_config, train

    found = {}
    for recipe in RECIPES:
        rows = train(make_config(recipe, **FIXED)).rows
        found[recipe] = [round(row["loss"], 8) for row in rows if row["kind"] == "train"]
    return found


def losses_anywhere() -> dict[str, list[float]]:
    """The same in a process that rounds as every x86 processor does."""
    environment = {**os.environ, **SAME_EVERYWHERE}
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the kept losses are those of x86")
def test_losses_of_ten_steps() -> None:
    kept, found = json.loads(GOLDEN.read_text()), losses_anywhere()
    for recipe in RECIPES:
        assert found[recipe] == pytest.approx(kept[recipe], rel=2e-3, abs=1e-5), recipe


if __name__ == "__main__":
    if "--renew" in sys.argv:
        GOLDEN.write_text(json.dumps(losses_anywhere(), indent=1) + "\n")
    else:
        print(json.dumps(losses_of_all()))
