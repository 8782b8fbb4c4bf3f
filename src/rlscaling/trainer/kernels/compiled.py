"""Launches of compiled kernels, on a GPU or in the emulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from rlscaling.trainer.algorithm.losses import Clip, Loss, LossStats
from rlscaling.trainer.kernels import reference, sources
from rlscaling.trainer.kernels.types import LossTerms, RowStatistics

LARGEST_BLOCK = sources.largest_block()
ONE_WARP_UP_TO = 1024
"""Columns up to which one warp reads a row: no barrier, and 32 lanes of 16 bytes take few rounds."""

_SUFFIX = {torch.float32: "f32", torch.bfloat16: "bf16"}


class Launch(Protocol):
    """Runs a kernel: source, name, blocks, threads of a block, arguments in the order of the declaration."""

    def __call__(
        self, path: str, kernel: str, grid: int, block: int, values: Sequence[Tensor | float | None], /
    ) -> None:
        """Run it."""
        ...


class Compiled:
    """The operations on compiled kernels.

    Parameters
    ----------
    launch
        Runs a kernel on the device of its tensors.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def row_forward(self, logits: Tensor, tokens: Tensor, temperature: float) -> RowStatistics:
        """Return log-probability of each row's token, entropy, maximum and log of the sum."""
        n, width = logits.shape
        rows = RowStatistics(
            *(torch.empty(n, dtype=torch.float32, device=logits.device) for _ in RowStatistics._fields)
        )
        values = (logits, logits.stride(0), width, tokens.contiguous(), 1 / temperature, *rows)
        self._rows("row", "row_forward", logits, values)
        return rows

    def row_backward(
        self,
        logits: Tensor,
        tokens: Tensor,
        rows: RowStatistics,
        d_logp: Tensor,
        d_entropy: Tensor | None,
        temperature: float,
        out: Tensor,
    ) -> None:
        """Write the gradient of the logits to ``out``, which may be ``logits`` itself."""
        slopes = (d_logp.contiguous(), None if d_entropy is None else d_entropy.contiguous())
        shape = (logits, logits.stride(0), logits.shape[1], tokens.contiguous())
        statistics = (rows.top.contiguous(), rows.log_sum.contiguous(), rows.entropy.contiguous())
        values = (*shape, *statistics, *slopes, 1 / temperature, out, out.stride(0))
        self._rows("row", "row_backward", logits, values)

    def sample(
        self, logits: Tensor, streams: Tensor, positions: Tensor, key: int, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Return a token of each row and its log-probability."""
        n, width = logits.shape
        tokens = torch.empty(n, dtype=torch.int64, device=logits.device)
        logp = torch.empty(n, dtype=torch.float32, device=logits.device)
        counter = (streams.contiguous(), positions.contiguous(), key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF)
        self._rows(
            "sample", "sample", logits, (logits, logits.stride(0), width, *counter, 1 / temperature, tokens, logp)
        )
        return tokens, logp

    def policy_loss(
        self,
        logp: Tensor,
        old_logp: Tensor,
        advantage: Tensor,
        weight: Tensor,
        sequence: Tensor | None,
        loss: Loss,
        clip: Clip,
    ) -> LossTerms:
        """Return the weighted sum of token losses, its gradient and statistics."""
        if loss.kernel_kind is None:
            return reference.policy_loss(logp, old_logp, advantage, weight, sequence, loss, clip)
        n, device = len(logp), logp.device
        per_token = [tensor.contiguous() for tensor in (logp, old_logp, advantage, weight)]
        slope = torch.empty(n, dtype=torch.float32, device=device)
        if loss.per_sequence:
            assert sequence is not None
            order, first = _by_sequence(sequence)
            grid, block, kernel = len(first) - 1, 32, "sequence_loss"
            leading: tuple[Tensor | float, ...] = (order, first)
        else:
            grid, block, kernel = -(-n // LARGEST_BLOCK), LARGEST_BLOCK, "token_loss"
            leading = (loss.kernel_kind, n)
        partial = torch.empty(grid, 5, dtype=torch.float32, device=device)
        if grid:
            self._launch(
                "policy_loss", kernel, grid, block, (*leading, *per_token, *loss.ratio_bounds(clip), slope, partial)
            )
        value, *stats = _totals(partial)
        return LossTerms(value, slope, LossStats(*stats))

    def _rows(self, path: str, kernel: str, logits: Tensor, values: Sequence[Tensor | float | None]) -> None:
        """Launch one block for each row."""
        n, width = logits.shape
        block = 32 if width <= ONE_WARP_UP_TO else LARGEST_BLOCK
        if n:
            self._launch(path, f"{kernel}_{_SUFFIX[logits.dtype]}", n, block, values)


def _by_sequence(sequence: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens sorted by sequence, and where each sequence begins (and the last ends), (S + 1,)."""
    ordered, order = sequence.sort(stable=True)
    n = int(ordered[-1]) + 1 if len(ordered) else 0
    return order, torch.searchsorted(ordered, torch.arange(n + 1, device=sequence.device))


def _totals(partial: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Add up what the blocks left: value, tokens, sum of ratios, largest ratio, clipped tokens."""
    value, tokens, ratio_sum, _, clipped = partial.double().sum(0).unbind()  # FP32 stops counting at 2**24
    ratio_max = partial[:, 3].max() if len(partial) else partial.sum()
    return value.float(), tokens.long(), ratio_sum.float(), ratio_max, clipped.long()
