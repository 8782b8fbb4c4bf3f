"""Settings made of a recipe and changes, as JSON and back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from helpers.small_runs import THINKING_BUDGET
from helpers.text_runs import config_of
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.make import config_hash, from_dict, make_config, to_dict


def test_json_round_trip_and_hash() -> None:
    config = make_config("loo-lp", **THINKING_BUDGET, seed=3)
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


def test_the_settings_survive_the_header(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "template.txt").write_text("Q: {problem}\nA: {think}")
    config = config_of(folder, prompt_template=f"@{tmp_path / 'template.txt'}")
    assert config.prompt_template == "Q: {problem}\nA: {think}"
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config
    assert (config.d_model, config.n_layers, config.tied_head, config.task) == (32, 2, True, "text")
    assert config.max_new_tokens == 16 + 40
