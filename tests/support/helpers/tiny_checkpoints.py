"""Tiny model folders in Hugging Face's layout: random weights of each family, and a tokenizer of words."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.4,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"rope_parameters": PLAIN, "rms_norm_eps": 1e-5}),
    "llama 3.1": ("Llama", {"rope_parameters": LLAMA3}),
    "llama, wide heads": ("Llama", {"rope_parameters": PLAIN, "head_dim": 16}),
    "qwen2": ("Qwen2", {"rope_parameters": {**PLAIN, "rope_theta": 1e6}}),
    "qwen2.5, tied": ("Qwen2", {"rope_parameters": {**PLAIN, "rope_theta": 1e6}, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"rope_parameters": {**PLAIN, "rope_theta": 1e6}, "head_dim": 12, "tie_word_embeddings": True}),
}


def write_model(
    folder: Path, family: str = "qwen2", *, shard: str = "50GB", dtype: str = "float32", **changes: Any
) -> Any:
    """Write a model of random weights as transformers does; return transformers' model, in evaluation mode."""
    import torch
    import transformers

    name, own = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **own, **changes})
    torch.manual_seed(len(family))
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for key, weight in model.named_parameters():
        if "norm" in key or "bias" in key:  # ones and zeros would hide what forgets them
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=shard)
    return model


def edit_config(folder: Path, **changes: Any) -> None:
    """Change fields of ``config.json``; None removes one."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def word_problems() -> Any:
    """The module of ``examples/word_problems.py``, which writes problems and a tiny model."""
    spec = importlib.util.spec_from_file_location("word_problems", EXAMPLES / "word_problems.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHORT: dict[str, Any] = {
    "k": 4,
    "threads": 1,
    "prompt_template": "{problem}{think}",
    "thinking_budget": 16,
    "solution_tokens": 40,
    "held_out_share": 0.1,
    "prompts_per_step": 6,
    "generations": 4,
    "eval_prompts": 12,
    "eval_samples": 2,
    "eval_every": 4,
    "lr": 5e-4,
}
"""Settings of runs on the word problems that take seconds."""
