"""Recipes in the options of TRL, against the installed TRL; and of verl, against the names that it publishes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from rlscaling.trainer.export.engines import AXES, ENGINES, PAPER, export_recipe
from rlscaling.trainer.settings.recipes import RECIPES

VERL = {
    "data": "train_batch_size max_prompt_length max_response_length filter_overlong_prompts",
    "algorithm": "adv_estimator norm_adv_by_std_in_grpo use_kl_in_reward",
    "actor_rollout_ref.actor": "use_kl_loss entropy_coeff ppo_mini_batch_size ppo_epochs clip_ratio_low "
    "clip_ratio_high clip_ratio_c loss_agg_mode grad_clip",
    "actor_rollout_ref.actor.policy_loss": "loss_mode",
    "actor_rollout_ref.actor.optim": "lr lr_scheduler_type lr_warmup_steps betas weight_decay "
    "override_optimizer_config",
    "actor_rollout_ref.rollout": "n temperature",
    "actor_rollout_ref.rollout.val_kwargs": "n do_sample temperature",
    "trainer": "test_freq",
}
"""Names in verl/trainer/config/_generated_ppo_trainer.yaml of github.com/verl-project/verl, commit 01d4d766."""
VERL_VALUES = {
    "algorithm.adv_estimator": {"grpo", "reinforce_plus_plus_baseline"},
    "actor_rollout_ref.actor.policy_loss.loss_mode": {"vanilla", "cispo", "gspo", "gpg"},
    "actor_rollout_ref.actor.loss_agg_mode": {"token-mean", "seq-mean-token-mean"},
}
"""Names in verl/trainer/ppo/core_algos.py, commit 018f23b5."""


@pytest.mark.trl
@pytest.mark.filterwarnings("ignore:.gradient_checkpointing. is deprecated:FutureWarning")  # a default of TRL's
@pytest.mark.parametrize("recipe", RECIPES)
def test_trl_takes_every_option(recipe: str, tmp_path: Path) -> None:
    import trl

    export = export_recipe(recipe, "trl")
    fields = {field.name for field in dataclasses.fields(trl.GRPOConfig)}
    assert set(export.options) <= fields
    # what a machine without a GPU needs to accept any settings at all
    config = trl.GRPOConfig(output_dir=str(tmp_path), bf16=False, use_cpu=True, report_to=[], **export.options)
    for name, value in export.options.items():
        assert getattr(config, name) == value, name
    updates = 8 if RECIPES[recipe].fields["schedule"] == "ppo-off-policy" else 1
    assert config.generation_batch_size == 48 * 16 * updates, "completions between two generations"


@pytest.mark.parametrize("recipe", RECIPES)
def test_verl_has_every_option(recipe: str) -> None:
    options = export_recipe(recipe, "verl").options
    verl_names = {f"{group}.{name}" for group, names in VERL.items() for name in names.split()}
    assert set(options) <= verl_names
    for name, values in VERL_VALUES.items():
        assert options[name] in values
    assert options["data.train_batch_size"] % options["actor_rollout_ref.actor.ppo_mini_batch_size"] == 0


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_choice_is_exported_or_named(recipe: str, engine: str) -> None:
    """Each axis of the recipe: what the engine cannot do is said, what it can do is not."""
    fields, missing = RECIPES[recipe].fields, export_recipe(recipe, engine).missing
    assert set(missing) <= set(AXES)
    assert ("curriculum" in missing) == (fields["curriculum"] == "npr")
    assert "length_control" in missing, "no engine interrupts, and their penalties are others"
    assert ("zero_variance" in missing) == (fields["zero_variance"] == "drop")
    assert ("advantage_norm" in missing) == (fields["advantage_norm"] == "batch")
    assert ("head_dtype" in missing) == (fields["head_dtype"] == "fp32")
    assert ("truncation" in missing) == (engine == "verl")
    if fields["aggregation"] == "prompt":
        assert "no average over prompts" in missing["aggregation"]
    if fields["schedule"] == "pipeline":
        assert f"k = 0 instead of {fields['k']}" in missing["schedule"]


CLIPS = [
    ("scalerl", {"loss_type": "cispo", "epsilon_high": 4.0}, ("cispo", 1.0, 3.0)),
    (
        "grpo",
        {"loss_type": "grpo", "epsilon": 0.2, "epsilon_high": 0.2, "scale_rewards": "group"},
        ("vanilla", 0.2, 0.2),
    ),
    ("dapo", {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.26}, ("vanilla", 0.2, 0.26)),
    ("gspo", {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-3}, ("gspo", 3e-3, 4e-3)),
    ("dr-grpo", {"loss_type": "dapo", "scale_rewards": "none"}, ("vanilla", 0.2, 0.2)),
    ("loo-fp32", {"cast_lm_head_to_fp32": False}, ("cispo", 1.0, 3.0)),
    ("loo-savg", {"loss_type": "cispo"}, ("cispo", 1.0, 3.0)),
]


@pytest.mark.parametrize(("recipe", "trl", "verl"), CLIPS, ids=[recipe for recipe, *_ in CLIPS])
def test_losses_and_clips(recipe: str, trl: dict[str, Any], verl: tuple[str, float, float]) -> None:
    assert trl.items() <= export_recipe(recipe, "trl").options.items()
    options, actor = export_recipe(recipe, "verl").options, "actor_rollout_ref.actor"
    names = ("policy_loss.loss_mode", "clip_ratio_low", "clip_ratio_high")
    assert tuple(options[f"{actor}.{name}"] for name in names) == verl


def test_the_cap_of_cispo_means_the_same_in_both() -> None:
    """TRL caps the ratio at epsilon_high, verl at 1 + clip_ratio_high."""
    cap = RECIPES["scalerl"].fields["clip_high"]
    assert export_recipe("scalerl", "trl").options["epsilon_high"] == cap
    assert 1 + export_recipe("scalerl", "verl").options["actor_rollout_ref.actor.clip_ratio_high"] == cap


@pytest.mark.trl
@pytest.mark.filterwarnings("ignore:.gradient_checkpointing. is deprecated:FutureWarning")
def test_the_text_is_python_and_shell(tmp_path: Path) -> None:
    import trl

    code = str(export_recipe("dapo", "trl")).replace("GRPOConfig(\n", "GRPOConfig(\n    use_cpu=True, bf16=False,\n")
    space: dict[str, Any] = {}
    exec(compile(code.replace("(\n", f"(\n    output_dir={str(tmp_path)!r},\n", 1), "dapo", "exec"), space)
    assert isinstance(space["args"], trl.GRPOConfig)
    assert space["args"].max_completion_length == PAPER["completion_tokens"]
    lines = str(export_recipe("dapo", "verl")).splitlines()
    command = [line for line in lines if line and not line.startswith("#")]
    assert command[0] == "python3 -m verl.trainer.main_ppo \\"
    assert all(line.endswith("\\") for line in command[:-1])
    assert not command[-1].endswith("\\")
    assert "    'actor_rollout_ref.actor.optim.override_optimizer_config={eps:1e-15}' \\" in command
