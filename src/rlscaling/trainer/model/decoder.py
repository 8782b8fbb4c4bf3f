"""The decoder: the policy, of the Llama family, with an optional mixture of experts.

RMSNorm, rotary positions, grouped-query attention and SwiGLU, with the names Llama and Qwen give their weights: what
``hf_weights.py`` reads. The head is a module of its own precision: FP32 logits in generator and trainer alike
[ScaleRL, 3.2].
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlscaling.trainer.model.attention import AttentionContext, Cache, NoCache
from rlscaling.trainer.model.head import Head
from rlscaling.trainer.model.spec import DTYPES, ModelSpec


class RMSNorm(nn.Module):
    """``x / sqrt(mean(x**2) + eps) * weight``, the mean in FP32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return the rescaled rows, (..., D)."""
        if x.dtype == torch.float32:
            return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return self.weight * functional.rms_norm(x.float(), self.weight.shape, None, self.eps).to(x.dtype)


def frequencies(spec: ModelSpec) -> Tensor:
    """Return the angle that a position adds to each pair of a head, (d / 2,), stretched as Llama 3.1 does.

    Waves longer than ``original / low`` positions are slowed by ``factor``, those shorter than ``original / high``
    are kept, those between are mixed [Llama 3.1, as in transformers' ``llama3`` rope type].
    """
    angle = spec.rope_theta ** (-torch.arange(0, spec.d_head, 2) / spec.d_head)
    scaling = spec.rope_scaling
    if scaling is None:
        return angle
    turns = scaling.original_positions * angle / (2 * math.pi)
    kept = ((turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency)).clamp(0, 1)
    return angle * (kept + (1 - kept) / scaling.factor)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the halves of each head by the angle of its position [RoFormer, arXiv 2104.09864]."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


@dataclasses.dataclass(frozen=True)
class _Step:
    """What all layers of one forward pass share."""

    context: AttentionContext
    cos: Tensor  # (1 or B, 1, T, d)
    sin: Tensor


class Attention(nn.Module):
    """Causal attention in which a group of query heads shares one key head [GQA, arXiv 2305.13245]."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        kv, inner = spec.n_kv_heads * spec.d_head, spec.n_heads * spec.d_head
        self.q_proj = nn.Linear(spec.d_model, inner, bias=spec.qkv_bias)
        self.k_proj = nn.Linear(spec.d_model, kv, bias=spec.qkv_bias)
        self.v_proj = nn.Linear(spec.d_model, kv, bias=spec.qkv_bias)
        self.o_proj = nn.Linear(inner, spec.d_model, bias=False)
        if spec.qk_norm:  # of each head by itself, before the rotation [Qwen3, arXiv 2505.09388]
            self.q_norm = RMSNorm(spec.d_head, spec.norm_eps)
            self.k_norm = RMSNorm(spec.d_head, spec.norm_eps)

    def forward(self, x: Tensor, step: _Step, layer: int) -> Tensor:
        """Return what each token of x, (B, T, D), gathers from itself and the tokens before it."""
        B, T, _ = x.shape
        K, d = self.spec.n_kv_heads, self.spec.d_head
        q, k = self.q_proj(x).view(B, T, -1, d), self.k_proj(x).view(B, T, K, d)
        if self.spec.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q = rotate(q.transpose(1, 2), step.cos, step.sin)  # (B, H, T, d)
        k = rotate(k.transpose(1, 2), step.cos, step.sin)  # (B, K, T, d)
        v = self.v_proj(x).view(B, T, K, d).transpose(1, 2)
        y = step.context.attend(layer, q, k, v).transpose(1, 2).reshape(B, T, -1)
        out: Tensor = self.o_proj(y)
        return out


class SwiGLU(nn.Module):
    """``down(silu(gate(x)) * up(x))`` [arXiv 2002.05202]."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(spec.d_model, spec.d_ff, bias=False)
        self.up_proj = nn.Linear(spec.d_model, spec.d_ff, bias=False)
        self.down_proj = nn.Linear(spec.d_ff, spec.d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., D) for (..., D)."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class MixtureOfExperts(nn.Module):
    """Each token visits its best ``top_k_experts`` experts, weighted by the softmax over them [arXiv 2401.04088].

    After a forward pass ``load_balance`` is ``E * sum_e f_e * P_e``: the share of visits that expert e received times
    its mean probability, 1 when all are used alike [Switch, arXiv 2101.03961, eq. 4].
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.top_k = spec.top_k_experts
        self.gate = nn.Linear(spec.d_model, spec.n_experts, bias=False)
        self.experts = nn.ModuleList(SwiGLU(spec) for _ in range(spec.n_experts))
        self.load_balance: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, D) for (B, T, D)."""
        flat = x.reshape(-1, x.shape[-1])
        probability = self.gate(flat).float().softmax(-1)  # (B * T, E)
        weight, chosen = probability.topk(self.top_k, -1)
        weight = (weight / weight.sum(-1, keepdim=True)).to(x.dtype)
        visits = torch.bincount(chosen.flatten(), minlength=len(self.experts)) / chosen.numel()
        self.load_balance = len(self.experts) * (visits * probability.mean(0)).sum()
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows, slot = (chosen == e).nonzero(as_tuple=True)
            out = out.index_add(0, rows, expert(flat[rows]) * weight[rows, slot, None])
        return out.view_as(x)


class Block(nn.Module):
    """One layer: attention and a feed-forward block, each behind a norm and around a residual."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(spec.d_model, spec.norm_eps)
        self.self_attn = Attention(spec)
        self.post_attention_layernorm = RMSNorm(spec.d_model, spec.norm_eps)
        self.mlp = MixtureOfExperts(spec) if spec.n_experts else SwiGLU(spec)

    def forward(self, x: Tensor, step: _Step, layer: int) -> Tensor:
        """Return the residual stream after this layer, (B, T, D)."""
        x = x + self.self_attn(self.input_layernorm(x), step, layer)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """The policy.

    Parameters
    ----------
    spec
        Its sizes.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.embed_tokens = nn.Embedding(spec.vocab_size, spec.d_model)
        self.layers = nn.ModuleList(Block(spec) for _ in range(spec.n_layers))
        self.norm = RMSNorm(spec.d_model, spec.norm_eps)
        self.lm_head = Head(spec.d_model, spec.vocab_size, spec.head_dtype)
        if spec.tied_head:
            self.lm_head.weight = self.embed_tokens.weight
        self._initialise()
        self.to(DTYPES[spec.dtype])
        with torch.device("cpu"):  # also where the weights are only planned
            angle = torch.arange(spec.max_positions)[:, None] * frequencies(spec)
            angle = torch.cat((angle, angle), -1)  # (S, d)
        self.register_buffer("cos", angle.cos().to(DTYPES[spec.dtype]), persistent=False)
        self.register_buffer("sin", angle.sin().to(DTYPES[spec.dtype]), persistent=False)

    def _initialise(self) -> None:
        """Draw every matrix with variance 1 / inputs; those that write to the residual stream by 1 / (2 L) less."""
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                std = weight.shape[1] ** -0.5
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    std *= (2 * self.spec.n_layers) ** -0.5
                nn.init.normal_(weight, std=std)

    def forward(self, tokens: Tensor, *, cache: Cache | None = None, positions: Tensor | None = None) -> Tensor:
        """Return the hidden states after the last norm.

        Parameters
        ----------
        tokens
            (B, T) long. With a cache, row i goes on where row i of the cache ends.
        cache
            Keys and values of earlier tokens, changed in place; None sees only ``tokens``.
        positions
            (B, T) or (1, T) long, positions of the tokens without a cache; None counts from 0.

        Returns
        -------
        Tensor
            (B, T, D).
        """
        T = tokens.shape[1]
        context = NoCache.of(self.spec, T, positions, self.cos) if cache is None else cache.begin(T)
        at = context.positions
        step = _Step(context, self.cos[at][:, None], self.sin[at][:, None])
        x = self.embed_tokens(tokens)
        for i, layer in enumerate(self.layers):
            x = layer(x, step, i)
        out: Tensor = self.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits, FP32, (..., V), computed in the precision of the head."""
        logits: Tensor = self.lm_head(hidden)
        return logits

    @property
    def load_balance_loss(self) -> Tensor | None:
        """Mean over the layers of the load-balance loss of the last forward pass; None for a dense model."""
        losses = [b.mlp.load_balance for b in self.layers if isinstance(b.mlp, MixtureOfExperts)]
        present = [loss for loss in losses if loss is not None]
        return torch.stack(present).mean() if present else None
