"""Recipes against the axes of the paper, and every refusal of settings that cannot run."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from rlscaling.trainer.config import (
    RECIPES,
    TrainConfig,
    config_hash,
    from_dict,
    make_config,
    recipe_table,
    to_dict,
)
from rlscaling.trainer.errors import TrainError

THINKING = {"task": "addition", "thinking_budget": 24}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_runs_with_and_without_thinking(name: str) -> None:
    assert make_config(name).length_control == "none"
    thinking = make_config(name, **THINKING)
    assert thinking.length_control == RECIPES[name].fields["length_control"] != "none"


@pytest.mark.parametrize("name", RECIPES)
def test_every_field_of_a_recipe_has_a_source(name: str) -> None:
    recipe = RECIPES[name]
    assert set(recipe.fields) == set(recipe.source)
    assert set(recipe.fields) <= {field.name for field in dataclasses.fields(TrainConfig)}
    rows = recipe_table([name], every=True)
    assert all(row["source"] for row in rows)
    assert {row["field"] for row in rows} == {field.name for field in dataclasses.fields(TrainConfig)} - {"recipe"}
    named = {row["field"]: row["value"] for row in recipe_table([name])}
    assert named == {**named, **recipe.fields}


def test_axes_of_the_paper() -> None:
    """[ScaleRL, 3 and A.16], restated."""
    axes = ["schedule", "loss", "aggregation", "advantage_norm", "zero_variance", "curriculum", "head_dtype"]
    expected = {
        "scalerl": ("pipeline", "cispo", "prompt", "batch", "drop", "npr", "fp32"),
        "baseline": ("ppo-off-policy", "dapo", "sample", "prompt", "keep", "uniform", "bf16"),
        "grpo": ("ppo-off-policy", "grpo", "sample", "prompt", "keep", "uniform", "bf16"),
        "dapo": ("ppo-off-policy", "dapo", "prompt", "prompt", "drop", "uniform", "bf16"),
        "magistral": ("pipeline", "dapo", "prompt", "batch", "drop", "uniform", "bf16"),
        "minimax": ("ppo-off-policy", "cispo", "prompt", "prompt", "drop", "uniform", "fp32"),
    }
    for name, values in expected.items():
        assert tuple(getattr(make_config(name), axis) for axis in axes) == values, name
    assert [make_config(name).k for name in ("grpo", "baseline", "loo-8op", "magistral")] == [8, 8, 8, 8]
    assert (make_config("grpo").clip_low, make_config("grpo").clip_high) == (0.2, 0.2)
    assert (make_config("dapo").clip_low, make_config("dapo").clip_high) == (0.2, 0.26)
    assert make_config("scalerl").k == 8


def test_the_default_recipe_waits_for_its_generators() -> None:
    """A batch is generated more slowly than it is trained on, so k does not bind; for scalerl-lag8 it does."""
    for name, slower in (("scalerl", True), ("scalerl-lag8", False)):
        config = make_config(name)
        rows, length = config.rollouts_per_step, config.max_new_tokens
        generation = length * (config.clock_decode_base + config.clock_decode_row * rows / config.clock_generators)
        assert (generation > config.clock_update_token * rows * length) == slower


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("loo-")])
def test_leave_one_out_changes_one_axis(name: str) -> None:
    """Only the schedule brings its k along, and the loss its clip bounds."""
    ours, scalerl = make_config(name, **THINKING), make_config(**THINKING)
    together = {"recipe", "k", "clip_low", "clip_high", "interrupt_window", "penalty_max", "penalty_cache"}
    changed = {key for key, value in to_dict(ours).items() if value != to_dict(scalerl)[key]}
    assert len(changed - together) == 1


def test_json_round_trip_and_hash() -> None:
    config = make_config("loo-lp", **THINKING, seed=3)
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config
    assert config_hash(config) == config_hash(dataclasses.replace(config, steps=7, checkpoint_every=5))
    assert config_hash(config) != config_hash(dataclasses.replace(config, seed=4))
    with pytest.raises(TrainError, match=r"no field 'sede' \(did you mean seed.*\); written by another version"):
        from_dict({"sede": 1})


def test_lengths_follow_the_thinking_budget() -> None:
    """[ScaleRL, A.10]: interruption at 10/12 to 12/12 of the thinking budget; penalty over a seventh of L_max."""
    config = make_config(task="addition", thinking_budget=36, n_digits=3)
    assert config.interrupt_window == (30, 36)
    assert config.max_new_tokens == 36 + 2 + 3 + 2
    penalty = make_config("loo-lp", task="addition", thinking_budget=36, n_digits=3)
    assert (penalty.penalty_max, penalty.penalty_cache) == (43, 6)
    assert make_config().max_new_tokens == 5
    assert make_config(task="addition").max_new_tokens == 3


def test_defaults_of_a_task_yield_to_overrides() -> None:
    assert make_config(task="addition").n_digits == 2
    assert make_config(task="addition", n_digits=4).n_digits == 4
    assert make_config().n_digits == 5


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
        ({**THINKING, "max_new_tokens": 25}, r"max_new_tokens=25 leaves no room .* take at least 30"),
        (
            {**THINKING, "interrupt_window": (20, 30)},
            r"does not lie within thinking_budget=24; take such as \(20, 24\)",
        ),
        ({**THINKING, "recipe": "loo-lp", "penalty_cache": 99}, r"penalty_cache=99 is longer than penalty_max=30"),
        ({"max_new_tokens": 4}, r"max_new_tokens=4 is shorter than an answer of hidden-sort, 5 tokens"),
    ],
)
def test_refusals(settings: dict[str, object], message: str) -> None:
    with pytest.raises(TrainError, match=message):
        make_config(**settings)  # type: ignore[arg-type]


def test_config_imports_no_torch() -> None:
    code = "import sys, rlscaling.trainer.config; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
