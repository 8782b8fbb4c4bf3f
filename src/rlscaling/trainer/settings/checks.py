"""Checks of the settings before any compute is spent: each error names the value, the reason and the remedy."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscaling.option_fields import OptionInfo, info_of
from rlscaling.trainer.algorithm.losses import LOSSES, Clip
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.hf_config import read_architecture
from rlscaling.trainer.settings.task_constants import (
    BASE_TASKS,
    HELD_OUT,
    PHRASE_LENGTH,
    SOLUTION_EXTRA,
    TEXT_TASK,
    answer_length,
    parse_sources,
    task_space,
)

if TYPE_CHECKING:
    from rlscaling.trainer.settings.config import TrainConfig


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean ...?)`` with the most alike names; nothing when none is alike."""
    close = difflib.get_close_matches(name, list(known), n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def check_fields(config: TrainConfig) -> None:
    """Check each field by itself: its type, its choices, its limits, as the field states them."""
    for field in dataclasses.fields(config):
        value, default = getattr(config, field.name), field.default
        _check_type(field.name, value, default)
        info = info_of(type(config), field.name)
        if info.choices and value not in info.choices:
            raise TrainError(
                f"{field.name}={value!r} is unknown{nearest(value, info.choices)}; choose one of "
                f"{', '.join(info.choices)}"
            )
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_limits(field.name, value, default, info)


def _check_type(name: str, value: Any, default: Any) -> None:
    wanted = type(default)
    if wanted is tuple:
        if not isinstance(value, tuple) or len(value) != 2 or any(type(v) is not int or v < 0 for v in value):
            raise TrainError(f"{name}={value!r} is not a window; pass two lengths, such as (28, 36)")
    elif type(value) is not wanted and not (wanted is float and type(value) is int):
        raise TrainError(f"{name}={value!r} is not of type {wanted.__name__}; its default is {default!r}")


def _check_limits(name: str, value: float, default: Any, info: OptionInfo) -> None:
    lowest = info.least if info.above is None else info.above
    assert lowest is not None, f"{name} has no lower limit"
    if not lowest <= value < math.inf:
        raise TrainError(f"{name}={value!r} is not a finite number from {lowest:g} up; its default is {default!r}")
    if value == info.above:
        raise TrainError(f"{name}={value:g} leaves nothing to do; its default is {default!r}")
    if info.most is not None and value > info.most:
        raise TrainError(f"{name}={value!r} is above {info.most:g}; it is a fraction, and its default is {default!r}")


def check_task(config: TrainConfig) -> None:
    """Check that there is such a task and that it has prompts enough."""
    names = config.domains
    if not config.n_train_prompts:
        raise TrainError("n_train_prompts=0 leaves nothing to do; its default is 6400")
    for name in names:
        if name not in BASE_TASKS:
            near = nearest(name, BASE_TASKS)
            choices = ", ".join(BASE_TASKS)
            raise TrainError(
                f"task={config.task!r} is unknown{near}; choose one of {choices}, two joined by +, or {TEXT_TASK}"
            )
    if len(names) > 2 or len(set(names)) < len(names):
        raise TrainError(f"task={config.task!r}: join two different tasks, such as sort+modular")
    if config.thinks and "addition" not in names:
        raise TrainError(
            f"thinking_budget={config.thinking_budget} with task={config.task!r}: only addition thinks; "
            "take task='addition' or leave the budget out"
        )
    if config.eval_prompts > HELD_OUT:
        raise TrainError(f"eval_prompts={config.eval_prompts} is more than the {HELD_OUT} held-out prompts of a task")
    for name in names:
        space = task_space(name, config.n_digits)
        share = config.n_train_prompts // len(names)
        if share + config.eval_prompts > space:
            raise TrainError(
                f"n_train_prompts={config.n_train_prompts} and eval_prompts={config.eval_prompts} need "
                f"{share + config.eval_prompts} different prompts of {name}, which has {space}; "
                "lower one of them or raise n_digits"
            )


def check_combinations(config: TrainConfig) -> None:
    """Check the fields against each other, the lengths of the task filled in."""
    _check_model(config)
    _check_batch(config)
    _check_length(config)


def _check_model(config: TrainConfig) -> None:
    if config.model_path:  # the sizes are those of its config.json, which has been checked
        return
    if config.d_model % config.n_heads or (config.d_model // config.n_heads) % 2:
        raise TrainError(
            f"d_model={config.d_model} with n_heads={config.n_heads}: a head needs an even whole width; "
            f"take d_model a multiple of {2 * config.n_heads}"
        )
    if config.n_heads % config.n_kv_heads:
        raise TrainError(
            f"n_heads={config.n_heads} is no multiple of n_kv_heads={config.n_kv_heads}; each key head serves a whole "
            "group of query heads"
        )
    if config.n_experts and config.top_k_experts > config.n_experts:
        raise TrainError(
            f"top_k_experts={config.top_k_experts} of n_experts={config.n_experts}; choose at most that many"
        )


def _check_batch(config: TrainConfig) -> None:
    rows, micro = config.rollouts_per_step, config.micro_batch
    if micro and (rows % micro or micro % config.generations):
        raise TrainError(
            f"micro_batch={micro} does not divide {rows} completions into whole prompts of {config.generations}; "
            f"take a multiple of {config.generations} that divides {rows}"
        )
    if config.generations < 2 and config.advantage_norm != "none":
        raise TrainError("generations=1 leaves no group to compare a completion with; take at least 2")
    batch = config.prompts_per_step * (max(1, config.k) if config.schedule == "ppo-off-policy" else 1)
    if config.n_train_prompts < batch and not (config.is_text and config.n_train_prompts == 0):
        raise TrainError(
            f"n_train_prompts={config.n_train_prompts} is less than one batch of {batch} prompts; "
            "raise it, or lower prompts_per_step"
        )
    if config.schedule == "ppo-off-policy" and config.k < 1:
        raise TrainError("k=0 with schedule='ppo-off-policy' is no update at all; k=1 is on-policy")
    LOSSES[config.loss].check_clip(Clip(config.clip_low, config.clip_high))


def _check_room(config: TrainConfig) -> None:
    """Check that thinking and answer fit."""
    budget = config.thinking_budget
    for name in () if config.is_text else config.domains:
        answer = answer_length(name, config.n_digits)
        if config.max_new_tokens < answer:
            raise TrainError(
                f"max_new_tokens={config.max_new_tokens} is shorter than an answer of {name}, {answer} tokens; "
                "leave it at 0 to let the task decide"
            )
    if config.thinks:
        if budget < 2 * config.n_digits and not config.is_text:
            raise TrainError(
                f"thinking_budget={budget} is too short for {config.n_digits} digits; take at least "
                f"{2 * config.n_digits}"
            )
        needed = 1 if config.is_text else config.n_digits + SOLUTION_EXTRA + PHRASE_LENGTH
        if config.max_new_tokens < budget + needed:
            raise TrainError(
                f"max_new_tokens={config.max_new_tokens} leaves no room for the solution after "
                f"thinking_budget={budget}; take at least {budget + needed}"
            )


def _check_length(config: TrainConfig) -> None:
    control, budget = config.length_control, config.thinking_budget
    if control != "none" and not config.thinks:
        raise TrainError(
            f"length_control={control!r} without a thinking budget: nothing can be too long; set thinking_budget "
            "(with task='addition' or text) or length_control='none'"
        )
    _check_room(config)
    if control == "interruption":
        low, high = config.interrupt_window
        if not 0 < low <= high <= budget:
            raise TrainError(
                f"interrupt_window={config.interrupt_window} does not lie within thinking_budget={budget}; "
                f"take such as ({max(1, round(budget * 10 / 12))}, {budget})"
            )
    if control == "penalty" and config.penalty_cache > config.penalty_max:
        raise TrainError(
            f"penalty_cache={config.penalty_cache} is longer than penalty_max={config.penalty_max}; the penalty would "
            "act from the first token"
        )


SIZES = ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "tied_head", "rope_theta")
"""Fields that a pretrained model decides."""
_OTHER_SIZES = ("n_experts", "top_k_experts")


def with_pretrained(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with those that follow from a pretrained model and from a template in a file.

    Raises
    ------
    TrainError
        When sizes are set beside a model, or the model cannot be used.
    """
    fields = dict(overrides)
    if fields.get("data") or fields.get("model_path"):
        fields.setdefault("task", TEXT_TASK)
    template = fields.get("prompt_template")
    if isinstance(template, str) and template.startswith("@"):
        fields["prompt_template"] = _template_file(Path(template[1:]))
    model = fields.get("model_path")
    if not isinstance(model, str) or not model:
        return fields
    for name in (*SIZES, *_OTHER_SIZES):
        if name in fields:
            raise TrainError(f"{name}={fields[name]!r} beside model_path={model!r}: the checkpoint decides the sizes")
    sizes = dataclasses.asdict(read_architecture(model))
    return fields | {name: sizes[name] for name in SIZES}


def _template_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TrainError(f"prompt_template='@{path}': the file cannot be read ({error})") from None


def check_text(config: TrainConfig) -> None:
    """Check the fields of the text task, and that no other task has them."""
    if not config.is_text:
        for name in ("data", "downstream", "model_path"):
            if getattr(config, name):
                raise TrainError(
                    f"{name}={getattr(config, name)!r} with task={config.task!r}, which makes its own problems and "
                    f"model; take task={TEXT_TASK!r} or leave it out"
                )
        return
    for name, what in (("data", "problems to train on: data=problems.jsonl"), ("model_path", "a pretrained model")):
        if not getattr(config, name):
            raise TrainError(f"task={TEXT_TASK!r} needs {what}; set {name}")
    both = set(parse_sources(config.data, "data")) & set(parse_sources(config.downstream, "downstream"))
    if both:
        raise TrainError(f"{sorted(both)[0]!r} names a domain of data and of downstream; give each a name of its own")
    if config.prompt_template and config.prompt_template.count("{problem}") != 1:
        raise TrainError(f"prompt_template={config.prompt_template!r} must hold {{problem}} exactly once")
    if config.thinks and not config.think_end:
        raise TrainError("think_end='' with a thinking budget: nothing would end the thinking; name its marker")
    if config.held_out_share >= 1:
        raise TrainError(f"held_out_share={config.held_out_share:g} leaves nothing to train on; take such as 0.05")
