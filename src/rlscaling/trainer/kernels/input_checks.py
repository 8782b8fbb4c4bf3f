"""Checks of the inputs of the operations: each message names the argument, what is wrong, and what to do."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlscaling.trainer.algorithm.losses import LOSSES
from rlscaling.trainer.errors import TrainError

LONGEST_ROW = 2**30
"""Columns that a kernel can count in 32 bits, groups of them included."""

FLOATS = (torch.float32, torch.bfloat16)


def check_matrix(name: str, x: Tensor, shape: str) -> None:
    """Check a matrix of floats whose rows are contiguous."""
    if x.dim() != 2 or 0 in x.shape[1:]:
        raise TrainError(f"{name} has shape {tuple(x.shape)}; it must be {shape}, with at least one column")
    if x.dtype not in FLOATS:
        raise TrainError(
            f"{name} is {x.dtype}; the kernels take float32 and bfloat16: convert it, for example .float()"
        )
    if x.stride(1) != 1 and x.shape[1] > 1:
        raise TrainError(f"{name} has strides {x.stride()}; elements of a row must be neighbours: {name}.contiguous()")


def check_width(name: str, width: int) -> None:
    """Check that a row is not longer than the kernels count."""
    if width > LONGEST_ROW:
        raise TrainError(f"{name} has {width} columns, more than the kernels' {LONGEST_ROW}; split the vocabulary")


def check_same_width(hidden: Tensor, weight: Tensor) -> None:
    """Check that a head fits its hidden states."""
    if hidden.shape[1] != weight.shape[1]:
        raise TrainError(f"hidden is {tuple(hidden.shape)} and weight {tuple(weight.shape)}; both need the same width")
    check_device("weight", weight, hidden)


def check_vector(name: str, x: Tensor, like: Tensor, dtype: torch.dtype) -> None:
    """Check a vector with one number for each row of ``like``, on its device."""
    if x.dim() != 1 or len(x) != len(like):
        raise TrainError(f"{name} has shape {tuple(x.shape)}; it must be ({len(like)},), one number for each row")
    if x.dtype != dtype:
        kind = str(dtype).removeprefix("torch.")
        raise TrainError(f"{name} is {x.dtype}; it must be {dtype}: {name}.to(torch.{kind})")
    check_device(name, x, like)


def check_device(name: str, x: Tensor, like: Tensor) -> None:
    """Check that two tensors are on one device."""
    if x.device != like.device:
        raise TrainError(
            f"{name} is on {x.device} and the others are on {like.device}; move it: .to({str(like.device)!r})"
        )


def check_temperature(temperature: float) -> None:
    """Check a temperature."""
    if not 0 < temperature < math.inf:
        raise TrainError(f"temperature={temperature} divides the logits; take a finite number above 0, such as 1.0")


def check_loss(loss: str, sequence: Tensor | None) -> None:
    """Check the name of a loss and that it has the sequences it needs."""
    if loss not in LOSSES:
        raise TrainError(f"loss={loss!r} is unknown; choose one of {', '.join(LOSSES)}")
    if LOSSES[loss].per_sequence and sequence is None:
        raise TrainError(
            f"loss={loss!r} without sequence: its ratio is that of a whole completion; pass one id per token"
        )


def check_head_dtype(head_dtype: str) -> None:
    """Check the precision of a head."""
    if head_dtype not in ("fp32", "bf16"):
        raise TrainError(f"head_dtype={head_dtype!r} is unknown; choose fp32 or bf16")


def check_chunk(chunk_bytes: int) -> None:
    """Check the size of a chunk."""
    if chunk_bytes < 1:
        raise TrainError(f"chunk_bytes={chunk_bytes} holds no row; take some megabytes, such as 64 * 2**20")


def check_range(name: str, ids: Tensor, end: float, remedy: str) -> None:
    """Check on the CPU that ids lie in [0, end); on a GPU looking at the values would stop the stream."""
    if ids.device.type != "cpu" or not len(ids):
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= end:
        raise TrainError(f"{name} holds {low if low < 0 else high}, outside 0 to {end - 1}; {remedy}")
