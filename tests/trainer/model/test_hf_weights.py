"""Checkpoints of Llama, Qwen2 and Qwen3 against transformers itself, there and back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from helpers.tiny_checkpoints import FAMILIES, LLAMA3, SIZES, edit_config, write_model
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generation.kv_cache import KVCache
from rlscaling.trainer.generation.rollout import pad_ids
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.model.hf_weights import fingerprint, load_model, save_model
from rlscaling.trainer.model.scoring import hidden_states

transformers = pytest.importorskip("transformers")

POSITIONS = 64
TOLERANCE = 1e-4


def tokens_of(rows: int = 3, length: int = 50) -> torch.Tensor:
    return torch.randint(SIZES["vocab_size"], (rows, length), generator=torch.Generator().manual_seed(1))


def gap(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert theirs.abs().max() > 0.5
    return float((ours - theirs).abs().max())


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers_with_and_without_a_cache(family: str, tmp_path: Path) -> None:
    theirs = write_model(tmp_path, family)
    ours, tokens = load_model(tmp_path, POSITIONS), tokens_of()
    with torch.no_grad():
        expected = theirs(tokens).logits
        assert gap(ours.logits(ours(tokens)), expected) < TOLERANCE
        cache = KVCache(ours.spec, len(tokens))
        parts = [ours(tokens[:, :20], cache=cache)]
        parts += [ours(tokens[:, t : t + 1], cache=cache) for t in range(20, 50)]
        assert gap(ours.logits(torch.cat(parts, 1)), expected) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_of_different_lengths_are_those_of_transformers_padded_on_the_left(family: str, tmp_path: Path) -> None:
    """Ours are padded behind and moved together; theirs on the left, with a mask and positions."""
    theirs = write_model(tmp_path, family)
    ours, tokens = load_model(tmp_path, POSITIONS), tokens_of()
    lengths, new = [20, 7, 13], 9
    prompts, prompt_length = pad_ids([tokens[i, :n].tolist() for i, n in enumerate(lengths)], 0)
    completions = tokens[:, 40 : 40 + new]
    left = torch.zeros(3, 20 + new, dtype=torch.long)
    mask = torch.zeros_like(left)
    for i, n in enumerate(lengths):
        left[i, 20 - n :], mask[i, 20 - n :] = torch.cat((tokens[i, :n], completions[i])), 1
    with torch.no_grad():
        expected = theirs(left, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits[:, 19:-1]
        inside = torch.ones(3, new, dtype=torch.bool)
        hidden = hidden_states(ours, prompts, completions, inside, prompt_length)
        assert gap(ours.logits(hidden).view(3, new, -1), expected) < TOLERANCE
        # and as the generator reads them: prompts first, then token by token over the padding's keys
        cache = KVCache(ours.spec, 3)
        first = ours(prompts, cache=cache)[torch.arange(3), prompt_length - 1]
        cache.positions = prompt_length
        later = [ours(completions[:, t : t + 1], cache=cache)[:, 0] for t in range(new - 1)]
        assert gap(ours.logits(torch.stack((first, *later), 1)), expected) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_is_loaded_by_transformers_and_by_us(family: str, tmp_path: Path) -> None:
    theirs = write_model(tmp_path / "from", family, shard="20KB")
    assert (tmp_path / "from" / "model.safetensors.index.json").is_file(), "the source is one of several files"
    ours, tokens = load_model(tmp_path / "from", POSITIONS), tokens_of()
    for target, limit, n_files in (("one", 10**9, 1), ("several", 20_000, 2)):
        files = save_model(ours, tmp_path / "from", tmp_path / target, shard_bytes=limit)
        assert len(files) >= n_files
        again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / target).eval()
        with torch.no_grad():
            expected = theirs(tokens).logits
            assert torch.equal(again(tokens).logits, expected)
            reread = load_model(tmp_path / target, POSITIONS)
            assert torch.equal(reread.logits(reread(tokens)), ours.logits(ours(tokens)))


def test_a_trained_weight_is_what_is_saved(tmp_path: Path) -> None:
    write_model(tmp_path / "from", "qwen2.5, tied")
    ours, tokens = load_model(tmp_path / "from", POSITIONS), tokens_of()
    with torch.no_grad():
        ours.embed_tokens.weight.mul_(1.5)
        ours.layers[1].self_attn.k_proj.bias.add_(0.3)
    save_model(ours, tmp_path / "from", tmp_path / "to")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "to").eval()
    with torch.no_grad():
        assert gap(ours.logits(ours(tokens)), theirs(tokens).logits) < TOLERANCE
    with pytest.raises(TrainError, match="exists and is not empty"):
        save_model(ours, tmp_path / "from", tmp_path / "to")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_weights_are_read_exactly(dtype: str, tmp_path: Path) -> None:
    write_model(tmp_path, "qwen3", dtype=dtype)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ours, tokens = load_model(tmp_path, POSITIONS), tokens_of()
    with torch.no_grad():
        assert gap(ours.logits(ours(tokens)), theirs(tokens).logits) < TOLERANCE
    assert load_model(tmp_path, POSITIONS, dtype="bf16").embed_tokens.weight.dtype == torch.bfloat16


def test_long_rotary_waves_are_stretched_as_llama_3_does(tmp_path: Path) -> None:
    """Without the scaling the logits differ: the test above could not pass by chance."""
    theirs = write_model(tmp_path, "llama 3.1")
    edit_config(tmp_path, rope_parameters={"rope_type": "default", "rope_theta": LLAMA3["rope_theta"]})
    ours, tokens = load_model(tmp_path, POSITIONS), tokens_of()
    with torch.no_grad():
        assert gap(ours.logits(ours(tokens)), theirs(tokens).logits) > 100 * TOLERANCE


def test_files_of_transformers_4_are_read(tmp_path: Path) -> None:
    """Before transformers 5 the rotary settings stood at the top of config.json."""
    theirs = write_model(tmp_path, "llama 3.1")
    old = {key: value for key, value in LLAMA3.items() if key != "rope_theta"}
    edit_config(
        tmp_path, rope_parameters=None, rope_theta=LLAMA3["rope_theta"], rope_scaling=old, torch_dtype="float32"
    )
    ours, tokens = load_model(tmp_path, POSITIONS), tokens_of()
    with torch.no_grad():
        assert gap(ours.logits(ours(tokens)), theirs(tokens).logits) < TOLERANCE


def refused(folder: Path, match: str, positions: int = POSITIONS) -> None:
    with pytest.raises(TrainError, match=match):
        load_model(folder, positions)


def rewrite(folder: Path, change) -> None:  # type: ignore[no-untyped-def]
    """Write the weights of a folder again, changed."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_missing_and_further_weights_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path, "qwen2")
    norm = "model.layers.1.input_layernorm.weight"
    rewrite(tmp_path, lambda weights: weights.pop(norm))
    refused(tmp_path, f"lacks {norm}; its config.json describes another model")
    rewrite(tmp_path, lambda weights: weights.update({norm: torch.ones(32), "model.layers.0.extra": torch.ones(2)}))
    refused(tmp_path, "holds model.layers.0.extra, which a model of its config.json does not have")
    rewrite(tmp_path, lambda weights: weights.pop("model.layers.0.extra"))
    rewrite(tmp_path, lambda weights: weights.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}))
    assert isinstance(load_model(tmp_path, POSITIONS), Decoder), "what follows from config.json may stand there"


def test_other_shapes_and_types_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path, "llama")
    edit_config(tmp_path, vocab_size=97)
    refused(tmp_path, r"embed_tokens.weight has the shape \(96, 32\), and config.json says \(97, 32\)|lm_head")
    edit_config(tmp_path, vocab_size=96)
    name = "model.layers.0.mlp.up_proj.weight"
    rewrite(tmp_path, lambda weights: weights.update({name: weights[name].to(torch.int8)}))
    refused(tmp_path, "up_proj.weight is of type I8; take the weights in float32, bfloat16, float16, not quantised")
    refused(tmp_path, "the model was made for 512", positions=513)


def test_a_head_that_should_be_tied_and_is_not(tmp_path: Path) -> None:
    write_model(tmp_path, "qwen2")
    edit_config(tmp_path, tie_word_embeddings=True)
    refused(tmp_path, "the head differs from the embedding")


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path, "qwen2", shard="20KB")
    file = sorted(tmp_path.glob("model-*.safetensors"))[1]
    whole = file.read_bytes()
    for cut in (4, 40, len(whole) - 1):
        file.write_bytes(whole[:cut])
        refused(tmp_path, f"{file.name} is damaged or was not copied to its end")
    file.unlink()
    refused(tmp_path, f"lacks {file.name}, which its index lists")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    refused(tmp_path, "has no weight_map")


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    write_model(tmp_path, "qwen2")
    (tmp_path / "model.safetensors").unlink()
    refused(tmp_path, "has no model.safetensors and no")
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    refused(tmp_path, "pytorch_model.bin, which only unpickling could read")


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / name, "qwen2")
        (tmp_path / name / "tokenizer.json").write_text("{}")
    first = fingerprint(tmp_path / "a")
    assert fingerprint(tmp_path / "b") == first
    (tmp_path / "b" / "tokenizer.json").write_text("{ }")
    assert fingerprint(tmp_path / "b") != first
