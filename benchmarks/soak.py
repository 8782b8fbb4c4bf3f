"""A generator and a trainer on the CPU for a while: does memory stay flat, does nothing leak, is the trace complete?

    python benchmarks/soak.py --minutes 3        # nox -s soak; nox -s full runs 30

Every two seconds it reads memory, threads and open files of both ranks from /proc (Linux). Memory in the second half of
the run may be at most 3 % above that at the end of the first; threads and files may not grow at all.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _common import SEED, Check, arguments, finish, versions  # first: it keeps BLAS on one thread
from _ranks import processes, torchrun

K = 4
EVERY = 2.0
WARM_SHARE = 0.1  # of the samples: caches fill
SETTINGS = [
    "--threads=1", f"--seed={SEED}", f"--k={K}", "--steps=100000000", "--prompts-per-step=16", "--generations=8",
    "--eval-every=200", "--eval-prompts=64", "--checkpoint-every=200", "--curriculum=uniform",
]  # fmt: skip


def sample(process: int) -> tuple[float, int, int]:
    """Resident MB, threads and open files of a process."""
    folder = Path(f"/proc/{process}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1e3, int(status["Threads"]), len(os.listdir(folder / "fd"))


def watch(folder: Path, minutes: float) -> dict[int, list[tuple[float, int, int]]]:
    """Run for so long; return the samples of each rank."""
    samples: dict[int, list[tuple[float, int, int]]] = {0: [], 1: []}
    command = torchrun(2, "-m", "rlscaling.trainer", "--out", str(folder), *SETTINGS)
    log_file = folder.with_suffix(".log")
    with log_file.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as launcher:
        trace = folder / "trace.jsonl"
        while not trace.exists() or trace.read_bytes().count(b"\n") < 10:
            if launcher.poll() is not None:
                raise SystemExit(f"the run ended before it began:\n{log_file.read_text()}")
            time.sleep(0.1)
        ranks, until = processes(launcher.pid), time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            if launcher.poll() is not None:
                raise SystemExit(f"the run ended by itself:\n{log_file.read_text()}")
            for rank, process in ranks.items():
                samples[rank].append(sample(process))
            time.sleep(EVERY)
        launcher.send_signal(signal.SIGTERM)
    return samples


def checks_of(rank: int, samples: list[tuple[float, int, int]]) -> list[Check]:
    samples = samples[int(WARM_SHARE * len(samples)) :]
    half = len(samples) // 2
    memory, threads, files = zip(*samples, strict=True)
    quarter = max(1, half // 2)
    before, after = statistics.median(memory[half - quarter : half]), statistics.median(memory[-quarter:])
    name = ("trainer", "generator")[rank]
    return [
        Check(f"{name}: memory, end over middle", after / before, 1.03, False, "", f"{before:.0f} -> {after:.0f} MB"),
        Check(f"{name}: threads, most after the middle", max(threads[half:]), max(threads[:half]), False, ""),
        Check(f"{name}: open files, most after the middle", max(files[half:]), max(files[:half]), False, ""),
    ]


def trace_checks(folder: Path) -> list[Check]:
    rows = [json.loads(line) for line in (folder / "trace.jsonl").read_bytes().split(b"\n")[1:-1]]
    steps = [row["step"] for row in rows if row["kind"] == "train"]
    evaluated = [row["step"] for row in rows if row["kind"] == "eval"]
    missing = len(set(range(1, steps[-1] + 1)) ^ set(steps)) + len(steps) - len(set(steps))
    missing += len(set(range(0, steps[-1], 200)) - set(evaluated))
    lag = max(row["lag_max"] or 0 for row in rows if row["kind"] == "train")
    return [
        Check("steps missing from the trace, or twice in it", missing, 0, False, "", f"of {steps[-1]}"),
        Check("oldest token at its use, updates", lag, K, False, ""),
    ]


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        folder = Path(out) / "run"
        samples = watch(folder, options.minutes)
        checks = [check for rank, own in samples.items() for check in checks_of(rank, own)] + trace_checks(folder)
    title = f"A generator and a trainer for {options.minutes:g} minutes"
    return finish(title, checks, versions("rlscaling", "torch"), options.json)


if __name__ == "__main__":
    sys.exit(main())
