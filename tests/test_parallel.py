"""Tests of `rlscaling/test_parallel.py`."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from helpers.fit_tables import FEW, JOBS, in_a_process, journalled
from helpers.worker_jobs import N_RUNS, blas_threads, some_runs, table
from rlscaling import WorkersError, bootstrap, fit_many, fit_trace
from rlscaling.batch.fit_table_writer import journal_of
from rlscaling.parallel import _task, one_thread, run_tasks


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of all runs, made in one process without workers."""
    out = tmp_path_factory.mktemp("alone") / "fits.parquet"
    table(out, 1)
    return out


def test_processes_give_the_same_bytes_with_one_thread_each(alone: Path, tmp_path: Path):
    found = in_a_process("loky", tmp_path / "fits.parquet")
    assert len(set(found["pids"])) == 2
    assert {n for threads in found["threads"] for n in threads} == {1}
    assert (tmp_path / "fits.parquet").read_bytes() == alone.read_bytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "fits.parquet"]


def test_a_killed_dask_worker_loses_nothing_and_doubles_nothing(alone: Path, tmp_path: Path):
    found = in_a_process("dask-kill", tmp_path / "fits.parquet")
    assert len(found["workers"]) == 2
    assert len(found["killed"]) == 1
    assert {n for threads in found["threads"] for n in threads} == {1}
    assert (tmp_path / "fits.parquet").read_bytes() == alone.read_bytes()
    assert pq.read_table(alone)["run"].to_pylist() == list(some_runs())


@pytest.mark.parametrize("mode", ["loky-death", pytest.param("dask-death", marks=pytest.mark.slow)])
def test_workers_that_die_for_good_are_an_error_and_what_is_finished_is_kept(mode: str, alone: Path, tmp_path: Path):
    out = tmp_path / "fits.parquet"
    error = in_a_process(mode, out)["error"]
    kept = journalled(out)
    assert "fit_many: the workers stopped (" in error
    assert "a process was killed or ran out of memory" in error
    assert f"{len(kept)} of {N_RUNS} runs are kept in {journal_of(out)}: go on with resume=True" in error
    assert 0 < len(kept) < N_RUNS
    assert not out.exists()
    asked = []
    table(out, 1, resume=True, on_progress=lambda done, total: asked.append(done))
    assert len(asked) == N_RUNS - len(kept)
    assert out.read_bytes() == alone.read_bytes()


def test_threads_of_one_process_share_the_limit_of_one_blas_thread():
    """The first one out must not give the others back their threads: its limit is the process's, not its own."""
    before = blas_threads()[1]
    inside, leave = threading.Barrier(2, timeout=20), threading.Event()
    seen = []

    def long() -> None:
        with one_thread:
            inside.wait()
            leave.wait(20)
            seen.append(blas_threads()[1])

    other = threading.Thread(target=long)
    other.start()
    with one_thread, one_thread:
        inside.wait()
        seen.append(blas_threads()[1])
    leave.set()
    other.join()
    assert [set(threads) for threads in seen] == [{1}, {1}]
    assert blas_threads()[1] == before


def test_an_exception_of_the_work_comes_back_as_it_is():
    from joblib import parallel_config

    for n_jobs in (1, 2):
        with parallel_config("threading"), pytest.raises(KeyError, match="mine"):
            list(run_tasks(_raise, [(i,) for i in range(9)], n_jobs, call="test"))


def _raise(number: int) -> int:
    if number == 4:
        raise KeyError("mine")
    return number


def test_a_worker_of_another_version_is_refused():
    with pytest.raises(WorkersError, match=r"a worker runs .*, the caller 0\.0\.1; install one version on all"):
        _task("0.0.1", len, 0, [[]])


def test_a_worker_that_imports_the_script_is_told_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(WorkersError, match=r'(?s)fit_many was called while .*if __name__ == "__main__":'):
        fit_many(FEW)
    with pytest.raises(WorkersError, match="bootstrap was called while a worker process was importing your script"):
        bootstrap(fit_trace(FEW["run00"]), n_jobs=2)


@pytest.mark.slow
def test_a_script_without_a_guard_says_which(tmp_path: Path):
    """As users meet it: the cluster's workers import the script, and begin its work at their own start."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from distributed import Client\nfrom rlscaling import fit_many\nfrom worker_jobs import some_runs\n"
        "fit_many(some_runs(2), n_resamples=20)\n"
        'Client(n_workers=1, threads_per_worker=1, dashboard_address=":0")\n'
    )
    done = subprocess.run(
        [sys.executable, str(script), str(JOBS.parent)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "fit_many was called while a worker process was importing your script" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr
