"""`ModelSpec`: the sizes of a decoder."""

from __future__ import annotations

import dataclasses

import torch

from rlscaling.trainer.settings.hf_config import Llama3Scaling

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """Sizes of a decoder, and what its family adds: biases (Qwen2), norms of queries and keys (Qwen3)."""

    vocab_size: int
    d_model: int = 32
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    d_ff: int = 96
    max_positions: int = 64
    tied_head: bool = False
    head_dtype: str = "fp32"
    dtype: str = "fp32"
    n_experts: int = 0
    top_k_experts: int = 2
    rope_theta: float = 10000.0
    norm_eps: float = 1e-6
    head_width: int = 0  # 0: d_model / n_heads
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_scaling: Llama3Scaling | None = None

    @property
    def d_head(self) -> int:
        """Width of a head."""
        return self.head_width or self.d_model // self.n_heads
