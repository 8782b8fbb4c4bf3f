"""Everything a run depends on, in one flat frozen object; nothing here imports torch.

``make_config("scalerl", steps=200)`` is the door: it looks up the recipe, applies the overrides, fills in what follows
from other fields, and refuses combinations that cannot run before any compute is spent.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlscaling.trainer.checks import (
    BASE_TASKS,
    PHRASE_LENGTH,
    SOLUTION_EXTRA,
    TEXT_TASK,
    answer_length,
    check_combinations,
    check_fields,
    check_task,
    nearest,
)
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.recipes import DEFAULT_SOURCES, RECIPES, Recipe
from rlscaling.trainer.text_checks import TIME_UP, check_text, with_pretrained
from rlscaling.trainer.text_data import parse_sources

__all__ = [
    "RECIPES",
    "Recipe",
    "TrainConfig",
    "check_recipe",
    "config_hash",
    "from_dict",
    "make_config",
    "recipe_table",
    "to_dict",
]

FREE = ("steps", "checkpoint_every")
"""Fields that a resume may change."""

PATHS = ("data", "downstream", "model_path")
"""Fields that say where files lie: what these hold counts instead."""

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


def _field(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices})


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The settings of one run. Every field is an option of the command line, and its help is in its metadata."""

    # the run
    recipe: str = _field("scalerl", "recipe that the other fields started from")
    seed: int = _field(0, "seed of the initial weights, the order of the prompts and every sampled token")
    device: str = _field("cpu", "device of generation and training", ("cpu", "cuda"))
    threads: int = _field(2, "CPU threads of torch; their number changes the last bits of a sum")
    steps: int = _field(2000, "optimizer steps")
    checkpoint_every: int = _field(100, "steps between checkpoints; 0 writes none")

    # the task
    task: str = _field("hidden-sort", f"{', '.join(BASE_TASKS)}, two of them joined by +; text: the problems of data")
    n_train_prompts: int = _field(6400, "training prompts; an epoch visits each once (text: 0 takes all)")
    n_digits: int = _field(5, "digits to sort, or of each number to add")
    hidden_share: float = _field(0.4, "share of hidden-sort prompts in which one digit is hidden")
    thinking_budget: int = _field(0, "tokens an addition or text may think; 0 answers at once")
    max_new_tokens: int = _field(0, "longest completion; 0 lets the task decide")

    # problems from files (task text)
    data: str = _field("", "files of problems (.jsonl, .parquet), each a domain: math=a.jsonl,b.parquet")
    downstream: str = _field("", "files of problems that are only evaluated, named as in data")
    held_out_share: float = _field(0.05, "share of the problems that is never trained on, chosen by their text alone")
    prompt_tokens: int = _field(1024, "longest prompt; longer ones are left out, and counted")
    solution_tokens: int = _field(256, "longest solution after the thinking")
    prompt_template: str = _field("", "text with {problem} and {think}, or @FILE; empty: our own")
    think_start: str = _field("<think>", "marker that begins thinking: {think} of the template")
    think_end: str = _field("</think>", "marker that ends thinking")
    time_up: str = _field(TIME_UP, "what a forced interruption says before the marker that ends thinking")
    check_timeout: float = _field(5.0, "seconds that comparing two answers may take; then the answer is wrong")

    # the model
    model_path: str = _field("", "folder of a pretrained model (Llama, Qwen2, Qwen3); the sizes below are then its own")
    d_model: int = _field(32, "width")
    n_layers: int = _field(2, "layers")
    n_heads: int = _field(4, "query heads")
    n_kv_heads: int = _field(2, "key and value heads, shared by groups of query heads")
    d_ff: int = _field(96, "inner width of the feed-forward blocks (of each expert)")
    tied_head: bool = _field(False, "use the embedding as head")
    head_dtype: str = _field("fp32", "precision of the logits, in generator and trainer alike", ("fp32", "bf16"))
    dtype: str = _field("fp32", "precision of the other weights; the optimizer keeps FP32 copies", ("fp32", "bf16"))
    n_experts: int = _field(0, "experts of each feed-forward block; 0 is a dense model")
    top_k_experts: int = _field(2, "experts that a token visits")
    load_balance: float = _field(0.01, "weight of the load-balance loss of a mixture of experts")
    rope_theta: float = _field(100.0, "base of the rotary position angles")

    # the algorithm [ScaleRL, 3]
    schedule: str = _field("pipeline", "PipelineRL-k or PPO-off-policy-k", ("pipeline", "ppo-off-policy"))
    k: int = _field(8, "steps that generation may be ahead (pipeline) or updates per batch (ppo-off-policy)")
    loss: str = _field("cispo", "policy loss", ("cispo", "dapo", "grpo", "gspo", "reinforce"))
    clip_low: float = _field(0.0, "the ratio is clipped below 1 - clip_low (cispo: no lower bound)")
    clip_high: float = _field(4.0, "the ratio is clipped above 1 + clip_high (cispo: above clip_high itself)")
    aggregation: str = _field("prompt", "what is averaged over", ("prompt", "sample", "token"))
    advantage_norm: str = _field("batch", "whose standard deviation divides", ("batch", "prompt", "none"))
    zero_variance: str = _field("drop", "prompts that are all right or all wrong", ("drop", "keep"))
    curriculum: str = _field("npr", "No-Positive-Resampling, or every prompt in every epoch", ("npr", "uniform"))
    npr_threshold: float = _field(0.9, "pass rate over all visits from which a prompt leaves the pool")
    length_control: str = _field("none", "what ends long thinking", ("interruption", "penalty", "none"))
    interrupt_window: tuple[int, int] = _field((0, 0), "thinking is ended after so many tokens; 0 0: from the budget")
    penalty_max: int = _field(0, "length at which the penalty reaches -1; 0: max_new_tokens")
    penalty_cache: int = _field(0, "tokens over which the penalty grows; 0: a seventh of penalty_max")
    prompts_per_step: int = _field(32, "prompts of an update")
    generations: int = _field(16, "completions of a prompt")
    micro_batch: int = _field(0, "completions per backward pass, whole prompts each; 0: all of the update at once")
    temperature: float = _field(1.0, "sampling temperature, in generator, trainer and evaluation")

    # the optimizer
    lr: float = _field(5e-4, "learning rate of AdamW, constant after the warm-up")
    lr_warmup: int = _field(100, "steps of linear warm-up")
    adam_beta1: float = _field(0.9, "decay of the first moment")
    adam_beta2: float = _field(0.999, "decay of the second moment")
    adam_eps: float = _field(1e-15, "AdamW's epsilon")
    weight_decay: float = _field(0.01, "decoupled weight decay")
    grad_clip: float = _field(1.0, "norm the gradient is clipped to; 0 leaves it")

    # the supervised warm-up
    warmup_steps: int = _field(60, "supervised steps before training")
    warmup_batch: int = _field(64, "examples of a supervised step")
    warmup_lr: float = _field(1e-3, "learning rate of the warm-up")

    # the evaluation
    eval_every: int = _field(40, "steps between evaluations; one more before the first step")
    eval_prompts: int = _field(512, "held-out prompts of each domain")
    eval_samples: int = _field(8, "completions of each held-out prompt")

    # the virtual clock: it decides who waits, and nothing measured enters it
    clock_generators: int = _field(4, "modelled devices that generate")
    clock_trainers: int = _field(1, "modelled devices that train")
    clock_decode_base: float = _field(1.0, "modelled time of a decoding call, whatever its rows")
    clock_decode_row: float = _field(0.01, "modelled time of a decoding call for each row")
    clock_update_token: float = _field(0.004, "modelled time of an update for each completion token")

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the tasks or data sets trained on."""
        return tuple(parse_sources(self.data, "data")) if self.is_text else tuple(self.task.split("+"))

    @property
    def is_text(self) -> bool:
        """Whether the problems come from files."""
        return self.task == TEXT_TASK

    @property
    def thinks(self) -> bool:
        """Whether completions may think before they answer."""
        return self.thinking_budget > 0

    @property
    def rollouts_per_step(self) -> int:
        """Completions of an update, before filters."""
        return self.prompts_per_step * self.generations


_FIELDS = {f.name: f for f in dataclasses.fields(TrainConfig)}


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
        budget a recipe's length control becomes ``"none"``, since nothing can be too long then; asked for
        explicitly, it is refused.

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
        if name not in _FIELDS or name == "recipe":
            raise TrainError(
                f"there is no field {name!r}{nearest(name, _FIELDS)}; `python -m rlscaling.trainer --help` lists them"
            )
    overrides = with_pretrained(overrides)
    task = str(overrides.get("task", _FIELDS["task"].default))
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
        if name not in _FIELDS:
            raise TrainError(f"there is no field {name!r}{nearest(name, _FIELDS)}; written by another version?")
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
        for field in _FIELDS.values():
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
