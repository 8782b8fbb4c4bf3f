"""``config.json``: what would be computed otherwise is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.tiny_checkpoints import LLAMA3, SIZES, edit_config
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.hf_config import read_architecture

UNSUPPORTED = [
    ({"model_type": "gemma2"}, "model_type 'gemma2' is not supported; take a dense model of llama, qwen2, qwen3"),
    ({"architectures": ["Qwen2ForSequenceClassification"]}, "architecture .*SequenceClassification.* is not supported"),
    ({"quantization_config": {"bits": 4}}, "quantised"),
    ({"use_sliding_window": True}, "sliding window"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding window"),
    ({"num_experts": 8}, "mixture of experts"),
    ({"hidden_act": "gelu"}, "activation is 'gelu'"),
    ({"attention_bias": True}, "attention_bias"),
    ({"mlp_bias": True}, "mlp_bias"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}, "type 'yarn' are not supported"),
    ({"rope_parameters": None, "rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}}, "'linear'"),
    ({"rope_parameters": None}, "rope_theta is None, not a positive number"),
    ({"rope_parameters": {**LLAMA3, "high_freq_factor": 0.5}}, "high_freq_factor must be above"),
    ({"hidden_size": "32"}, "hidden_size is '32', not a positive whole number"),
    ({"num_key_value_heads": 3}, "4 query heads, 3 key heads"),
]


@pytest.mark.parametrize(("changes", "match"), UNSUPPORTED, ids=[match for _, match in UNSUPPORTED])
def test_what_would_be_computed_otherwise_is_refused(changes: dict, match: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({**SIZES, "model_type": "qwen2", "rms_norm_eps": 1e-6, "rope_parameters": {"rope_theta": 1e4}})
    )
    read_architecture(tmp_path)
    edit_config(tmp_path, **changes)
    with pytest.raises(TrainError, match=match):
        read_architecture(tmp_path)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="is no folder"):
        read_architecture(tmp_path / "missing")
    with pytest.raises(TrainError, match="has no config.json"):
        read_architecture(tmp_path)
    for text, match in (("{", "cannot be read as JSON"), ("[]", "holds no JSON object")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(TrainError, match=match):
            read_architecture(tmp_path)
