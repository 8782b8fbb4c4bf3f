"""`make_config`: a recipe plus changes, checked; nothing here imports torch.

``make_config("scalerl", steps=200)`` looks up the recipe, applies the overrides, fills in what follows from other
fields, and raises an error for combinations that cannot run, before any compute is spent.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.checks import (
    check_combinations,
    check_fields,
    check_task,
    check_text,
    nearest,
    with_pretrained,
)
from rlscaling.trainer.settings.config import FIELDS, TrainConfig
from rlscaling.trainer.settings.recipes import DEFAULT_SOURCES, RECIPES
from rlscaling.trainer.settings.task_constants import PHRASE_LENGTH, SOLUTION_EXTRA, TEXT_TASK, answer_length

FREE = ("steps", "checkpoint_every")
"""Fields that a resume may change."""

PATHS = ("data", "downstream", "model_path")
"""Fields that say where files lie: a run is identified by their content instead."""

_TASK_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "addition": {"n_digits": 2, "warmup_steps": 200, "warmup_lr": 3e-3},
    "addition, thinking": {"n_digits": 2, "warmup_steps": 300, "warmup_lr": 3e-3, "rope_theta": 1e4},
    "modular": {"warmup_steps": 100, "warmup_lr": 3e-3},
    "sort+modular": {"warmup_steps": 75},
    "text": {
        "n_train_prompts": 0,
        "thinking_budget": 1024,
        "lr": 5e-7,  # [ScaleRL, A.3]
        "warmup_steps": 0,
        "eval_prompts": 1000,  # [ScaleRL, 2.1]
    },
}
"""Fields whose default depends on the task: as hard as the small model bears, warmed up until it is right at times."""


def make_config(recipe: str = "scalerl", **overrides: Any) -> TrainConfig:
    """Return the settings of a run: a recipe, some fields changed, everything checked.

    Parameters
    ----------
    recipe
        A name in ``RECIPES``.
    **overrides
        Fields of ``TrainConfig``.

    Returns
    -------
    TrainConfig
        With the defaults of its task, and the lengths that 0 leaves to the task filled in. Without a thinking
        budget a recipe's length control becomes ``"none"``, since nothing can be too long then; set
        explicitly, it is an error.

    Raises
    ------
    TrainError
        For an unknown recipe or field, or settings that cannot run together.

    Examples
    --------
    >>> make_config("dapo", steps=10).clip_high
    0.26
    >>> make_config(temprature=0.7)
    Traceback (most recent call last):
    rlscaling.trainer.errors.TrainError: there is no field 'temprature' (did you mean temperature?); `python -m
    rlscaling.trainer --help` lists them
    """
    check_recipe(recipe)
    for name in overrides:
        if name not in FIELDS or name == "recipe":
            raise TrainError(
                f"there is no field {name!r}{nearest(name, FIELDS)}; `python -m rlscaling.trainer --help` lists them"
            )
    overrides = with_pretrained(overrides)
    task = str(overrides.get("task", FIELDS["task"].default))
    thinks = bool(overrides.get("thinking_budget")) and task != TEXT_TASK
    defaults = _TASK_DEFAULTS.get(task + ", thinking" * thinks, {})
    fields = {**RECIPES[recipe].fields, **defaults, **overrides}
    if not fields.get("thinking_budget") and "length_control" not in overrides:
        fields["length_control"] = "none"
    return _checked(TrainConfig(recipe=recipe, **fields))


def check_recipe(name: str) -> None:
    """Check that there is a recipe of this name.

    Raises
    ------
    TrainError
        When there is none, with the names that there are.
    """
    if name not in RECIPES:
        raise TrainError(f"recipe {name!r} is unknown{nearest(name, RECIPES)}; known are {', '.join(RECIPES)}")


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the fields as JSON holds them."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(config).items()}


def from_dict(fields: Mapping[str, Any]) -> TrainConfig:
    """Return the settings that ``to_dict`` wrote.

    Raises
    ------
    TrainError
        For fields that this version does not know, and for settings that cannot run.
    """
    for name in fields:
        if name not in FIELDS:
            raise TrainError(f"there is no field {name!r}{nearest(name, FIELDS)}; written by another version?")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return _checked(TrainConfig(**values))


def config_hash(config: TrainConfig, sources: Sequence[str] = ()) -> str:
    """Return 16 hexadecimal digits that differ when two runs cannot be one: all but steps and checkpoints counts.

    Parameters
    ----------
    config
        The settings.
    sources
        What the files of data and model hold: where these lie does not matter.
    """
    free = (*FREE, *(PATHS if any(sources) else ()))
    fields: dict[str, Any] = {k: v for k, v in to_dict(config).items() if k not in free}
    if any(sources):
        fields["sources"] = list(sources)
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def recipe_table(recipes: Iterable[str] = RECIPES, *, every: bool = False) -> list[dict[str, Any]]:
    """Return one row per recipe and field: recipe, field, value, source.

    Parameters
    ----------
    recipes
        Names in ``RECIPES``.
    every
        All fields instead of those that [ScaleRL] speaks of; 0 is a value that follows from the task.
    """
    rows = []
    for name in recipes:
        recipe = RECIPES[name]
        for field in FIELDS.values():
            source = recipe.source.get(field.name) or DEFAULT_SOURCES.get(field.name)
            if field.name != "recipe" and (source or every):
                value = recipe.fields.get(field.name, field.default)
                rows.append({"recipe": name, "field": field.name, "value": value, "source": source or "ours"})
    return rows


def _checked(config: TrainConfig) -> TrainConfig:
    check_fields(config)
    check_text(config)
    if not config.is_text:
        check_task(config)
    config = _resolved(config)
    check_combinations(config)
    return config


def _longest(config: TrainConfig) -> int:
    """Return the length that the longest completion needs."""
    if config.is_text:
        return config.thinking_budget + config.solution_tokens
    longest = max(answer_length(name, config.n_digits) for name in config.domains)
    if config.thinks:
        longest = max(longest, config.thinking_budget + PHRASE_LENGTH + config.n_digits + SOLUTION_EXTRA)
    return longest


def _resolved(config: TrainConfig) -> TrainConfig:
    """Fill in what 0 leaves to the task."""
    longest = config.max_new_tokens or _longest(config)
    changes: dict[str, Any] = {"max_new_tokens": longest}
    if config.length_control == "interruption" and config.interrupt_window == (0, 0):
        budget = config.thinking_budget
        changes["interrupt_window"] = (max(1, round(budget * 10 / 12)), budget)
    if config.length_control == "penalty":
        top = config.penalty_max or longest
        changes |= {"penalty_max": top, "penalty_cache": config.penalty_cache or max(1, round(top / 7))}
    return dataclasses.replace(config, **changes)
