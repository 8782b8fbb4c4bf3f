"""``config.json`` of a model folder in Hugging Face's layout: which decoder it describes, or why that is not supported.

Nothing here imports torch: a run that cannot work fails before anything heavy is loaded. Read are the dense
decoders of Llama, Qwen2 (with Qwen2.5) and Qwen3, as transformers 4 and 5 write them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlscaling.trainer.errors import TrainError

FAMILIES: Mapping[str, str] = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
"""``model_type`` -> the only architecture of that type that is read."""

_SIZES = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "max_position_embeddings",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Llama3Scaling:
    """How Llama 3.1 stretches the rotary positions."""

    factor: float
    low_frequency: float
    high_frequency: float
    original_positions: int


@dataclasses.dataclass(frozen=True)
class Architecture:
    """What a checkpoint is, in the names of ``ModelSpec``.

    Attributes
    ----------
    family
        ``"llama"``, ``"qwen2"`` or ``"qwen3"``.
    context
        Longest sequence that the model was made for, in tokens.
    """

    family: str
    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_ff: int
    head_width: int
    tied_head: bool
    norm_eps: float
    rope_theta: float
    rope_scaling: Llama3Scaling | None
    context: int

    @property
    def qkv_bias(self) -> bool:
        """Whether queries, keys and values have a bias."""
        return self.family == "qwen2"

    @property
    def qk_norm(self) -> bool:
        """Whether each head of queries and keys is normalised."""
        return self.family == "qwen3"


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises
    ------
    TrainError
        When the file is missing or holds no object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrainError(
            f"{path.parent} has no {path.name}, {what}; give a folder that save_pretrained wrote"
        ) from None
    except (OSError, ValueError) as error:
        raise TrainError(f"{path} cannot be read as JSON ({error}); copy the model folder again") from None
    if not isinstance(content, dict):
        raise TrainError(f"{path} holds no JSON object; copy the model folder again")
    return content


def read_architecture(folder: str | Path) -> Architecture:
    """Return what the ``config.json`` of a folder describes.

    Parameters
    ----------
    folder
        As transformers' ``save_pretrained`` writes it.

    Raises
    ------
    TrainError
        For anything that ``model/decoder.py`` would not compute exactly: other families, sliding windows, quantised
        weights, mixtures of experts, other scalings of the positions, other activations, further biases.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> sizes = {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> more = {"intermediate_size": 32, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 1e6}
    >>> _ = (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", **sizes, **more}))
    >>> read_architecture(folder).qkv_bias
    True
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise TrainError(f"model_path={str(folder)!r} is no folder; download the model, and give the folder")
    path = folder / "config.json"
    config = read_json(path, "which says what the model is")
    family = _family(config, path)
    _check_supported(config, path)
    theta, scaling = _rope(config, family, path)
    sizes = {name: _whole(config, name, path) for name in _SIZES}
    heads = sizes["num_attention_heads"]
    kv_heads = _whole(config, "num_key_value_heads", path) if config.get("num_key_value_heads") else heads
    default_width = sizes["hidden_size"] // heads if sizes["hidden_size"] % heads == 0 else 0
    width = _whole(config, "head_dim", path) if config.get("head_dim") else default_width
    if heads % kv_heads or width < 2 or width % 2:
        raise TrainError(
            f"{path}: {heads} query heads, {kv_heads} key heads and a head width of {width} do not go together; "
            "copy the file from the model's publisher again"
        )
    return Architecture(
        family=family, vocab_size=sizes["vocab_size"], d_model=sizes["hidden_size"],
        n_layers=sizes["num_hidden_layers"], n_heads=heads, n_kv_heads=kv_heads, d_ff=sizes["intermediate_size"],
        head_width=width, tied_head=bool(config.get("tie_word_embeddings", False)),
        norm_eps=_number(config, "rms_norm_eps", path), rope_theta=theta, rope_scaling=scaling,
        context=sizes["max_position_embeddings"],
    )  # fmt: skip


def _family(config: Mapping[str, Any], path: Path) -> str:
    family, known = config.get("model_type"), ", ".join(FAMILIES)
    if not isinstance(family, str) or family not in FAMILIES:
        raise TrainError(f"{path}: model_type {family!r} is not supported; take a dense model of {known}")
    names = config.get("architectures") or [FAMILIES[family]]
    if names != [FAMILIES[family]]:
        raise TrainError(
            f"{path}: the architecture {names!r} is not supported; a policy is a language model, {FAMILIES[family]}"
        )
    return family


def _check_supported(config: Mapping[str, Any], path: Path) -> None:
    """Check that nothing would be computed otherwise than by the model's own code."""
    layer_types = set(config.get("layer_types") or ()) - {"full_attention"}
    activation = config.get("hidden_act", "silu")
    reasons = {
        "its weights are quantised (quantization_config); take the original in bf16 or fp32": (
            config.get("quantization_config") is not None
        ),
        "it attends within a sliding window; set use_sliding_window to false only if its publisher did": (
            bool(config.get("use_sliding_window")) or bool(layer_types)
        ),
        "it is a mixture of experts; take a dense model": any(
            config.get(name) for name in ("num_experts", "num_local_experts", "n_routed_experts")
        ),
        f"its activation is {activation!r}; supported is silu": activation != "silu",
        "it has attention biases of its own (attention_bias); only Qwen2's are supported": bool(
            config.get("attention_bias")
        ),
        "its feed-forward blocks have biases (mlp_bias)": bool(config.get("mlp_bias")),
        "only a part of each head is rotated (partial_rotary_factor)": config.get("partial_rotary_factor", 1) != 1,
    }
    for reason, holds in reasons.items():
        if holds:
            raise TrainError(f"{path}: the model cannot be trained here: {reason}")


def _rope(config: Mapping[str, Any], family: str, path: Path) -> tuple[float, Llama3Scaling | None]:
    """Return the base of the rotary angles and their scaling; transformers 5 keeps both in ``rope_parameters``."""
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    if family == "llama":  # written since Llama 2 only; before, it was this number
        rope = {"rope_theta": config.get("rope_theta", 10000.0), **rope}
    theta = _number({"rope_theta": config.get("rope_theta"), **rope}, "rope_theta", path)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise TrainError(
            f"{path}: rotary positions of type {kind!r} are not supported; default and llama3 are. Set them to default "
            "only for sequences within the length the model was first trained with"
        )
    scaling = Llama3Scaling(
        factor=_number(rope, "factor", path),
        low_frequency=_number(rope, "low_freq_factor", path),
        high_frequency=_number(rope, "high_freq_factor", path),
        original_positions=_whole(rope, "original_max_position_embeddings", path),
    )
    if scaling.high_frequency <= scaling.low_frequency:
        raise TrainError(f"{path}: high_freq_factor must be above low_freq_factor; copy the file again")
    return theta, scaling


def _whole(config: Mapping[str, Any], name: str, path: Path) -> int:
    value = config.get(name)
    if type(value) is not int or value < 1:
        raise TrainError(f"{path}: {name} is {value!r}, not a positive whole number; copy the file again")
    return value


def _number(config: Mapping[str, Any], name: str, path: Path) -> float:
    value = config.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise TrainError(f"{path}: {name} is {value!r}, not a positive number; copy the file again")
    return float(value)
