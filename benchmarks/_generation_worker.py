"""One job of ``generation.py`` with whichever rlscaling stands first on the path; prints one JSON object.

Uses only what every version of the generator has: ``start``, ``advance``, ``n_live``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import _common as common  # first: it keeps BLAS on one thread
from rlscaling.trainer import make_config, rng
from rlscaling.trainer.generation.generator import Generator, Sampling
from rlscaling.trainer.model.build import build_model
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.model.spec import ModelSpec
from rlscaling.trainer.tasks.make import make_task
from rlscaling.trainer.tasks.task import Prompt

SLOTS, COMPLETIONS, MEDIAN, SIGMA, PROMPT = 64, 8192, 8, 1.0, 6
STEPS = 60  # of the default task


def lengths() -> list[int]:
    """Return lognormal lengths, in tokens."""
    drawn = np.random.default_rng(common.SEED).lognormal(np.log(MEDIAN), SIGMA, COMPLETIONS)
    return [max(1, round(x)) for x in drawn]


def prompts(limits: list[int]) -> list[Prompt]:
    """Return one prompt of six tokens for each completion, which ends at its limit and not before."""
    ids = np.random.default_rng(common.SEED + 1).integers(1, 20, (len(limits), PROMPT)).tolist()
    return [Prompt(tuple(row), "", "", i, length=limit) for i, (row, limit) in enumerate(zip(ids, limits, strict=True))]


def task(longest: int) -> Any:
    """Return a task whose completions never end by themselves: no token is its end token."""
    return SimpleNamespace(
        pad_id=0,
        eos_id=-1,
        stop_ids=(-1,),
        think_end_id=-1,
        phrase=(),
        max_new_tokens=longest,
        score=lambda *_: (0.0, -1.0),
    )


def model(longest: int) -> Decoder:
    """Return the default decoder with room for the longest completion."""
    torch.manual_seed(0)
    return Decoder(ModelSpec(20, max_positions=PROMPT + longest))


def cache_bytes(generator: Any) -> int:
    """Return the bytes of keys and values between two calls."""
    cache = generator._cache
    parts = [] if cache is None else [*cache.k, *cache.v]  # one tensor of all layers in the past, a list now
    return sum(part.numel() * part.element_size() for part in parts)


def kept_full(policy: Decoder, limits: list[int], *, to_the_end: bool = True) -> Any:
    """Decode completions of these lengths in 64 slots kept full; yield the generator after each call."""
    generator, questions = Generator(task(max(limits)), Sampling(rng.key_of(0), 1)), prompts(limits)
    started = 0
    while started < len(questions) or (to_the_end and generator.n_live):
        room = min(SLOTS - generator.n_live, len(questions) - started)
        generator.start([(started + i, questions[started + i], 1) for i in range(room)])
        started += room
        generator.advance(policy, 0, 1)
        yield generator


def lognormal() -> dict[str, float]:
    """The default model and many short completions."""
    limits = lengths()
    policy = model(max(limits))
    began, calls, most = time.process_time(), 0, 0
    for generator in kept_full(policy, limits):
        calls += 1
        most = max(most, cache_bytes(generator))
    return {
        "seconds": time.process_time() - began,
        "calls": calls,
        "tokens": generator.n_sampled,
        "cache_bytes": most,
    }


def long() -> dict[str, float]:
    """Up to 1,000 tokens, 8 query heads of width 32 on 2 key heads, four layers; until no completion waits."""
    limits = [min(20 * length, 1000) for length in lengths()[:192]]
    torch.manual_seed(0)
    sizes = {"d_model": 256, "n_heads": 8, "n_kv_heads": 2, "d_ff": 256}
    policy = Decoder(ModelSpec(20, n_layers=4, max_positions=PROMPT + 1000, **sizes))
    began, most = time.process_time(), 0
    for generator in kept_full(policy, limits, to_the_end=False):
        most = max(most, cache_bytes(generator))
    return {"seconds": time.process_time() - began, "tokens": generator.n_sampled, "cache_bytes": most}


def default() -> dict[str, float]:
    """Generate what so many steps of the default run need, batch after batch."""
    config = make_config()
    own = make_task(config)
    policy = build_model(config, own)
    generator = Generator(own, Sampling(rng.key_of(0), config.generations))
    began, most = time.process_time(), 0
    for step in range(STEPS):
        first = step * config.prompts_per_step
        groups = range(first, first + config.prompts_per_step)
        generator.start([(g, own.train_prompt(g), config.generations) for g in groups])
        while generator.n_live:
            generator.advance(policy, step, 1)
            most = max(most, cache_bytes(generator))
    return {"seconds": time.process_time() - began, "tokens": generator.n_sampled, "cache_bytes": most}


def memory() -> dict[str, float]:
    """Keep 64 slots full with a model of 16 KiB a token and room for 600 positions; return what the process grew by."""
    limits = [min(length, 400) for length in lengths()[:160]]
    torch.manual_seed(0)
    policy = Decoder(ModelSpec(20, d_model=256, n_layers=8, n_heads=8, n_kv_heads=8, d_ff=64, max_positions=600))
    for _ in kept_full(policy, [1]):  # what torch itself allocates at the first pass
        pass
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of what was before
    before = peak_kib()
    for _ in kept_full(policy, limits):
        pass
    return {"peak_bytes": 1024.0 * (peak_kib() - before)}


def peak_kib() -> int:
    """Return the largest resident set of this process since it was last forgotten, in KiB (Linux)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    jobs = {"lognormal": lognormal, "long": long, "default": default, "memory": memory}
    print(json.dumps(jobs[sys.argv[1]]()))
