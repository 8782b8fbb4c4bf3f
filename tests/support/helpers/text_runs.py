"""Settings of runs on word problems with a tiny pretrained model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from helpers.tiny_checkpoints import SHORT
from rlscaling.trainer import make_config
from rlscaling.trainer.settings.config import TrainConfig


def config_of(folder: Path, **changes: Any) -> TrainConfig:
    settings = {
        "model_path": str(folder / "tiny-qwen2"),
        "data": f"words={folder / 'train.jsonl'}",
        "downstream": f"harder={folder / 'harder.jsonl'}",
    }
    return make_config(**{**SHORT, **settings, **changes})


def copy_model(folder: Path, target: Path) -> str:
    shutil.copytree(folder / "tiny-qwen2", target)
    return str(target)


WARMED = {"warmup_steps": 120, "warmup_lr": 3e-3, "length_control": "none", "prompts_per_step": 12, "generations": 8,
          "eval_prompts": 30, "eval_samples": 4, "lr": 3e-4, "lr_warmup": 5}  # fmt: skip
