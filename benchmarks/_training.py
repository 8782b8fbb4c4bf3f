"""What the trainer's benchmarks share: runs trained several at a time, kept in a folder, and read back."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rlscaling import Trace, fit_trace, read_trace
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.trainer import TrainConfig, train

LATE = 5  # evaluations at the end whose mean is the pass rate reached


def train_all(jobs: Mapping[str, TrainConfig], out: Path, processes: int) -> dict[str, Path]:
    """Train the runs that are not there yet and return their traces by name; side by side with one thread each.

    A benchmark that was interrupted goes on where it was.
    """
    if processes > 1:
        jobs = {name: dataclasses.replace(config, threads=1) for name, config in jobs.items()}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, max_tasks_per_child=1) as pool:
        futures = {name: pool.submit(_train, config, out / name) for name, config in jobs.items()}
        for done, (name, future) in enumerate(futures.items(), start=1):
            print(f"  {done}/{len(jobs)} {name}: {future.result():.3f}", file=sys.stderr, flush=True)
    return {name: out / name / "trace.jsonl" for name in jobs}


def _train(config: TrainConfig, folder: Path) -> float:
    rates = train(config, folder, resume=True).pass_rates
    return list(rates.values())[-1]


def on_steps(path: Path) -> Trace:
    """Return the evaluations of a run against optimizer steps."""
    return read_trace(path, compute_column="step", compute_unit="steps")


def fit_on_steps(trace: Trace) -> SigmoidFit:
    """Fit the evaluations after the first epoch."""
    return fit_trace(trace, min_compute="epoch")


def rows(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the rows of one kind."""
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return [row for row in rows if row["kind"] == kind]


def reached(trace: Trace) -> float:
    """Return the mean pass rate of the last evaluations."""
    return float(np.mean(trace.pass_rate[-LATE:]))
