"""Matrix products and their precision; the products themselves stay in the vendor's library.

Factors of one type, sums in FP32. A product of bf16 factors is exact in FP32, so FP32 logits of bf16 hidden states
cost no more than bf16 ones; on a CPU, which has no such product, the factors are widened first.
"""

from __future__ import annotations

import torch
from torch import Tensor


def factors(hidden: Tensor, weight: Tensor, head_dtype: str) -> tuple[Tensor, Tensor]:
    """Return hidden states and head weight as the products take them: of one type, bf16 for a bf16 head."""
    kind = torch.bfloat16 if head_dtype == "bf16" or hidden.dtype == weight.dtype == torch.bfloat16 else torch.float32
    return hidden.to(kind), weight.to(kind)


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return ``a @ b`` in FP32, written to ``out`` where given; no gradient."""
    if a.dtype == torch.float32:
        return torch.mm(a, b, out=out)
    if a.is_cuda and hasattr(torch.ops.aten.mm, "dtype_out"):  # torch 2.8
        return torch.mm(a, b, out_dtype=torch.float32, out=out)
    return torch.mm(a.float(), b.float(), out=out)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add ``a @ b`` to ``total``, FP32; no gradient."""
    if a.dtype == torch.float32:
        total.addmm_(a, b)
    else:
        total.add_(product(a, b))


def head(hidden: Tensor, weight: Tensor, head_dtype: str) -> Tensor:
    """Return FP32 logits ``hidden @ weight.T``, (..., V), with gradient; see ``ops.head``."""
    if head_dtype == "bf16":
        return (hidden.bfloat16() @ weight.bfloat16().T).float()
    if torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad):
        return hidden.float() @ weight.float().T
    h, w = factors(hidden, weight, head_dtype)
    return product(h.flatten(0, -2), w.T).view(*hidden.shape[:-1], len(weight))


def empty_rows(n: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return an uninitialised matrix, (n, width), each row of which starts on a 16-byte boundary."""
    step = 16 // dtype.itemsize
    return torch.empty(n, -(-width // step) * step, dtype=dtype, device=device)[:, :width]


def rows_like(x: Tensor) -> Tensor:
    """Return an uninitialised matrix as ``empty_rows`` does, of the shape and type of ``x``."""
    return empty_rows(x.shape[0], x.shape[1], x.dtype, x.device)
