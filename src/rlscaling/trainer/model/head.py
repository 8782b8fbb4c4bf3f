"""Logits, or the policy loss, in FP32: the head has a precision of its own [ScaleRL, 3.2]."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from rlscaling.trainer.kernels import ops
from rlscaling.trainer.kernels.types import HeadResult


class Head(nn.Linear):
    """A linear layer without bias that also computes the policy loss of its logits.

    The loss is computed in here and not from ``weight`` outside, because FSDP gathers the whole weight for the time of
    a module's forward only; outside there is a shard.

    Parameters
    ----------
    width, vocab_size
        Sizes.
    head_dtype
        ``"fp32"`` or ``"bf16"``, in generator and trainer alike.
    """

    def __init__(self, width: int, vocab_size: int, head_dtype: str) -> None:
        super().__init__(width, vocab_size, bias=False)
        self.head_dtype = head_dtype

    def forward(self, hidden: Tensor, **loss: Any) -> Tensor | HeadResult:  # type: ignore[override]
        """Return FP32 logits, (..., V); given the further arguments of ``ops.policy_head``, what that returns."""
        if loss:
            return ops.policy_head(hidden, self.weight, head_dtype=self.head_dtype, **loss)
        return ops.head(hidden, self.weight, self.head_dtype)
