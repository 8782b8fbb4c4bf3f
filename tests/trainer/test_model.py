"""The decoder against transformers' Llama and Mixtral on the same random weights, and against itself with a cache."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from rlscaling.trainer.cache import KVCache
from rlscaling.trainer.config import make_config
from rlscaling.trainer.model import Decoder, MixtureOfExperts, ModelSpec, build_model
from rlscaling.trainer.tasks import make_task

SPECS = {
    "default": ModelSpec(vocab_size=15, max_positions=24),
    "tied": ModelSpec(vocab_size=15, max_positions=24, tied_head=True),
    "one key head": ModelSpec(vocab_size=15, max_positions=24, n_kv_heads=1),
    "no sharing": ModelSpec(vocab_size=15, max_positions=24, n_kv_heads=4),
    "odd sizes": ModelSpec(vocab_size=37, d_model=60, n_layers=3, n_heads=6, n_kv_heads=2, d_ff=70, max_positions=24),
    "experts": ModelSpec(vocab_size=15, max_positions=24, n_experts=4, top_k_experts=2),
}


def random_model(spec: ModelSpec, seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    model = Decoder(spec)
    for name, weight in model.named_parameters():
        if "norm" in name:  # ones would hide a norm that forgets its weight
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    return model


def tokens_of(spec: ModelSpec, rows: int = 5, length: int = 17) -> Tensor:
    return torch.randint(spec.vocab_size, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", [name for name in SPECS if name != "experts"])
@pytest.mark.parametrize("theta", [10000.0, 500000.0])
def test_logits_of_llama(name: str, theta: float) -> None:
    transformers = pytest.importorskip("transformers")
    spec = dataclasses.replace(SPECS[name], rope_theta=theta)
    model = random_model(spec)
    config = transformers.LlamaConfig(
        vocab_size=spec.vocab_size,
        hidden_size=spec.d_model,
        intermediate_size=spec.d_ff,
        num_hidden_layers=spec.n_layers,
        num_attention_heads=spec.n_heads,
        num_key_value_heads=spec.n_kv_heads,
        rms_norm_eps=spec.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=spec.tied_head,
        max_position_embeddings=spec.max_positions,
    )
    llama = transformers.LlamaForCausalLM(config).eval()
    own = {key if key.startswith("lm_head") else f"model.{key}": value for key, value in model.state_dict().items()}
    assert set(llama.state_dict()) == set(own)
    llama.load_state_dict(own)
    tokens = tokens_of(spec)
    with torch.no_grad():
        theirs, ours = llama(tokens).logits, model.logits(model(tokens))
    assert theirs.abs().max() > 0.5
    assert (theirs - ours).abs().max() < 1e-4


def test_experts_of_mixtral() -> None:
    """One feed-forward block of Mixtral (arXiv 2401.04088), each token by hand."""
    spec = SPECS["experts"]
    block = random_model(spec).layers[0].mlp
    assert isinstance(block, MixtureOfExperts)
    x = torch.randn(2, 7, spec.d_model, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        got = block(x).reshape(-1, spec.d_model)
        for token, out in zip(x.reshape(-1, spec.d_model), got, strict=True):
            top = block.gate(token).topk(2)
            weights = top.values.softmax(-1)
            byhand = sum(w * block.experts[int(e)](token) for w, e in zip(weights, top.indices, strict=True))
            torch.testing.assert_close(out, byhand, atol=1e-6, rtol=1e-5)


def test_load_balance_is_one_for_even_use_and_e_for_one_expert() -> None:
    """[Switch, arXiv 2101.03961, eq. 4]."""
    spec = dataclasses.replace(SPECS["experts"], top_k_experts=1)
    model = random_model(spec)
    assert model.load_balance_loss is None
    with torch.no_grad():
        for layer in model.layers:
            layer.mlp.gate.weight.zero_()
    with torch.no_grad():
        model(tokens_of(spec))
    assert float(model.load_balance_loss) == pytest.approx(1.0)  # equal probabilities, wherever ties go
    block = model.layers[0].mlp
    assert isinstance(block, MixtureOfExperts)
    x = torch.ones(1, 9, spec.d_model)
    with torch.no_grad():
        block.gate.weight[2] = 10.0
        block(x)
    assert float(block.load_balance) == pytest.approx(4.0)
    assert random_model(SPECS["default"]).load_balance_loss is None


def test_load_balance_loss_has_a_gradient() -> None:
    model = random_model(SPECS["experts"])
    model(tokens_of(model.spec))
    loss = model.load_balance_loss
    assert loss is not None
    loss.backward()
    assert model.layers[0].mlp.gate.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", SPECS)
def test_cached_logits_are_the_uncached(name: str) -> None:
    model, tokens = random_model(SPECS[name]), tokens_of(SPECS[name])
    with torch.no_grad():
        full = model(tokens)
        cache = KVCache(model.spec, len(tokens))
        parts = [model(tokens[:, :6], cache=cache)]
        parts += [model(tokens[:, t : t + 1], cache=cache) for t in range(6, 15)]
        parts.append(model(tokens[:, 15:], cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), full, atol=1e-5, rtol=1e-4)
    assert cache.positions.tolist() == [17] * 5


@pytest.mark.parametrize("name", SPECS)
def test_both_ways_of_attention_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folded query heads with a mask, and the plain causal product of longer sequences."""
    model, tokens = random_model(SPECS[name]), tokens_of(SPECS[name])
    with torch.no_grad():
        folded = model(tokens)
        monkeypatch.setattr("rlscaling.trainer.context.GROUPED_UP_TO", 0)
        torch.testing.assert_close(model(tokens), folded, atol=1e-5, rtol=1e-4)


def test_future_tokens_change_nothing() -> None:
    model, tokens = random_model(SPECS["default"]), tokens_of(SPECS["default"])
    changed = tokens.clone()
    changed[:, 10:] = 3
    with torch.no_grad():
        assert torch.equal(model(tokens)[:, :10], model(changed)[:, :10])


def test_positions_are_relative() -> None:
    """RoPE sees distances only: the same tokens 5 positions later give the same hidden states."""
    model, tokens = random_model(SPECS["default"]), tokens_of(SPECS["default"])
    with torch.no_grad():
        later = model(tokens, positions=torch.arange(5, 22)[None])
    torch.testing.assert_close(later, model(tokens), atol=1e-5, rtol=1e-4)


def test_head_precision() -> None:
    """A bf16 head rounds to 8 bits; the logits are FP32 in either case."""
    spec = SPECS["default"]
    fp32, bf16 = random_model(spec), random_model(dataclasses.replace(spec, head_dtype="bf16"))
    hidden = torch.randn(50, spec.d_model, generator=torch.Generator().manual_seed(3))
    exact, rounded = fp32.logits(hidden), bf16.logits(hidden)
    assert exact.dtype == rounded.dtype == torch.float32
    torch.testing.assert_close(exact, (hidden.double() @ fp32.lm_head.weight.double().T).float())
    assert 1e-4 < (exact - rounded).abs().mean() < 1e-1


def test_bf16_weights_give_fp32_logits() -> None:
    spec = dataclasses.replace(SPECS["default"], dtype="bf16")
    model, tokens = random_model(spec), tokens_of(spec)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    with torch.no_grad():
        cache = KVCache(spec, len(tokens))
        assert model.logits(model(tokens, cache=cache)).dtype == torch.float32


def test_the_seed_decides_the_weights() -> None:
    config = make_config(n_train_prompts=600)
    task = make_task(config)
    torch.manual_seed(77)
    first = build_model(config, task)
    after = torch.rand(1)
    torch.manual_seed(77)
    assert torch.equal(after, torch.rand(1)), "the caller's generator was touched"
    again = build_model(config, task)
    other = build_model(dataclasses.replace(config, seed=1), task)
    assert torch.equal(first.embed_tokens.weight, again.embed_tokens.weight)
    assert not torch.equal(first.embed_tokens.weight, other.embed_tokens.weight)
    assert 20_000 < sum(weight.numel() for weight in first.parameters()) < 30_000
