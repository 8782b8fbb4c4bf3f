"""Work on real worker processes, in a process of its own: `python worker_jobs.py MODE OUT` prints one JSON object.

Workers outlive the test that starts them, which would be reported as a leak; and a script is what users write.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import joblib
import numpy as np

from rlscaling import Trace, WorkersError, fit_many, simulate
from rlscaling.datasets import table1
from rlscaling.parallel import run_tasks

N_RUNS, N_RESAMPLES = 24, 100


class Deadly:
    """Kills the process that takes it out of its package."""

    def __reduce__(self):
        return os._exit, (9,)


def some_runs(n: int = N_RUNS, *, deadly: int | None = None) -> dict[str, Trace]:
    """Simulated runs, one of them too short to be fitted; ``deadly`` kills every worker that gets it."""
    params, compute = table1()["scalerl"], np.linspace(0.0, 24_000.0, 61)
    runs = {}
    for i in range(n):
        trace = simulate(params, compute=compute, rho=0.5, wander_sd=0.002, rng=i)
        more = {"metadata": {"deadly": Deadly()}} if i == deadly else {}
        few = 3 if i == 1 else None
        runs[f"run{i:02d}"] = Trace(trace.compute[:few], trace.pass_rate[:few], **more)
    return runs


def table(out: Path | None, n_jobs: int, runs: dict[str, Trace] | None = None, **options):
    return fit_many(
        some_runs() if runs is None else runs,
        compute=100_000,
        n_resamples=N_RESAMPLES,
        n_jobs=n_jobs,
        out=out,
        **options,
    )


def blas_threads() -> tuple[int, list[int]]:
    """The process, and how many threads each BLAS in it would use."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return os.getpid(), [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def threads() -> dict[int, list[int]]:
    return dict(result for _, result in run_tasks(blas_threads, [()] * 12, 2, call="test"))


def plainly(mode: str, out: Path) -> dict:
    with nullcontext() if mode == "loky" else joblib.parallel_config(mode):
        found = table(out, 2)
        return {"said": str(found), "pids": list(map(str, (used := threads()))), "threads": list(used.values())}


def loky_death(out: Path) -> dict:
    try:
        table(out, 2, some_runs(deadly=N_RUNS - 1))
    except WorkersError as error:
        return {"error": str(error)}
    return {"error": None}


def dask(mode: str, out: Path) -> dict:
    import dask
    from distributed import Client, LocalCluster

    if mode == "dask-death":  # the first death is the last
        dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        workers = list(client.run(os.getpid).values())
        killed = []

        def kill(done: int, total: int) -> None:
            if not killed and done >= total // 3:
                killed.append(workers[0])
                os.kill(workers[0], signal.SIGKILL)

        try:
            said = str(table(out, -1, on_progress=kill if mode != "dask-death" else None, **_deadly(mode, client)))
        except WorkersError as error:
            return {"error": str(error)}
        return {"said": said, "killed": killed, "workers": workers, "threads": list(threads().values())}


def _deadly(mode: str, client) -> dict:
    if mode == "dask-death":
        client.run(_make_deadly)
    return {}


def _make_deadly() -> None:
    """On a worker: the last run kills it."""
    from rlscaling.batch import fit_table

    analyse_run = fit_table.analyse_run

    def analyse_or_die(run, *rest):
        if run.name == f"run{N_RUNS - 1:02d}":
            os._exit(9)
        return analyse_run(run, *rest)

    fit_table.analyse_run = analyse_or_die


def ray(out: Path) -> dict:
    import ray
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    register_ray()
    try:
        return plainly("ray", out)
    finally:
        ray.shutdown()


def main(mode: str, out: str) -> None:
    path = Path(out)
    if mode.startswith("dask"):
        found = dask(mode, path)
    else:
        found = {"ray": ray, "loky-death": loky_death}.get(mode, lambda path: plainly(mode, path))(path)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
