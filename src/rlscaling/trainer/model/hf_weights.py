"""Safetensors in and out: weights in Hugging Face's layout read into the decoder, and a trained decoder written back.

Every name, shape and type is checked against the architecture from the headers of the files, before a tensor is read.
Files that would have to be unpickled (``.bin``, ``.pt``) are never opened.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rlscaling.trainer.errors import TrainError, needing
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.model.spec import DTYPES, ModelSpec
from rlscaling.trainer.settings.hf_config import Architecture, read_architecture, read_json

ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
COPIED = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
    "merges.txt", "added_tokens.json", "tokenizer.model", "chat_template.jinja", "chat_template.json",
)  # fmt: skip
"""Files of a model folder beside weights and ``config.json``: a saved model keeps them."""
SHARD_BYTES = 5 * 10**9

_FLOATS = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
_DERIVED = re.compile(r"\.rotary_emb\.inv_freq$")  # old checkpoints hold it; it follows from config.json
_SHOWN = 3


class _NoInitialisation(TorchFunctionMode):
    """Leave new weights as they are: drawing numbers that the files replace takes minutes for a large model."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass every call on but those that fill a tensor with random numbers."""
        kwargs = kwargs or {}
        if func.__name__ in ("normal_", "uniform_", "kaiming_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def model_spec(
    architecture: Architecture, positions: int, *, head_dtype: str = "fp32", dtype: str = "fp32"
) -> ModelSpec:
    """Return the sizes of the decoder for sequences of up to ``positions`` tokens.

    Raises
    ------
    TrainError
        When that is longer than the model was made for.
    """
    if positions > architecture.context:
        raise TrainError(
            f"prompt and completion take up to {positions:,} tokens, and the model was made for "
            f"{architecture.context:,}; lower prompt_tokens, thinking_budget or solution_tokens"
        )
    names = {f.name for f in dataclasses.fields(ModelSpec)} & {f.name for f in dataclasses.fields(Architecture)}
    shared: dict[str, Any] = {name: getattr(architecture, name) for name in names}
    shared |= {"qkv_bias": architecture.qkv_bias, "qk_norm": architecture.qk_norm}
    return ModelSpec(**shared, max_positions=positions, head_dtype=head_dtype, dtype=dtype)


def load_model(folder: str | Path, positions: int, *, head_dtype: str = "fp32", dtype: str = "fp32") -> Decoder:
    """Return the decoder with the weights of a folder.

    Parameters
    ----------
    folder
        ``config.json`` with ``model.safetensors``, or with several files and their index.
    positions
        Longest sequence, prompt and completion, in tokens.
    head_dtype, dtype
        As in ``TrainConfig``; FP16 and BF16 weights become FP32 exactly.

    Raises
    ------
    TrainError
        For folders that ``read_architecture`` does not support, and missing, unknown, misshapen, quantised or damaged
        weights.
    """
    folder = Path(folder)
    spec = model_spec(read_architecture(folder), positions, head_dtype=head_dtype, dtype=dtype)
    files = weight_files(folder)
    _check_layers(folder, files, spec.n_layers)
    with torch.device("meta"), _NoInitialisation():  # sizes only: the weights come from the files
        model = Decoder(spec)
    own = {hf_name(name): tuple(weight.shape) for name, weight in model.named_parameters()}
    _check_headers(folder, files, own, tied=spec.tied_head)
    weights: dict[str, Tensor] = {}
    for name, tensor in _tensors(folder, files):
        weights[name] = tensor.to(DTYPES[dtype])
    head = weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    if spec.tied_head and not torch.equal(head, weights["model.embed_tokens.weight"]):
        raise TrainError(
            f"{folder}: tie_word_embeddings is true, and yet the head differs from the embedding; set it to false in "
            "config.json if the head was trained apart"
        )
    model.load_state_dict({own_name(name): tensor for name, tensor in weights.items()}, assign=True)
    if spec.tied_head:
        model.lm_head.weight = model.embed_tokens.weight
    return model


def hf_name(name: str) -> str:
    """Return the name of a weight in a checkpoint."""
    return name if name.startswith("lm_head.") else f"model.{name}"


def own_name(name: str) -> str:
    """Return the name of a checkpoint's weight in our decoder."""
    return name.removeprefix("model.")


_LAYER = re.compile(r"model\.layers\.(\d{1,9})\.")


def weight_files(folder: Path) -> list[str]:
    """Return the names of the safetensors files of a model folder.

    Raises
    ------
    TrainError
        When there are none, or one of the index is missing.
    """
    if (folder / INDEX).is_file():
        places = read_json(folder / INDEX, "the index of the weights").get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
            raise TrainError(f"{folder / INDEX} has no weight_map; copy the model folder again")
        names = sorted(set(places.values()))
        for name in names:
            if Path(name).name != name or not (folder / name).is_file():
                raise TrainError(f"{folder} lacks {name}, which its index lists; copy the model folder again")
        return names
    if (folder / ONE_FILE).is_file():
        return [ONE_FILE]
    pickled = sorted(path.name for path in folder.glob("*") if path.suffix in (".bin", ".pt", ".pth", ".ckpt"))
    if pickled:
        raise TrainError(
            f"{folder} has its weights in {pickled[0]}, which only unpickling could read, and a pickle can run any "
            "code; convert it where you trust it: AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW)"
        )
    raise TrainError(f"{folder} has no {ONE_FILE} and no {INDEX}; give a folder that save_pretrained wrote")


def _check_layers(folder: Path, files: list[str], expected: int) -> None:
    """Compare the number of layers first: a model of very many would take long to make."""
    numbers = set()
    for file in files:
        with _opened(folder / file) as opened:
            numbers |= {int(layer[1]) for name in opened.keys() if (layer := _LAYER.match(name))}  # noqa: SIM118
    if len(numbers) < expected:
        raise TrainError(
            f"{folder}: num_hidden_layers is {expected}, but weights of {len(numbers)} layers are there; its "
            "config.json describes another model, or files are missing"
        )


def _check_headers(folder: Path, files: list[str], own: Mapping[str, tuple[int, ...]], *, tied: bool) -> None:
    """Compare the names, shapes and types in the files with what the architecture has."""
    stored: dict[str, tuple[tuple[int, ...], str]] = {}
    for file in files:
        with _opened(folder / file) as opened:
            for name in opened.keys():  # noqa: SIM118  the handle is no mapping
                if name in stored:
                    raise TrainError(f"{folder}: {name} stands in two files; copy the model folder again")
                part = opened.get_slice(name)
                stored[name] = (tuple(part.get_shape()), str(part.get_dtype()))
    stored = {name: facts for name, facts in stored.items() if not _DERIVED.search(name)}
    optional = {"lm_head.weight"} if tied else set()
    missing, extra = sorted(set(own) - set(stored)), sorted(set(stored) - set(own) - optional)
    if missing:
        raise TrainError(f"{folder} lacks {_listed(missing)}; its config.json describes another model, or it is a part")
    if extra:
        raise TrainError(f"{folder} holds {_listed(extra)}, which a model of its config.json does not have")
    for name, (shape, kind) in stored.items():
        wanted = own.get(name, own["model.embed_tokens.weight"])
        if shape != wanted:
            raise TrainError(f"{folder}: {name} has the shape {shape}, and config.json says {wanted}")
        if kind not in _FLOATS:
            raise TrainError(
                f"{folder}: {name} is of type {kind}; take the weights in {', '.join(_FLOATS.values())}, not quantised"
            )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _opened(path: Path) -> Any:
    """Open a safetensors file; its header is checked against its length."""
    with needing("safetensors", "trainer"):
        from safetensors import SafetensorError, safe_open
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise TrainError(f"{path} is damaged or was not copied to its end ({error}); copy it again") from None


def _tensors(folder: Path, files: list[str]) -> Iterator[tuple[str, Tensor]]:
    for file in files:
        with _opened(folder / file) as opened:
            for name in opened.keys():  # noqa: SIM118
                if not _DERIVED.search(name):
                    yield name, opened.get_tensor(name)


def fingerprint(folder: str | Path) -> str:
    """Return 16 hexadecimal digits that differ between models: configuration, tokenizer, names and sizes of weights."""
    folder, digest = Path(folder), hashlib.sha256()
    for name in ("config.json", "tokenizer.json"):
        digest.update((folder / name).read_bytes())
    for file in weight_files(folder):
        with (folder / file).open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            digest.update(stream.read(min(length, 10**8)))
            stream.seek(0, 2)
            digest.update(str(stream.tell()).encode())
    return digest.hexdigest()[:16]


def check_target(folder: str | Path) -> None:
    """Check that a model can be saved to a folder, before any compute is spent."""
    folder = Path(folder)
    above = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise TrainError(f"{folder} cannot be made: {above} is no folder that can be written to; choose another one")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TrainError(f"{folder} exists and is not empty: it was left as it is; save the model to another folder")


def save_model(
    model: Decoder,
    source: str | Path,
    folder: str | Path,
    *,
    weights: Mapping[str, Tensor] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> list[Path]:
    """Write the decoder in the layout that it was read from; transformers and this package load it again.

    Parameters
    ----------
    model
        From ``load_model``, trained or not.
    source
        The folder it was read from: ``config.json`` and the tokenizer come from there.
    folder
        A new or empty folder.
    weights
        Those to write, by the decoder's names; None takes its own, which must be whole.
    shard_bytes
        Weights beyond this size go into several files with an index.

    Returns
    -------
    list of Path
        The files of weights.

    Raises
    ------
    TrainError
        When the folder holds something already.
    """
    with needing("safetensors", "trainer"):
        from safetensors.torch import save_file
    source, folder = Path(source), Path(folder)
    check_target(folder)
    folder.mkdir(parents=True, exist_ok=True)
    own = dict(model.named_parameters()) if weights is None else weights
    weights = {hf_name(name): weight.detach().cpu().contiguous() for name, weight in own.items()}
    config = read_json(source / "config.json", "which says what the model is")
    kind = str(DTYPES[model.spec.dtype]).removeprefix("torch.")
    config.pop("torch_dtype", None)
    config["dtype"] = kind
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in COPIED:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    shards = _shards(weights, shard_bytes)
    names = [ONE_FILE] if len(shards) == 1 else [
        f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)
    ]  # fmt: skip
    for name, shard in zip(names, shards, strict=True):
        save_file({key: weights[key] for key in shard}, folder / name, metadata={"format": "pt"})
    if len(shards) > 1:
        places = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
        total = sum(weight.numel() * weight.element_size() for weight in weights.values())
        index = {"metadata": {"total_size": total}, "weight_map": places}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return [folder / name for name in names]


def _shards(weights: Mapping[str, Tensor], limit: int) -> list[list[str]]:
    """Return the names of the weights of each file, none larger than ``limit`` unless one weight is."""
    shards: list[list[str]] = [[]]
    size = 0
    for name, weight in weights.items():
        n = weight.numel() * weight.element_size()
        if shards[-1] and size + n > limit:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += n
    return shards
