"""Decoders of every kind with random weights, and tokens for them."""

from __future__ import annotations

import torch
from torch import Tensor

from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.model.spec import ModelSpec

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
