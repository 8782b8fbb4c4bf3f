"""Recipes as options of TRL and verl, with what the engine cannot do named axis by axis.

The engines: TRL's ``GRPOConfig`` (checked against TRL 1.16 as installed) and verl's hydra configuration (names as in
``verl/trainer/config/_generated_ppo_trainer.yaml`` of github.com/verl-project/verl at commit 01d4d766). Sizes are those
of the paper, not of the small models that the bundled trainer is made for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from rlscaling.trainer.algorithm.losses import LOSSES, Clip, Loss
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.make import check_recipe
from rlscaling.trainer.settings.recipes import RECIPES

PAPER = {"prompts": 48, "generations": 16, "lr": 5e-7, "prompt_tokens": 2048, "completion_tokens": 14336}
"""Batch, learning rate and lengths of [ScaleRL, 2 and A.3]; 12,288 + 2,048 tokens of thinking and solution."""
EVALUATED_EVERY = 100
"""Steps between evaluations, mean@16 on 1,000 prompts [ScaleRL, 2.1]."""

AXES = ("schedule", "ratio", "loss", "aggregation", "advantage_norm", "zero_variance", "truncation", "curriculum",
        "length_control", "head_dtype", "evaluation")  # fmt: skip
"""The axes of a recipe of which something may not be reproduced."""


@dataclasses.dataclass(frozen=True)
class Export:
    """A recipe in the options of an engine.

    Attributes
    ----------
    recipe, engine
        Their names.
    options
        Name of an option -> its value.
    missing
        Axis -> what the engine does instead, where that is not the same.
    """

    recipe: str
    engine: str
    options: Mapping[str, Any]
    missing: Mapping[str, str]

    def __str__(self) -> str:
        return ENGINES[self.engine].text(self)


@dataclasses.dataclass(frozen=True)
class Engine:
    """An engine: what it is, its options of a recipe, how they are written."""

    about: str
    options: Callable[[TrainConfig], dict[str, Any]]
    missing: Callable[[TrainConfig], dict[str, str]]
    text: Callable[[Export], str]


def export_recipe(recipe: str, engine: str) -> Export:
    """Return a recipe in the options of an engine.

    Parameters
    ----------
    recipe
        A name in ``RECIPES``.
    engine
        ``"trl"`` or ``"verl"``.

    Raises
    ------
    TrainError
        For an unknown recipe or engine.

    Examples
    --------
    >>> export_recipe("dapo", "trl").options["epsilon_high"]
    0.26
    >>> print(export_recipe("loo-plan", "verl").missing["aggregation"])
    verl has no average over prompts: token-mean weighs every token of the batch the same
    """
    check_recipe(recipe)
    if engine not in ENGINES:
        raise TrainError(f"engine {engine!r} is unknown; choose one of {', '.join(ENGINES)}")
    config = TrainConfig(recipe=recipe, **RECIPES[recipe].fields)
    missing = ENGINES[engine].missing(config)
    return Export(
        recipe, engine, ENGINES[engine].options(config), {axis: missing[axis] for axis in AXES if axis in missing}
    )


def _loss_and_clip(config: TrainConfig) -> tuple[Loss, Clip]:
    return LOSSES[config.loss], Clip(config.clip_low, config.clip_high)


def _batches(config: TrainConfig) -> int:
    """Return how many updates are taken on the completions of one generation phase."""
    return config.k if config.schedule == "ppo-off-policy" else 1


# --- TRL --------------------------------------------------------------------------------------------------------

_TRL_SCALES = {"batch": "batch", "prompt": "group", "none": "none"}


def _trl_options(config: TrainConfig) -> dict[str, Any]:
    prompts, generations = PAPER["prompts"], PAPER["generations"]
    loss, clip = _loss_and_clip(config)
    options = {
        # one prompt's completions at a time; on N processes divide gradient_accumulation_steps by N
        "per_device_train_batch_size": generations,
        "gradient_accumulation_steps": prompts,
        "steps_per_generation": prompts * _batches(config),
        "num_generations": generations,
        "num_iterations": 1,
        "max_completion_length": PAPER["completion_tokens"],
        "temperature": config.temperature,
        "beta": 0.0,
        "loss_type": loss.trl.name or ("grpo" if config.aggregation == "sample" else "dapo"),  # names the average
        "importance_sampling_level": "sequence" if loss.per_sequence else "token",
        **loss.trl.clips(clip),
        "scale_rewards": _TRL_SCALES[config.advantage_norm],
        "mask_truncated_completions": True,
        "cast_lm_head_to_fp32": config.head_dtype == "fp32",
    }
    return options | {
        "learning_rate": PAPER["lr"],
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": config.lr_warmup,
        "adam_beta1": config.adam_beta1,
        "adam_beta2": config.adam_beta2,
        "adam_epsilon": config.adam_eps,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.grad_clip,
        "eval_strategy": "steps",
        "eval_steps": EVALUATED_EVERY,
        "num_generations_eval": 16,
        "per_device_eval_batch_size": 16,
    }


def _trl_missing(config: TrainConfig) -> dict[str, str]:
    missing = {
        "ratio": "TRL's ratio is to the trainer's own log-probabilities of the completions; with vLLM it adds a "
        "correction of its own (vllm_importance_sampling_correction)",
        "evaluation": "TRL evaluates the mean reward (eval_reward), not the pass rate, on the eval_dataset given: pass "
        "1,000 held-out prompts, and rlscaling.trace_callback for the trace",
    }
    if config.schedule == "pipeline":
        missing["schedule"] = (
            f"GRPOTrainer does not stream completions: a step waits for its own batch (k = 0 instead of {config.k}); "
            "trl.experimental.async_grpo has max_staleness, with another loss"
        )
    elif config.k > 1:
        missing["schedule"] = f"the completions of {config.k} updates are shuffled: a prompt's may be split among them"
    if config.aggregation == "prompt":
        missing["aggregation"] = "TRL has no average over prompts: every token of the batch weighs the same"
    elif config.aggregation == "sample" and (name := LOSSES[config.loss].trl.name):
        missing["aggregation"] = (
            f"TRL's {name.upper()} has no average over completions: every token of the batch weighs the same"
        )
    elif config.aggregation == "token" and config.advantage_norm == "none":
        missing["aggregation"] = "token average, as the recipe here; loss_type='dr_grpo' is Dr. GRPO's own constant"
    if config.advantage_norm == "batch":
        missing["advantage_norm"] = (
            "TRL divides by the standard deviation of the raw rewards of the generation batch, not of the centred ones"
        )
    if config.zero_variance == "drop":
        missing["zero_variance"] = "TRL keeps prompts without variance: they add nothing, but stay in the denominators"
    return missing | _neither_has(config, "TRL") | _trl_head(config)


def _trl_head(config: TrainConfig) -> dict[str, str]:
    if config.head_dtype != "fp32":
        return {}
    return {"head_dtype": "cast_lm_head_to_fp32 holds for the trainer and for generation by transformers, not for vLLM"}


def _neither_has(config: TrainConfig, engine: str) -> dict[str, str]:
    """Return what no engine has."""
    missing = {}
    if config.curriculum == "npr":
        missing["curriculum"] = (
            f"{engine} has no No-Positive-Resampling: every prompt returns in every epoch; leave mastered ones "
            f"(pass rate {config.npr_threshold:g} or more) out of the data between epochs"
        )
    if config.length_control == "interruption":
        missing["length_control"] = f"{engine} does not interrupt thinking: what is too long is truncated"
    elif config.length_control == "penalty":
        penalty = {
            "TRL": "trl.rewards.get_soft_overlong_punishment(max_completion_len=14336, soft_punish_cache=2048)",
            "verl": "the overlong buffer of its dapo reward manager",
        }[engine]
        missing["length_control"] = f"{penalty} is added to all completions, here to right ones only"
    return missing


def _trl_text(export: Export) -> str:
    lines = [f"# {export.recipe} for TRL 1.16", "from trl import GRPOConfig", "", "args = GRPOConfig("]
    lines += [f"    {name}={value!r}," for name, value in export.options.items()]
    return "\n".join([*lines, ")", *_comments(export)])


# --- verl -------------------------------------------------------------------------------------------------------

_VERL_AVERAGES = {"sample": "seq-mean-token-mean", "prompt": "token-mean", "token": "token-mean"}
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def _verl_options(config: TrainConfig) -> dict[str, Any]:
    batch_norm = config.advantage_norm == "batch"
    loss, clip = _loss_and_clip(config)
    options: dict[str, Any] = {
        "data.train_batch_size": PAPER["prompts"] * _batches(config),
        "data.max_prompt_length": PAPER["prompt_tokens"],
        "data.max_response_length": PAPER["completion_tokens"],
        "data.filter_overlong_prompts": True,
        "algorithm.adv_estimator": "reinforce_plus_plus_baseline" if batch_norm else "grpo",
        "algorithm.norm_adv_by_std_in_grpo": config.advantage_norm == "prompt",
        "algorithm.use_kl_in_reward": False,
        f"{_ACTOR}.use_kl_loss": False,
        f"{_ACTOR}.entropy_coeff": 0,
        f"{_ACTOR}.ppo_mini_batch_size": PAPER["prompts"],
        f"{_ACTOR}.ppo_epochs": 1,
        f"{_ACTOR}.policy_loss.loss_mode": loss.verl.name,
        **{f"{_ACTOR}.{name}": value for name, value in loss.verl.clips(clip).items()},
        f"{_ACTOR}.loss_agg_mode": _VERL_AVERAGES[config.aggregation],
    }
    return options | {
        f"{_ACTOR}.optim.lr": PAPER["lr"],
        f"{_ACTOR}.optim.lr_scheduler_type": "constant",
        f"{_ACTOR}.optim.lr_warmup_steps": config.lr_warmup,
        f"{_ACTOR}.optim.betas": [config.adam_beta1, config.adam_beta2],
        f"{_ACTOR}.optim.weight_decay": config.weight_decay,
        f"{_ACTOR}.optim.override_optimizer_config": {"eps": config.adam_eps},
        f"{_ACTOR}.grad_clip": config.grad_clip,
        f"{_ROLLOUT}.n": PAPER["generations"],
        f"{_ROLLOUT}.temperature": config.temperature,
        f"{_ROLLOUT}.val_kwargs.n": 16,
        f"{_ROLLOUT}.val_kwargs.do_sample": True,
        f"{_ROLLOUT}.val_kwargs.temperature": config.temperature,
        "trainer.test_freq": max(1, round(EVALUATED_EVERY / _batches(config))),
    }


def _verl_missing(config: TrainConfig) -> dict[str, str]:
    missing = {
        "ratio": "verl's ratio is to log-probabilities that the trainer computes when a batch begins, not to those of "
        "the generator",
        "truncation": "verl keeps truncated completions in the loss, with the reward that they got",
    }
    if config.schedule == "pipeline":
        missing["schedule"] = (
            f"main_ppo does not stream completions: each step waits for its own batch (k = 0 instead of {config.k}); "
            "trainer.v1.trainer_mode=separate_async with trainer.v1.sampler.max_off_policy_threshold comes nearest"
        )
    if config.aggregation == "prompt":
        missing["aggregation"] = "verl has no average over prompts: token-mean weighs every token of the batch the same"
    elif config.aggregation == "token" and config.advantage_norm == "none":
        missing["aggregation"] = "token average, as the recipe here; seq-mean-token-sum-norm is Dr. GRPO's own constant"
    if config.advantage_norm == "batch":
        missing["advantage_norm"] = (
            "reinforce_plus_plus_baseline whitens over all tokens of the generation batch: long completions weigh "
            "more, and the mean over tokens is taken off"
        )
    if config.zero_variance == "drop":
        missing["zero_variance"] = (
            "prompts without variance stay in the denominators; algorithm.filter_groups samples others instead"
        )
    if config.head_dtype == "fp32":
        missing["head_dtype"] = "verl has no FP32 head: logits are those of a bf16 product, in trainer and generator"
    if _batches(config) > 1:
        every = f"batches of {_batches(config)} updates: about {EVALUATED_EVERY} updates"
        missing["evaluation"] = f"test_freq counts {every}"
    return missing | _neither_has(config, "verl")


def hydra(value: Any) -> str:
    """Return a value as hydra's command line takes it.

    Examples
    --------
    >>> hydra(True), hydra([0.9, 0.999]), hydra({"eps": 1e-15})
    ('true', '[0.9,0.999]', '{eps:1e-15}')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(hydra, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{hydra(inner)}" for key, inner in value.items()) + "}"
    return str(value)


def _verl_text(export: Export) -> str:
    overrides = [f"{name}={hydra(value)}" for name, value in export.options.items()]
    quoted = [f"'{override}'" if set(override) & set("[]{}") else override for override in overrides]
    lines = [f"# {export.recipe} for verl", "python3 -m verl.trainer.main_ppo \\"]
    return "\n".join([*lines, " \\\n".join(f"    {override}" for override in quoted), *_comments(export)])


def _comments(export: Export) -> list[str]:
    sizes = "the batch, the lengths and the learning rate are the paper's [ScaleRL, 2 and A.3]"
    lines = ["", f"# {sizes}", "# not reproduced:"]
    return lines + [f"#   {axis}: {text}" for axis, text in export.missing.items()]


ENGINES: Mapping[str, Engine] = {
    "trl": Engine("TRL 1.16, a GRPOConfig", _trl_options, _trl_missing, _trl_text),
    "verl": Engine("verl at commit 01d4d766, hydra overrides", _verl_options, _verl_missing, _verl_text),
}
"""Name -> engine."""
