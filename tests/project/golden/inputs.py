"""Traces, logs and fits that the kept outputs are made of: all bundled, simulated or written here."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

import rlscaling as rl

SETTINGS = {
    "COLUMNS": "120", "LINES": "40", "NO_COLOR": "1", "MPLBACKEND": "Agg", "RLSCALING_KERNELS": "reference",
}  # fmt: skip


@functools.cache
def demo() -> dict[str, rl.Trace]:
    return rl.datasets.load_demo()


@functools.cache
def fit(name: str = "scalerl", **options: Any) -> rl.SigmoidFit:
    return rl.fit_trace(demo()[name], **options)


@functools.cache
def boot(name: str = "scalerl", **options: Any) -> rl.Bootstrap:
    return rl.bootstrap(fit(name), rng=0, **options)


@functools.cache
def compared(*names: str, **options: Any) -> rl.Comparison:
    return rl.compare({name: fit(name) for name in names}, rng=0, **options)


@functools.cache
def left_out() -> rl.LeaveOneOut:
    return rl.leave_one_out({name: fit(name) for name in ("scalerl", "batch-512")}, rng=0)


@functools.cache
def seeds() -> dict[str, list[rl.Trace]]:
    """Two recipes with three simulated seeds each."""
    truth = rl.datasets.table1()
    found = {}
    for recipe, row in (("sturdy", "scalerl"), ("swift", "math-code-code")):
        runs = []
        for seed in range(3):
            params = dataclasses.replace(truth[row], A=truth[row].A + 0.01 * (seed - 1))
            run = rl.simulate(params, compute=np.arange(0, 16001, 400), rng=seed, name=f"{recipe}-{seed}")
            runs.append(dataclasses.replace(run, metadata={"recipe": recipe, "seed": seed, "run_id": run.name}))
        found[recipe] = runs
    return found


def seed_fits() -> dict[str, list[rl.SigmoidFit]]:
    return {recipe: [rl.fit_trace(run) for run in runs] for recipe, runs in seeds().items()}


@functools.cache
def fallen() -> rl.Trace:
    """A run that loses its curve in the last quarter."""
    trace = demo()["scalerl"]
    late = np.maximum(trace.compute - 12_000, 0)
    return dataclasses.replace(trace, pass_rate=trace.pass_rate - late / 40_000, name="fallen")


def seeds_report() -> rl.Report:
    """A report on recipes with seeds, with a run that is refused and one that is flat."""
    runs = {run.name: run for traces in seeds().values() for run in traces[:2]}
    recipes = {run.name: run.metadata["recipe"] for run in runs.values()}
    flat = rl.read_trace("logs/flat.jsonl")
    return rl.make_report(
        runs | {"flat": flat}, recipes=recipes | {"flat": "flat"}, refused={"gone": "no such file"}, at=[50_000],
        title="Two recipes & a flat run", n_resamples=100, rng=0,
    )  # fmt: skip


def trained(path: Path) -> None:
    """Write a trace as the bundled trainer does."""
    header = {"kind": "header", "schema_version": 1, "name": "trained", "compute_column": "compute", "n_devices": 2}
    rows: list[dict[str, Any]] = [header]
    for step in range(1, 5):
        at = {"step": step, "compute": step / 4}
        rows.append({"kind": "train", **at, "tokens_generated": 9000 * step, "loss": 1 / step, "mean_length": 5.0})
        rows.append({"kind": "eval", **at, "pass_rate": step / 8, "domain": "sort", "n_samples": 16})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def verl_lines(steps: int = 60, every: int = 5) -> list[str]:
    """Return the lines that verl's file logger writes, on 64 devices."""
    score = "val-core/math_dapo/acc/mean@16"
    lines = [json.dumps({"step": 0, "data": {score: 0.25}})]
    for step in range(1, steps + 1):
        seconds, tokens = 600.0 + step % 7, 2.0e7 + 1000.0 * (step % 11)
        data = {"training/global_step": step, "critic/score/mean": step / 100, "timing_s/step": seconds}
        data |= {"perf/time_per_step": seconds, "perf/total_num_tokens": tokens}
        data |= {"perf/throughput": tokens / (64 * seconds)}
        if step % every == 0:
            data |= {score: 0.25 + step / 200, "timing_s/testing": 120.0}
        lines.append(json.dumps({"step": step, "data": data}))
    return lines


def lay_out(folder: Path) -> None:
    """Write the files that the commands read."""
    for name in ("demo", "seeds", "logs"):
        (folder / name).mkdir()
    for name, trace in demo().items():
        rl.write_trace(trace, folder / "demo" / f"{name}.jsonl")
    for run in (run for runs in seeds().values() for run in runs):
        rl.write_trace(run, folder / "seeds" / f"{run.name}.jsonl")
    logs, run = folder / "logs", demo()["scalerl"]
    rl.write_trace(fallen(), logs / "fallen.jsonl")
    rl.write_trace(run.up_to(600), logs / "short.jsonl")
    flat = 0.4 + 0.003 * np.sin(np.arange(len(run)) ** 2)
    rl.write_trace(rl.Trace(run.compute, flat, name="flat"), logs / "flat.jsonl")
    tokens = rl.Trace(run.compute * 1e7, run.pass_rate, compute_unit="tokens", name="tokens")
    rl.write_trace(tokens, logs / "tokens.jsonl")
    rl.write_traces(demo(), logs / "demo.parquet")
    percent = [f"{c:g},{100 * p:.4f}" for c, p in zip(run.compute, run.pass_rate, strict=True)]
    (logs / "percent.csv").write_text("\n".join(["gpu_hours,pass_rate", *percent]) + "\n")
    rl.save_fit(fit(), logs / "saved.json")
    saved = fit().to_dict() | {"covariance": []}
    (logs / "damaged.json").write_text(json.dumps(saved))
    lines = verl_lines()
    (logs / "verl.jsonl").write_text("\n".join(lines) + "\n")
    (logs / "torn.jsonl").write_text("\n".join(lines)[:-40])
    (logs / "headless.jsonl").write_text("\n".join(lines[21:]) + "\n")
    (logs / "broken.jsonl").write_text("no log\nat all\n")
    trained(logs / "trained.jsonl")


@contextlib.contextmanager
def at_work(files: Path, folder: Path) -> Iterator[None]:
    """Copy the files into a folder, and work there with one thread, on a terminal of fixed width without colours."""
    shutil.copytree(files, folder, dirs_exist_ok=True)
    with mock.patch.dict(os.environ, SETTINGS), contextlib.chdir(folder), threadpool_limits(1):
        for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "PYTHON_COLORS"):
            os.environ.pop(name, None)
        yield
