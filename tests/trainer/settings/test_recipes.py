"""Recipes against the axes of the paper, each field with its source."""

from __future__ import annotations

import dataclasses

import pytest

from helpers.small_runs import THINKING_BUDGET
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.make import make_config, recipe_table, to_dict
from rlscaling.trainer.settings.recipes import RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_runs_with_and_without_thinking(name: str) -> None:
    assert make_config(name).length_control == "none"
    thinking = make_config(name, **THINKING_BUDGET)
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
    ours, scalerl = make_config(name, **THINKING_BUDGET), make_config(**THINKING_BUDGET)
    together = {"recipe", "k", "clip_low", "clip_high", "interrupt_window", "penalty_max", "penalty_cache"}
    changed = {key for key, value in to_dict(ours).items() if value != to_dict(scalerl)[key]}
    assert len(changed - together) == 1


def test_every_leave_one_out_recipe_says_what_it_undoes() -> None:
    assert all(bool(recipe.change) == name.startswith("loo-") for name, recipe in RECIPES.items())
