"""mean@n on held-out prompts, one result per domain: what an evaluation samples, and how many rows at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlscaling.trainer import rng
from rlscaling.trainer.generation.generator import Generator, Sampling
from rlscaling.trainer.generation.paged_cache import bytes_per_row
from rlscaling.trainer.generation.rollout import Group, Rollout, collate
from rlscaling.trainer.model.scoring import token_logp

if TYPE_CHECKING:
    from rlscaling.trainer.model.decoder import Decoder
    from rlscaling.trainer.model.spec import ModelSpec
    from rlscaling.trainer.settings.config import TrainConfig
    from rlscaling.trainer.tasks.task import Prompt, Task


MAX_EVALUATION_ROWS = 4096
MAX_EVALUATION_BYTES = 2**30
"""Bounds of the rows that an evaluation decodes at once, and of their keys and values."""

MISMATCH_ROLLOUTS = 64
"""Completions whose log-probabilities are computed again by the trainer: enough for a mean."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Pass rate of one domain: the mean over prompts of the mean over samples."""

    domain: str
    pass_rate: float
    pass_rate_se: float | None  # from the sampling of completions; None with one sample a prompt
    n_prompts: int
    n_samples: int
    truncation_rate: float
    mean_length: float
    mismatch: float


def evaluate(
    model: Decoder, task: Task, prompts: Sequence[Prompt], config: TrainConfig, *, seed: int
) -> list[Evaluation]:
    """Sample ``eval_samples`` completions of every prompt and score them.

    Parameters
    ----------
    model
        The policy.
    task, prompts
        Held-out prompts of all domains.
    config
        ``eval_samples``, ``temperature``, and the interruption that training has.
    seed
        Seed of the samples; another one in each evaluation.
    """
    rollouts = heldout_rollouts(model, task, prompts, config, seed=seed)
    gap = mismatch(model, rollouts[:MISMATCH_ROLLOUTS], task.pad_id, config)
    return summarize(rollouts, task.domains, config.eval_samples, gap)


def heldout_rollouts(
    model: Decoder,
    task: Task,
    prompts: Sequence[Prompt],
    config: TrainConfig,
    *,
    seed: int,
    numbers: Sequence[int] | None = None,
) -> list[Rollout]:
    """Return the completions of an evaluation, or of those of its prompts that have the ``numbers``."""
    window = config.interrupt_window if config.length_control == "interruption" else None
    # as many completions as training has at once fit the memory, whatever the bound of a small model says
    slots = max(evaluation_slots(model.spec), config.rollouts_per_step)
    n, temperature = config.eval_samples, config.temperature
    return generate_all(
        model, task, prompts, n, seed=seed, temperature=temperature, window=window, slots=slots, numbers=numbers
    )


def evaluation_slots(spec: ModelSpec) -> int:
    """Return how many rows an evaluation decodes at once: few enough for the memory, however many its prompts.

    Examples
    --------
    >>> from rlscaling.trainer.model.spec import ModelSpec
    >>> evaluation_slots(ModelSpec(20))
    4096
    >>> evaluation_slots(ModelSpec(150_000, d_model=896, n_layers=24, n_heads=14, max_positions=4096))
    10
    """
    return max(1, min(MAX_EVALUATION_ROWS, MAX_EVALUATION_BYTES // bytes_per_row(spec)))


def generate_all(
    model: Decoder,
    task: Task,
    prompts: Sequence[Prompt],
    n: int,
    *,
    seed: int,
    temperature: float = 1.0,
    window: tuple[int, int] | None = None,
    version: int = 0,
    slots: int | None = None,
    numbers: Sequence[int] | None = None,
) -> list[Rollout]:
    """Return ``n`` completions of each prompt for an evaluation: prompt after prompt, scored exactly.

    Parameters
    ----------
    model
        The policy.
    task
        Where the prompts come from.
    prompts
        Held-out prompts; the group of a completion is its prompt's number.
    n
        Completions of a prompt.
    seed
        Another one gives other completions; training never shares its noise with an evaluation.
    temperature, window
        As in ``Sampling``.
    version
        Noted at every token.
    slots
        Completions at once; None takes `evaluation_slots`.
    numbers
        Of the prompts, which decide what is sampled; None counts from 0.

    Returns
    -------
    list of Rollout
        Of length ``len(prompts) * n``, sorted by group and sample.
    """
    key = rng.key_of(seed, rng.EVALUATION)
    sampling = Sampling(key, n, temperature, window, exact_score=True)
    generator = Generator(task, sampling, slots=slots or evaluation_slots(model.spec))
    groups = range(len(prompts)) if numbers is None else numbers
    generator.start([(i, prompt, n) for i, prompt in zip(groups, prompts, strict=True)])
    return sorted(generator.advance(model, version), key=lambda r: (r.group, r.sample))


def evaluation_seed(config: TrainConfig, step: int) -> int:
    """Return the seed of the evaluation at a step: other samples at every one, of the same prompts."""
    return config.seed * 1_000_003 + step


def summarize(rollouts: Sequence[Rollout], domains: Sequence[str], n: int, gap: float) -> list[Evaluation]:
    """Return one result per domain of ``n`` completions of each prompt, sorted by prompt; ``gap`` is the mismatch."""
    by_domain: dict[str, list[Rollout]] = {domain: [] for domain in domains}
    for rollout in rollouts:
        by_domain[rollout.prompt.domain].append(rollout)
    return [_summarize(domain, own, n, gap) for domain, own in by_domain.items()]


def _summarize(domain: str, rollouts: Sequence[Rollout], n: int, gap: float) -> Evaluation:
    correct = np.array([rollout.correct for rollout in rollouts], dtype=float).reshape(-1, n)  # (prompts, n)
    rate, error = mean_at_n(correct)
    return Evaluation(
        domain=domain,
        pass_rate=rate,
        pass_rate_se=error,
        n_prompts=len(correct),
        n_samples=n,
        truncation_rate=float(np.mean([rollout.truncated for rollout in rollouts])),
        mean_length=float(np.mean([rollout.length for rollout in rollouts])),
        mismatch=gap,
    )


def mean_at_n(correct: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float | None]:
    """Return the mean over prompts and samples, and its standard error for these prompts.

    ``se = sqrt(sum_p var_p / n) / P``, where ``var_p`` is the sample variance of the ``n`` outcomes of prompt p:
    the error that sampling other completions of the same prompts would make.

    Parameters
    ----------
    correct
        Outcomes, shape (P, n).

    Examples
    --------
    >>> mean_at_n(np.array([[1.0, 0.0], [1.0, 1.0]]))
    (0.75, 0.25)
    """
    n_prompts, n = correct.shape
    if n < 2:
        return float(correct.mean()), None
    return float(correct.mean()), float(np.sqrt(correct.var(1, ddof=1).sum() / n) / n_prompts)


@torch.no_grad()
def mismatch(model: Decoder, rollouts: Sequence[Rollout], pad_id: int, config: TrainConfig) -> float:
    """Return the mean ``|logp_trainer - logp_generator|`` over sampled tokens, in nats, at equal weights.

    Nothing here is stale: what is left is the difference between the two code paths, decoding token by token from
    a cache and one pass over the whole sequence.
    """
    batch = collate([Group(0, rollouts[0].prompt, tuple(rollouts))], pad_id).to(config.device)
    completions = (batch.prompt_ids, batch.tokens, batch.mask, batch.prompt_length)
    logp = token_logp(model, *completions, temperature=config.temperature)
    return float((logp - batch.old_logp[batch.mask]).abs().mean())
