"""Runs on several ranks: torchrun in a process of its own, and its ranks by number."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers import small_runs
from rlscaling.trainer.training.checkpoint import TRACE

SMALL = {**small_runs.SMALL, "eval_samples": 2, "eval_every": 4, "checkpoint_every": 2, "steps": 8}
MEASURED = (
    "wall_time", "compute", "eval_gpu_hours", "lost_gpu_hours", "modelled_gpu_hours", "idle_fraction",
    "tokens_per_second", "peak_state_bytes",
)  # fmt: skip
SECONDS = 120


def options(**changes: Any) -> list[str]:
    """The settings as a command line has them."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in {**SMALL, **changes}.items()]


def torchrun(ranks: int, *program: str) -> list[str]:
    """The command that starts a program on some ranks of this machine."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *program]


def trainer(ranks: int, folder: Path, *more: str, **changes: Any) -> list[str]:
    """The command that trains."""
    return torchrun(ranks, "-m", "rlscaling.trainer", "--out", str(folder), *options(**changes), *more)


def finish(command: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)


def rows(folder: Path, name: str = TRACE) -> list[dict[str, Any]]:
    """The rows of a trace, header left out."""
    rows = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return [row for row in rows if row["kind"] != "header"]


def repeatable(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without what is measured."""
    return [{k: v for k, v in row.items() if k not in MEASURED and not k.startswith("seconds_")} for row in rows]


def processes(launcher: int) -> dict[int, int]:
    """Rank -> process of the ranks that a torchrun has started."""
    processes = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        ranks = [int(entry[5:]) for entry in environment if entry.startswith(b"RANK=")]
        if ranks:
            processes[ranks[0]] = int(child)
    return processes


def kill_one(command: Sequence[str], folder: Path, victim: int, lines: int) -> tuple[list[bytes], str, float]:
    """Start a run, kill a rank when the trace has so many lines.

    Returns the complete rows that stood in the trace afterwards, what the ranks said, and the seconds until all had
    ended.
    """
    trace, deadline = folder / TRACE, time.monotonic() + SECONDS
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as launcher:
        while not trace.exists() or trace.read_bytes().count(b"\n") < lines:
            assert launcher.poll() is None, launcher.communicate()[0]
            assert time.monotonic() < deadline, "the run writes nothing"
            time.sleep(0.002)
        os.kill(processes(launcher.pid)[victim], signal.SIGKILL)
        began = time.monotonic()
        output, _ = launcher.communicate(timeout=SECONDS)
        assert launcher.returncode != 0
    whole = trace.read_bytes().split(b"\n")[:-1]
    return whole[1:], output, time.monotonic() - began


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
