"""What the benchmarks share: one thread, versions, interleaved timing, a table, the exit code.

Import this before numpy: it keeps BLAS on one core, so that "one core" means one core.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

SEED = 251013786  # the paper's arXiv number


@dataclass(frozen=True)
class Check:
    """One measured number beside the number it has to reach."""

    name: str
    value: float
    limit: float
    at_least: bool  # else at most
    unit: str = "x"
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def versions(*packages: str) -> dict[str, str]:
    """Return the machine's processor and the versions of Python and of ``packages``."""
    found = {"cpu": cpu_model(), "python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a source tree
            found[name] = getattr(__import__(name), "__version__", "unknown")
    return found


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def interleaved(tasks: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Return CPU seconds of each task in each round: A B C, A B C, ... after one unmeasured round.

    Neighbours in time see the same load of the machine, so ratios within a round are fair.
    """
    for task in tasks:
        task()
    rounds = []
    for _ in range(repeats):
        seconds = []
        for task in tasks:
            start = time.process_time()
            task()
            seconds.append(time.process_time() - start)
        rounds.append(seconds)
    return [list(column) for column in zip(*rounds, strict=True)]


def median_ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Return the median over the rounds of ``slow / fast``."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="PATH", help="write the numbers to this file ('-' for standard output)")
    return parser


def with_real_curves(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, bool]:
    """Return the arguments, ``--data`` among them, and whether that folder holds the real curves; says so if not."""
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    args = parser.parse_args()
    there = (args.data / "traces_sources.csv").is_file()
    if not there:
        print(f"{args.data} holds no real curves; nothing was measured (--data names another folder)")
    return args, there


def finish(
    title: str, checks: Sequence[Check], about: dict[str, str], path: str | None, more: dict[str, object] | None = None
) -> int:
    """Print the table, write the JSON, return the exit code: 0 when every check holds."""
    if path != "-":
        print(title)
        print("  " + ", ".join(f"{k} {v}" for k, v in about.items()))
        width = max(len(c.name) for c in checks)
        for c in checks:
            sign = ">=" if c.at_least else "<="
            target = f"{sign} {c.limit:g} {c.unit}"
            mark = "pass" if c.passed else "FAIL"
            print(f"  {mark}  {c.name:<{width}}  {c.value:8.4g} {c.unit:<3}{target:<12} {c.note}".rstrip())
    record = {
        "benchmark": title,
        "about": about,
        "checks": [asdict(c) | {"passed": c.passed} for c in checks],
        **(more or {}),
    }
    text = json.dumps(record, indent=1)
    if path == "-":
        print(text)
    elif path:
        Path(path).write_text(text + "\n")
    return 0 if all(c.passed for c in checks) else 1


def set_weights(last_value: Sequence[float] | None) -> None:
    """Give the last value another weight in the combined forecast of this process: at the data, and lost a doubling."""
    if last_value is not None:
        from rlscaling.uncertainty import combined

        combined.LAST_WEIGHT, combined.LAST_LOSES = last_value


def take_curves_alone(alone: bool) -> None:
    """Make the forecasts of this process those of the sigmoid, whether or not its ceiling is known."""
    if alone:
        import numpy as np

        from rlscaling.uncertainty import combined

        combined.weight_of_sigmoid = lambda fit, budgets: np.ones(len(budgets))


def set_drift(drift: Sequence[float] | None) -> None:
    """Give the drift after the bend another prior in this process: its median size, and the probability of none."""
    if drift is not None:
        from rlscaling.solver import departures

        departures.DRIFT = departures.SizePrior(none=drift[1], median=drift[0], spread=departures.DRIFT.spread)
