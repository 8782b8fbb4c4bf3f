"""Continuous batching against static batches: decode calls, occupied slots, the same tokens, CPU time, memory.

    python benchmarks/generation.py                     # against a batch that runs until its longest completion ends
    python benchmarks/generation.py --against 7ea2627   # and against the generator of a commit, which copied its cache

8,192 completions of lognormal length (sigma 1, median 8 tokens) in 64 slots, decoded by the default model on one
thread. ``--against`` checks the commit out into a folder of its own and runs the same jobs with it, in turn.
"""

from __future__ import annotations

import _common as common  # first: it keeps BLAS on one thread

# isort: split
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import _generation_worker as worker
from rlscaling.trainer import rng
from rlscaling.trainer.generation.generator import Generator, Sampling

HERE = Path(__file__).parent
ROUNDS = 3


def continuous(policy: Any, task: Any, prompts: list[Any]) -> tuple[float, int, list[Any]]:
    """Return CPU seconds, calls, and the completions in order."""
    own = Generator(task, Sampling(rng.key_of(0), 1), slots=worker.SLOTS)
    began, calls, out = time.process_time(), 0, []
    own.start([(i, prompt, 1) for i, prompt in enumerate(prompts)])
    while own.n_live:
        out += own.advance(policy, 0, 1)
        calls += 1
    return time.process_time() - began, calls, sorted(out, key=lambda rollout: rollout.group)


def static(policy: Any, task: Any, limits: list[int]) -> tuple[float, int, list[Any]]:
    """The same of batches of 64 in which every row goes on until the longest has ended."""
    own = Generator(task, Sampling(rng.key_of(0), 1))
    began, calls, out = time.process_time(), 0, []
    longest = [max(limits[i : i + worker.SLOTS]) for i in range(0, len(limits), worker.SLOTS)]
    prompts = worker.prompts([longest[i // worker.SLOTS] for i in range(len(limits))])
    for batch, length in enumerate(longest):
        numbers = range(batch * worker.SLOTS, min((batch + 1) * worker.SLOTS, len(limits)))
        own.start([(i, prompts[i], 1) for i in numbers])
        out += own.advance(policy, 0)
        calls += length
    return time.process_time() - began, calls, sorted(out, key=lambda rollout: rollout.group)


def against_static() -> tuple[list[common.Check], dict[str, Any]]:
    limits = worker.lengths()
    policy, task, prompts = worker.model(max(limits)), worker.task(max(limits)), worker.prompts(limits)
    seconds, calls, ours = continuous(policy, task, prompts)
    static_seconds, static_calls, theirs = static(policy, task, limits)
    other = sum(a.tokens.tolist() != b.tokens[:n].tolist() for a, b, n in zip(ours, theirs, limits, strict=True))
    gap = max(float(np.abs(a.logp - b.logp[:n]).max()) for a, b, n in zip(ours, theirs, limits, strict=True))
    tokens = sum(limits)
    note = (
        f"{calls:,} against {static_calls:,} for {tokens:,} tokens; longest {max(limits)}, mean {np.mean(limits):.1f}"
    )
    micro = f"{1e6 * seconds / tokens:.0f} against {1e6 * static_seconds / tokens:.0f} us a token"
    checks = [
        common.Check("decode calls, of those of static batches", calls / static_calls, 0.3, False, note=note),
        common.Check("occupied slots", tokens / (worker.SLOTS * calls), 0.85, True, unit=""),
        common.Check("completions with other tokens", other, 0, False, unit="", note=f"of {len(limits):,}"),
        common.Check("largest difference of a log-probability", gap, 1e-5, False, unit=""),
        common.Check("CPU time per token, static batches over ours", static_seconds / seconds, 1, True, note=micro),
    ]
    return checks, {"calls": calls, "static_calls": static_calls, "tokens": tokens}


def run_worker(source: Path, job: str) -> dict[str, float]:
    path = os.pathsep.join((str(source), str(HERE)))
    command = [sys.executable, str(HERE / "_generation_worker.py"), job]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{job} with {source} failed:\n{done.stderr[-4000:]}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def against_commit(commit: str, folder: Path) -> tuple[list[common.Check], dict[str, Any]]:
    packed = folder / "src.tar"
    subprocess.run(["git", "archive", "-o", packed, commit, "src"], cwd=HERE.parent, check=True)
    subprocess.run(["tar", "-xf", packed, "-C", folder], check=True)
    sources = {"then": folder / "src", "now": HERE.parent / "src"}
    checks: list[common.Check] = []
    more: dict[str, Any] = {}
    for job, least in (("lognormal", 1.0), ("long", 1.0), ("default", 0.95), ("memory", 1.0)):
        rounds = [{name: run_worker(source, job) for name, source in sources.items()} for _ in range(ROUNDS)]
        more[job] = rounds
        then, now = ([r[name] for r in rounds] for name in ("then", "now"))
        if job == "memory":
            ratio = common.median_ratio([r["peak_bytes"] for r in then], [r["peak_bytes"] for r in now])
            note = f"{then[0]['peak_bytes'] / 2**20:.0f} against {now[0]['peak_bytes'] / 2**20:.0f} MiB"
            checks.append(common.Check(f"{job}: peak, {commit} over ours", ratio, least, True, note=note))
            continue
        assert then[0]["tokens"] == now[0]["tokens"], "not the same work"
        ratio = common.median_ratio([r["seconds"] for r in then], [r["seconds"] for r in now])
        micro = [1e6 * min(r["seconds"] for r in rs) / rs[0]["tokens"] for rs in (then, now)]
        note = f"{micro[0]:.1f} against {micro[1]:.1f} us a token"
        checks.append(common.Check(f"{job}: CPU time, {commit} over ours", ratio, least, True, note=note))
    return checks, more


def main() -> int:
    parser = common.arguments((__doc__ or "").splitlines()[0])
    parser.add_argument("--against", metavar="COMMIT", help="also the generator of this commit, with the same jobs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    checks, more = against_static()
    if options.against:
        with tempfile.TemporaryDirectory() as folder:
            others, more["against"] = against_commit(options.against, Path(folder))
        checks += others
    title = f"Generation in {worker.SLOTS} slots, lognormal lengths"
    return common.finish(title, checks, common.versions("torch", "numpy"), options.json, more)


if __name__ == "__main__":
    sys.exit(main())
