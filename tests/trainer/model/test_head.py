"""The precision of the head."""

from __future__ import annotations

import dataclasses

import torch

from helpers.random_decoders import SPECS, random_model, tokens_of
from rlscaling.trainer.generation.kv_cache import KVCache


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
