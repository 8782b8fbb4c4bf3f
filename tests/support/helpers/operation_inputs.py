"""Inputs of the operations with a kernel, and the refusal that is expected of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rlscaling.trainer.errors import TrainError

N, WIDTH, VOCAB = 12, 8, 31


def floats(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ids(end: int = VOCAB) -> Tensor:
    return torch.arange(N) * 7 % end


def refused(message: str) -> Any:
    return pytest.raises(TrainError, match=message)


def tokens(n: int, *, sorted_sequences: bool = True) -> dict[str, Tensor]:
    """Tokens of sequences of seven on average, one of them without tokens in the loss, one without tokens at all."""
    generator = torch.Generator().manual_seed(n)
    sequence = torch.randint(max(1, n // 7), (n,), generator=generator)
    sequence = torch.where(sequence == 2, 1, sequence)
    if sorted_sequences:
        sequence = sequence.sort().values
    logp = -torch.rand(n, generator=generator) * 3 - 0.01
    weight = torch.rand(n, generator=generator) * (torch.rand(n, generator=generator) > 0.2) / n
    return {
        "logp": logp,
        "old_logp": logp + torch.randn(n, generator=generator) * 0.3,
        "advantage": torch.randn(n, generator=generator),
        "weight": weight.masked_fill(sequence == 1, 0.0),
        "sequence": sequence,
    }
