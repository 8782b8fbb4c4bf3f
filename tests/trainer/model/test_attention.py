"""Both ways of computing attention agree."""

from __future__ import annotations

import pytest
import torch

from helpers.random_decoders import SPECS, random_model, tokens_of


@pytest.mark.parametrize("name", SPECS)
def test_both_ways_of_attention_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folded query heads with a mask, and the plain causal product of longer sequences."""
    model, tokens = random_model(SPECS[name]), tokens_of(SPECS[name])
    with torch.no_grad():
        folded = model(tokens)
        monkeypatch.setattr("rlscaling.trainer.model.attention.GROUPED_UP_TO", 0)
        torch.testing.assert_close(model(tokens), folded, atol=1e-5, rtol=1e-4)
