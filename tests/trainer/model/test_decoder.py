"""The decoder against transformers' Llama and Mixtral on the same random weights, and against itself with a cache."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from helpers.random_decoders import SPECS, random_model, tokens_of
from rlscaling.trainer.generation.kv_cache import KVCache
from rlscaling.trainer.model.decoder import MixtureOfExperts


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
        actual = block(x).reshape(-1, spec.d_model)
        for token, out in zip(x.reshape(-1, spec.d_model), actual, strict=True):
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
