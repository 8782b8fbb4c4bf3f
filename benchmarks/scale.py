"""Many runs on two workers: how much sooner, at what overhead, and are the numbers the same?

    python benchmarks/scale.py [--runs 1000] [--resamples 1000] [--dask] [--json out.json]

Wall times, so the machine must be idle, with two cores. One worker means this process. Workers are warm: starting
them is timed apart. Prints the work of one run and the cost of handing out a task as well.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from _common import Check, arguments, finish, versions

import numpy as np  # isort: skip
from joblib import parallel_config  # isort: skip
from rlscaling import bootstrap, extrapolate, fit_many, fit_trace, simulate  # isort: skip
from rlscaling.datasets import table1  # isort: skip
from rlscaling.parallel import run_tasks  # isort: skip

LIMITS = {"loky": 0.65, "dask": 0.9}  # Dask's scheduler works in a third process: on two cores it takes its part
N_EMPTY = 400
POINTS = np.linspace(0.0, 16_000.0, 75)


def some_runs(n: int) -> dict:
    params = table1()["scalerl"]
    return {f"run{i:05d}": simulate(params, compute=POINTS, rho=0.5, wander_sd=0.004, rng=i) for i in range(n)}


def nothing(number: int) -> int:
    return number


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def per_task(n_jobs: int) -> tuple[float, float]:
    """Seconds to start the workers, and milliseconds to hand out a task that does nothing."""

    def hand_out(n: int) -> None:
        assert len(list(run_tasks(nothing, [(i,) for i in range(n)], n_jobs, call="benchmark"))) == n

    start = seconds(lambda: hand_out(8))
    return start, 1e3 * seconds(lambda: hand_out(N_EMPTY)) / N_EMPTY


def parts_of_a_run(n: int, n_resamples: int) -> dict[str, float]:
    """Median CPU milliseconds of the parts of one run."""
    parts: dict[str, list[float]] = {"fit and verdict": [], "bootstrap": [], "forecast": []}
    for trace in some_runs(n).values():
        marks = [time.process_time()]
        fit = fit_trace(trace)
        marks.append(time.process_time())
        boot = bootstrap(fit, n_resamples=n_resamples, rng=0)
        marks.append(time.process_time())
        extrapolate(fit, 100_000, bootstrap=boot)
        marks.append(time.process_time())
        for name, start, end in zip(parts, marks, marks[1:], strict=False):
            parts[name].append(1e3 * (end - start))
    return {name: statistics.median(values) for name, values in parts.items()}


@contextmanager
def dask_workers() -> Iterator[None]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
        parallel_config("dask"),
    ):
        yield


def table(runs: dict, n_jobs: int, n_resamples: int, out: Path) -> tuple[float, str]:
    """Seconds for the table, and the hash of its file."""
    took = seconds(lambda: fit_many(runs, compute=100_000, n_resamples=n_resamples, n_jobs=n_jobs, out=out))
    return took, hashlib.sha256(out.read_bytes()).hexdigest()


def main() -> int:
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--dask", action="store_true", help="two workers of a Dask cluster too")
    given = parser.parse_args()
    runs = some_runs(given.runs)
    parts = parts_of_a_run(min(given.runs, 40), given.resamples)
    numbers: dict[str, object] = {"cpu_ms": parts}
    checks = []
    with tempfile.TemporaryDirectory() as folder:
        alone, expected = table(runs, 1, given.resamples, Path(folder) / "one.parquet")
        numbers["one worker, s"] = alone
        for name in ("loky", "dask") if given.dask else ("loky",):
            with ExitStack() as stack:
                stack.enter_context(dask_workers() if name == "dask" else nullcontext())
                start, each = per_task(2)
                took, found = table(runs, 2, given.resamples, Path(folder) / f"{name}.parquet")
            numbers[name] = {"s": took, "start_s": start, "task_ms": each}
            note = f"{took:.1f} s against {alone:.1f} s; start {start:.1f} s, {each:.2f} ms a task"
            checks.append(
                Check(f"{given.runs} runs on 2 workers, {name}", took / alone, LIMITS[name], False, note=note)
            )
            checks.append(Check(f"same bytes as one worker, {name}", float(found == expected), 1.0, True, unit=""))
    if given.json != "-":
        print("CPU ms of a run: " + ", ".join(f"{name} {value:.1f}" for name, value in parts.items()))
    about = versions("rlscaling", "numpy", "joblib", *(["distributed"] if given.dask else []))
    return finish("Many runs on two workers", checks, about, given.json, numbers)


if __name__ == "__main__":
    sys.exit(main())
