"""A task whose prompts and completions differ in length, and a decoder and a generator for it."""

from __future__ import annotations

import numpy as np
import torch

from rlscaling.trainer import rng
from rlscaling.trainer.generation.generator import Generator, Sampling
from rlscaling.trainer.generation.rollout import Rollout
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.model.spec import ModelSpec
from rlscaling.trainer.tasks.task import Prompt, Score

VOCAB, LONGEST, MAX_POSITIONS, N = 12, 24, 64, 5
SPEC = ModelSpec(VOCAB, d_model=16, d_ff=16, max_positions=MAX_POSITIONS)


class Ragged:
    """Prompts of 1 to 40 tokens whose completions end at a limit of their own, or at the end token before it."""

    pad_id, eos_id, think_end_id, stop_ids = 0, 1, 2, (1,)
    phrase = (3, 2)
    max_new_tokens = LONGEST

    def train_prompt(self, i: int) -> Prompt:
        draw = np.random.default_rng([7, i])
        ids = tuple(draw.integers(2, VOCAB, int(draw.choice([1, 2, 5, 6, 40]))).tolist())
        limit = min(LONGEST, max(1, round(draw.lognormal(1.6, 1.0))))
        return Prompt(ids, "", "ragged", i, length=limit, fixed=False, thinks=bool(i % 2))

    def score(self, prompt: Prompt, completion: tuple[int, ...], u: float | None = None) -> Score:
        return Score(float(sum(completion) % 2), 1.0)


def decoder(spec: ModelSpec = SPEC, seed: int = 0) -> Decoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Decoder(spec)


def generator(slots: int | None = None, window: tuple[int, int] | None = (3, 6)) -> Generator:
    return Generator(Ragged(), Sampling(rng.key_of(3), N, window=window), slots=slots)  # type: ignore[arg-type]


def check_same(rollouts: list[Rollout], expected: list[Rollout], logp_within: float = 1e-5) -> None:
    names = [(r.group, r.sample) for r in expected]
    assert sorted((r.group, r.sample) for r in rollouts) == sorted(names), "each completion ends exactly once"
    by_name = {(r.group, r.sample): r for r in rollouts}
    for reference in expected:
        actual = by_name[reference.group, reference.sample]
        assert actual.tokens.tolist() == reference.tokens.tolist()
        assert actual.sampled.tolist() == reference.sampled.tolist()
        assert (actual.correct, actual.truncated, actual.interrupted) == (
            reference.correct,
            reference.truncated,
            reference.interrupted,
        )
        assert np.abs(actual.logp - reference.logp).max() <= logp_within
