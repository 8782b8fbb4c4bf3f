"""Every refusal of settings that cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.small_runs import THINKING_BUDGET
from helpers.text_runs import config_of
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.make import make_config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"recipe": "scalrl"},
            r"recipe 'scalrl' is unknown \(did you mean scalerl.*\); known are scalerl, .*loo-npr",
        ),
        ({"temprature": 1.0}, r"no field 'temprature' \(did you mean temperature\?\)"),
        ({"loss": "ppo"}, r"loss='ppo' is unknown; choose one of cispo, dapo, grpo, gspo, reinforce"),
        ({"loss": "cipso"}, r"did you mean cispo\?"),
        ({"steps": 10.5}, r"steps=10.5 is not of type int; its default is 2000"),
        ({"steps": True}, r"steps=True is not of type int"),
        ({"lr": "fast"}, r"lr='fast' is not of type float"),
        ({"lr": float("nan")}, r"lr=nan is not a finite number"),
        ({"steps": -1}, r"steps=-1 is not a finite number from 0 up"),
        ({"temperature": 0.0}, r"temperature=0 leaves nothing to do"),
        ({"hidden_share": 1.5}, r"hidden_share=1.5 is above 1"),
        ({"interrupt_window": (1, 2, 3)}, r"interrupt_window=\(1, 2, 3\) is not a window"),
        ({"task": "sorting"}, r"task='sorting' is unknown \(did you mean sort\?\)"),
        ({"task": "sort+sort"}, r"join two different tasks"),
        ({"thinking_budget": 9}, r"thinking_budget=9 with task='hidden-sort': only addition thinks"),
        ({"n_digits": 3}, r"need 6912 different prompts of hidden-sort, which has 1000; lower one of them"),
        ({"eval_prompts": 3000}, r"eval_prompts=3000 is more than the 2048 held-out prompts"),
        ({"d_model": 36, "n_heads": 8}, r"a head needs an even whole width; take d_model a multiple of 16"),
        ({"n_heads": 4, "n_kv_heads": 3}, r"n_heads=4 is no multiple of n_kv_heads=3"),
        ({"n_experts": 2, "top_k_experts": 4}, r"top_k_experts=4 of n_experts=2; choose at most that many"),
        ({"micro_batch": 12}, r"micro_batch=12 does not divide 512 completions into whole prompts of 16"),
        (
            {"loss": "grpo", "clip_low": 0.2, "clip_high": 0.26},
            r"clip_low=0.2 and clip_high=0.26 with loss='grpo', which",
        ),
        ({"micro_batch": 24}, r"micro_batch=24 does not divide 512"),
        ({"generations": 1}, r"generations=1 leaves no group"),
        ({"n_train_prompts": 30}, r"n_train_prompts=30 is less than one batch of 32 prompts"),
        ({"recipe": "loo-8op", "n_train_prompts": 250}, r"less than one batch of 256 prompts"),
        ({"recipe": "baseline", "k": 0}, r"k=0 with schedule='ppo-off-policy'.*k=1 is on-policy"),
        ({"clip_high": 0.2}, r"clip_high=0.2 with loss='cispo' caps the ratio itself below 1; take 4, 5 or 8"),
        ({"recipe": "dapo", "clip_low": 1.2}, r"clip_low=1.2 with loss='dapo' is a distance from 1; take 0.2"),
        ({"length_control": "interruption"}, r"length_control='interruption' without a thinking budget"),
        ({"length_control": "penalty"}, r"length_control='penalty' without a thinking budget"),
        ({"task": "addition", "thinking_budget": 3}, r"thinking_budget=3 is too short for 2 digits"),
        ({**THINKING_BUDGET, "max_new_tokens": 25}, r"max_new_tokens=25 leaves no room .* take at least 30"),
        (
            {**THINKING_BUDGET, "interrupt_window": (20, 30)},
            r"does not lie within thinking_budget=24; take such as \(20, 24\)",
        ),
        (
            {**THINKING_BUDGET, "recipe": "loo-lp", "penalty_cache": 99},
            r"penalty_cache=99 is longer than penalty_max=30",
        ),
        ({"max_new_tokens": 4}, r"max_new_tokens=4 is shorter than an answer of hidden-sort, 5 tokens"),
    ],
)
def test_refusals(settings: dict[str, object], message: str) -> None:
    with pytest.raises(TrainError, match=message):
        make_config(**settings)  # type: ignore[arg-type]


REFUSED = [
    ({"model_path": ""}, "task='text' needs a pretrained model; set model_path"),
    ({"data": ""}, "task='text' needs problems to train on"),
    ({"task": "sort"}, r"data='words=.*' with task='sort', which makes its own problems"),
    ({"d_model": 64}, "d_model=64 beside model_path=.*: the checkpoint decides the sizes"),
    ({"n_experts": 4}, "n_experts=4 beside model_path"),
    ({"prompt_template": "{question}"}, r"must hold \{problem\} exactly once"),
    ({"prompt_template": "@missing.txt"}, "prompt_template='@missing.txt': the file cannot be read"),
    ({"think_end": ""}, "think_end='' with a thinking budget"),
    ({"held_out_share": 1.0}, "held_out_share=1 leaves nothing to train on"),
    ({"held_out_share": 0.0}, "held_out_share=0 leaves nothing to do"),
    ({"thinking_budget": 0, "length_control": "interruption"}, "without a thinking budget"),
    ({"interrupt_window": (4, 40)}, "does not lie within thinking_budget=16"),
    ({"max_new_tokens": 16}, "leaves no room for the solution"),
    ({"n_train_prompts": 5}, "n_train_prompts=5 is less than one batch of 6"),
]


@pytest.mark.parametrize(("changes", "match"), REFUSED, ids=[match for _, match in REFUSED])
def test_settings_that_cannot_run_are_refused_without_reading_data(folder: Path, changes: Any, match: str) -> None:
    with pytest.raises(TrainError, match=match):
        config_of(folder, **changes)
