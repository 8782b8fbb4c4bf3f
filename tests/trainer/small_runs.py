"""The settings of runs that take a second: three digits, sixty prompts, a model that has just been warmed up."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {
    "threads": 1,
    "n_train_prompts": 60,
    "prompts_per_step": 6,
    "generations": 4,
    "warmup_steps": 30,
    "warmup_batch": 32,
    "warmup_lr": 5e-3,
    "eval_prompts": 10,
    "n_digits": 3,
}
