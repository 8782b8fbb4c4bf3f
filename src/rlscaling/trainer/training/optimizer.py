"""AdamW with FP32 master weights, linear warm-up of the rate and gradient clipping.

Master weights: 1,000 bf16 updates of 5e-7 leave a weight of 0.02 unchanged, because bf16 has eight bits of
precision. Gradients of micro-batches are added in FP32 for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def _whole(value: Tensor) -> Tensor:
    """Return a number whose parts lie on several ranks."""
    full: Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return full


def _local(value: Tensor) -> Tensor:
    """Return the part of a tensor that lies on this rank."""
    local: Tensor = value.to_local() if hasattr(value, "to_local") else value
    return local


class Optimizer:
    """AdamW on FP32 copies of the weights (on the weights themselves where they are FP32).

    Parameters
    ----------
    model
        Its parameters are updated in place.
    lr
        Constant rate after the warm-up.
    warmup
        Updates over which the rate rises linearly to ``lr``.
    betas, eps, weight_decay
        As in AdamW. With eps 1e-15 an update has the size of the rate whatever the gradient's.
    clip
        Largest norm of the gradient; larger ones are scaled down to it. 0 leaves them.

    Attributes
    ----------
    peak_bytes : int
        Most that weights, gradients and moments have taken on this rank, in bytes.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float,
        warmup: int,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        clip: float,
    ) -> None:
        self.lr, self.warmup, self.clip, self.steps = lr, warmup, clip or math.inf, 0
        self.params = [param for param in model.parameters() if param.requires_grad]
        self.masters = [p if p.dtype == torch.float32 else p.detach().float().clone() for p in self.params]
        self._separate = any(p is not m for p, m in zip(self.params, self.masters, strict=True))
        self.adamw = torch.optim.AdamW(self.masters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True)
        self.peak_bytes = self.state_bytes()

    @torch.no_grad()
    def adopt(self) -> None:
        """Take the weights of the model as they are now, after something else has changed them."""
        for param, master in zip(self.params, self.masters, strict=True):
            if param is not master:
                master.copy_(param)

    def accumulate(self) -> None:
        """Add the gradients of a micro-batch to those of the update."""
        if not self._separate:
            return
        for param, master in zip(self.params, self.masters, strict=True):
            if param.grad is not None and param is not master:
                master.grad = param.grad.float() if master.grad is None else master.grad + param.grad.float()
                param.grad = None

    def step(self) -> float:
        """Clip, update, clear the gradients; return the norm before clipping.

        A norm that is not finite leaves the weights as they are: the caller decides what to do.
        """
        norm = float(_whole(torch.nn.utils.clip_grad_norm_(self.masters, self.clip)))
        if math.isfinite(norm):
            self.steps += 1
            for group in self.adamw.param_groups:
                group["lr"] = self.lr * min(1.0, self.steps / max(self.warmup, 1))
            self.adamw.step()
            self._copy_back()
        self.peak_bytes = max(self.peak_bytes, self.state_bytes())
        self.adamw.zero_grad(set_to_none=True)
        return norm

    def state_bytes(self) -> int:
        """Return the bytes that weights, their masters, gradients and moments take on this rank now."""
        masters = [m for p, m in zip(self.params, self.masters, strict=True) if p is not m]
        moments = [m for state in self.adamw.state.values() for m in (state["exp_avg"], state["exp_avg_sq"])]
        grads = [grad for p in (*self.params, *masters) if (grad := p.grad) is not None]
        return sum(_local(t).numel() * t.element_size() for t in (*self.params, *masters, *moments, *grads))

    @torch.no_grad()
    def _copy_back(self) -> None:
        if self._separate:
            for param, master in zip(self.params, self.masters, strict=True):
                param.copy_(master)

    def state_dict(self) -> dict[str, Any]:
        """Return moments, steps and master weights."""
        return {"adamw": self.adamw.state_dict(), "steps": self.steps, "masters": [m.detach() for m in self.masters]}

    @torch.no_grad()
    def begin_from(self, steps: int) -> None:
        """Make room for the moments of an optimizer that has done so many steps; their values are to be filled in."""
        self.steps = steps
        for master in self.masters if steps else ():
            moments = {name: torch.zeros_like(master) for name in ("exp_avg", "exp_avg_sq")}
            self.adamw.state[master] = {"step": torch.tensor(float(steps), device=master.device), **moments}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state_dict``; the weights of the model follow their masters."""
        self.adamw.load_state_dict(state["adamw"])
        self.steps = int(state["steps"])
        for master, saved in zip(self.masters, state["masters"], strict=True):
            master.copy_(saved)
        self._copy_back()
