"""Completions that wait: their prompt is read once for each set of weights."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from helpers.ragged_completions import N, Ragged, decoder, generator
from rlscaling.trainer.kernels import ops


def test_a_prompt_is_read_once_for_completions_that_wait() -> None:
    model, own, prompt = decoder(), generator(2), Ragged().train_prompt(1)
    own.start([(1, prompt, N)])
    own.advance(model, 0)
    assert own.n_prefilled == len(prompt.ids)


def test_new_weights_read_a_prompt_again() -> None:
    """Completions that wait begin with the weights that sample them, so that their log-probabilities are of those."""
    old, new, own = decoder(), decoder(seed=1), generator(1, window=None)
    prompt = dataclasses.replace(Ragged().train_prompt(2), length=1)
    own.start([(2, prompt, 2)])
    (first,) = own.advance(old, 0, 1)
    (second,) = own.advance(new, 1, 1)
    assert own.n_prefilled == 2 * len(prompt.ids)
    for rollout, model in ((first, old), (second, new)):
        with torch.no_grad():
            logits = model.logits(model(torch.tensor([prompt.ids]))[0, -1:])
        expected, _ = ops.token_logprobs(logits, torch.tensor(rollout.tokens), 1.0)
        np.testing.assert_allclose(rollout.logp, expected.numpy(), atol=1e-5)
