"""Prompts of any length are read in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from helpers.ragged_completions import VOCAB, decoder
from rlscaling.trainer.generation.prefill import at_once, piece, read_prompts

LENGTHS = (1, 3, 3, 9, 17, 30, 30, 31, 31, 60)


@pytest.mark.parametrize(("tokens", "scores", "longest"), [(8192, 2**22, 512), (60, 10**6, 7), (10**6, 400, 512)])
def test_prompts_of_any_length_are_read_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, tokens: int, scores: int, longest: int
) -> None:
    for name, value in (("MAX_TOKENS", tokens), ("MAX_SCORES", scores), ("MAX_PIECE", longest)):
        monkeypatch.setattr(f"rlscaling.trainer.generation.prefill.{name}", value)
    model, draw = decoder(), np.random.default_rng(5)
    prompts = [tuple(draw.integers(2, VOCAB, length).tolist()) for length in draw.permutation(LENGTHS)]
    passes: list[tuple[int, int, int]] = []

    def note(_: Any, args: tuple[torch.Tensor], kwargs: dict[str, Any]) -> None:
        passes.append((*args[0].shape, kwargs["cache"].longest))

    model.register_forward_pre_hook(note, with_kwargs=True)
    seen = []
    with torch.no_grad():
        for reading in read_prompts(model, prompts, 0):
            for row, i in enumerate(reading.numbers):
                whole = decoder()(torch.tensor([prompts[i]]))[0, -1]
                torch.testing.assert_close(reading.hidden[row], whole, atol=1e-5, rtol=1e-4)
                assert int(reading.cache.positions[row]) == len(prompts[i])
                seen.append(i)
    assert sorted(seen) == list(range(len(prompts)))
    for rows, width, before in passes:
        assert width <= longest
        assert rows * width <= max(tokens, width)
        assert rows == 1 or rows * width * (before + width) <= scores
        assert width == 1 or width * (before + width) <= max(scores, width * width)


def test_pieces_keep_to_their_bounds() -> None:
    for length in (1, 6, 511, 512, 513, 4096, 8192, 131_072, 10**7):
        assert 1 <= piece(length) <= min(length, 512)
        assert at_once(length) >= 1
        if length <= 8192:
            assert piece(length) * at_once(length) * length <= 2**22
