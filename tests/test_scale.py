"""Many runs at once: the same numbers as one by one, on any workers; nothing lost or twice when one is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import rlscaling
from rlscaling import FitError, Trace, TraceError, WorkersError, bootstrap, extrapolate, fit_many, fit_trace, save_fit
from rlscaling.answering import Request, over_runs, runs_per_task
from rlscaling.bootstrapping import CHUNK, tasks_of
from rlscaling.cli import main
from rlscaling.datasets import load_demo
from rlscaling.errors import RLScalingError
from rlscaling.journal import TraceWriter
from rlscaling.ledger import journal_of
from rlscaling.runs import Run
from rlscaling.trace import write_trace
from rlscaling.workers import _task, one_thread, run_tasks
from scale_jobs import N_RESAMPLES, N_RUNS, blas_threads, some_runs, table

JOBS = Path(__file__).with_name("scale_jobs.py")
FEW = dict(list(some_runs().items())[:4])  # the second is too short to be fitted
SMALL = {"n_resamples": 20}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of all runs, made in one process without workers."""
    out = tmp_path_factory.mktemp("alone") / "fits.parquet"
    table(out, 1)
    return out


def in_a_process(mode: str, out: Path, *, strict: bool = True) -> dict[str, Any]:
    command = [sys.executable, *(["-W", "error"] if strict else []), str(JOBS), mode, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def journalled(out: Path) -> list[str]:
    """The runs in the journal, in the order in which they came in; a torn last line is none."""
    rows = []
    for line in journal_of(out).read_text().splitlines()[1:]:
        try:
            rows += json.loads(line)["rows"]
        except ValueError:
            break
    return [row["run"] for row in rows]


# --- the numbers are those of the functions for one run ------------------------------------------------------


def test_a_row_is_what_fit_bootstrap_and_extrapolate_say_of_that_run_alone():
    found = fit_many(FEW, compute=[30_000, 1e5], n_resamples=60, rng=7, confidence_level=0.9, min_compute=1000.0)
    fit = fit_trace(FEW["run02"], min_compute=1000.0)
    boot = bootstrap(fit, n_resamples=60, rng=7, confidence_level=0.9)
    forecast = extrapolate(fit, [30_000, 1e5], bootstrap=boot)
    row = found.rows[2]
    assert (row["run"], row["verdict"], row["reason"]) == ("run02", str(fit.verdict), fit.reason)
    assert (row["A"], row["B"], row["C_mid"], row["R0"]) == fit.params.as_tuple()
    for name in ("A", "B", "C_mid", "R0"):
        assert (row[f"{name}_low"], row[f"{name}_high"]) == boot.confidence_interval[name]
        assert row[f"{name}_se"] == boot.standard_error[name]
    assert (row["A_new_run_low"], row["A_new_run_high"]) == boot.confidence_interval_new_run["A"]
    assert row["R_100000"] == forecast.pass_rate[1]
    assert (row["R_30000_low"], row["R_30000_high"]) == tuple(forecast.confidence_interval[0])
    assert (row["R_100000_new_run_low"], row["R_100000_new_run_high"]) == tuple(forecast.confidence_interval_new_run[1])
    assert (row["n_points"], row["compute_first"], row["compute_last"]) == (fit.n_points, *fit.compute_range)
    assert (row["min_compute"], row["seed"], row["version"]) == (1000.0, 7, rlscaling.__version__)
    assert row["notes"] == list(forecast.notes)


def test_a_row_does_not_depend_on_the_other_runs():
    together = fit_many(FEW, **SMALL)
    (one,) = fit_many({"run02": FEW["run02"]}, **SMALL).rows
    assert together.rows[2] == one


def test_a_refused_run_is_a_row_with_the_reason_and_stops_nobody():
    found = fit_many(FEW, **SMALL)
    assert [row["run"] for row in found.rows] == list(FEW)
    assert list(found.refused) == ["run01"]
    assert "a fit needs 5" in found.refused["run01"]
    assert (found.rows[1]["A"], found.rows[1]["verdict"]) == (None, None)
    assert found.verdicts == {"identified": 3, "refused": 1}
    assert str(found) == "4 runs: 3 identified, 1 refused"


def test_with_raise_a_refused_run_stops_the_work():
    with pytest.raises(FitError, match=r"run01: .*a fit needs 5"):
        fit_many(FEW, on_error="raise", **SMALL)


def test_too_few_points_for_an_interval_have_a_row_without_one():
    short = FEW["run00"].up_to(4000.0)
    (row,) = fit_many({"short": short}, compute=8000, min_compute=2000.0, **SMALL).rows
    assert row["n_points"] == 6
    assert row["error"] is None
    assert (row["A_low"], row["R_8000_low"], row["R_8000_supported"]) == (None, None, False)
    assert row["R_8000"] == fit_trace(short, min_compute=2000.0).predict(8000.0)


def test_the_frame_has_numbers_where_there_are_numbers():
    frame = fit_many(FEW, compute=1e5, **SMALL).to_frame()
    assert list(frame.index) == list(FEW)
    assert frame["A_low"].dtype == frame["R_100000"].dtype == float
    assert np.isnan(frame.loc["run01", "A"])
    assert frame.loc["run00", "A_low"] < frame.loc["run00", "A"] < frame.loc["run00", "A_high"]


def test_fits_that_were_saved_are_taken_as_they_are(tmp_path: Path):
    fit = replace(fit_trace(FEW["run00"]), name="saved")
    save_fit(fit, tmp_path / "saved.json")
    (given,), (read,) = fit_many([fit], **SMALL).rows, fit_many(tmp_path / "saved.json", **SMALL).rows
    assert given == read
    assert given["A"] == fit.A


def test_paths_are_read_with_the_options_of_reading(tmp_path: Path):
    for name in ("run00", "run02"):
        trace = FEW[name]
        frame = pd.DataFrame({"gpu_hours": trace.compute, "acc": 100 * trace.pass_rate})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "broken.csv").write_text("no numbers")
    read = {"compute_column": "gpu_hours", "pass_rate_column": "acc", "scale": "percent"}
    found = fit_many(tmp_path / "*.csv", read=read, **SMALL)
    assert [row["run"] for row in found.rows] == ["broken", "run00", "run02"]
    assert list(found.refused) == ["broken"]
    assert found.rows[2]["A"] == pytest.approx(fit_trace(FEW["run02"]).A, abs=1e-9)


# --- the same on any workers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 49, 50, 250, 251, 299, 300, 1000, 1049, 1050, 10_000])
def test_a_task_has_at_least_50_replicates_and_all_are_drawn_once(n):
    tasks = tasks_of(n)
    assert [index for task in tasks for index, _ in task] == list(range(-(-n // CHUNK)))
    assert sum(size for task in tasks for _, size in task) == n
    assert min(sum(size for _, size in task) for task in tasks) >= min(n, 50)


def test_borders_of_tasks_do_not_move_the_replicates():
    from joblib import parallel_config

    fit = fit_trace(FEW["run00"])
    one = bootstrap(fit, n_resamples=520, rng=1).distribution
    with parallel_config("threading"):
        np.testing.assert_array_equal(bootstrap(fit, n_resamples=520, rng=1, n_jobs=3).distribution, one)


@pytest.mark.parametrize(("n_runs", "n_resamples"), [(1, 1000), (7, 10), (24, 100), (1000, 1000), (10**6, 10**5)])
def test_tasks_of_runs_share_the_work_out_and_are_not_long(n_runs, n_resamples):
    size = runs_per_task(n_runs, n_resamples, 2)
    assert size >= 1
    assert size == 1 or (size * n_resamples <= 16_000 and n_runs // size >= 8)


def test_few_runs_with_many_replicates_give_the_same_as_run_by_run():
    from joblib import parallel_config

    runs = [Run(name, trace) for name, trace in FEW.items()]
    asked = Request(n_resamples=1000, n_jobs=4)
    one = {
        i: found.bootstrap.distribution
        for some in over_runs(_answered, runs[2:], replace(asked, n_jobs=1))
        for i, found in some
    }
    with parallel_config("threading"):
        for some in over_runs(_answered, runs[2:], asked):
            for i, found in some:
                np.testing.assert_array_equal(found.bootstrap.distribution, one[i])


def _answered(run, request, on_progress):
    from rlscaling.answering import answer

    return answer(run, request, on_progress)


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


# --- the guard that scripts need -----------------------------------------------------------------------------


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
        "from distributed import Client\nfrom rlscaling import fit_many\nfrom scale_jobs import some_runs\n"
        "fit_many(some_runs(2), n_resamples=20)\n"
        'Client(n_workers=1, threads_per_worker=1, dashboard_address=":0")\n'
    )
    done = subprocess.run(
        [sys.executable, str(script), str(JOBS.parent)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "fit_many was called while a worker process was importing your script" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr


# --- killed and resumed --------------------------------------------------------------------------------------


def write_runs(folder: Path) -> None:
    folder.mkdir()
    for name, trace in some_runs().items():
        write_trace(trace, folder / f"{name}.jsonl")


def test_a_killed_command_goes_on_where_it_was(tmp_path: Path):
    write_runs(tmp_path / "runs")
    command = [sys.executable, "-m", "rlscaling", "fit", "runs/*", "--resamples", "100", "--out"]
    whole = subprocess.run([*command, "whole.parquet"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert whole.returncode == 3, whole.stderr
    out = tmp_path / "fits.parquet"
    with subprocess.Popen([*command, out.name], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (journal_of(out).exists() and len(journalled(out)) >= 5):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    kept = journalled(out)
    assert 5 <= len(kept) < N_RUNS
    with journal_of(out).open("ab") as journal:
        journal.write(b'{"kind": "fits", "rows": [{"run": "run2')  # as a kill in the middle of a write leaves it
    again = subprocess.run([*command, out.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "fits.parquet was begun and not finished" in again.stderr
    more = subprocess.run([*command, out.name, "--continue"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert more.returncode == 3, more.stderr
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fits.parquet", "runs", "whole.parquet"]


def test_rows_are_on_the_disk_as_runs_finish(tmp_path: Path):
    out = tmp_path / "fits.parquet"
    seen = []
    fit_many(FEW, out=out, on_progress=lambda done, total: seen.append((done, total, journalled(out))), **SMALL)
    names = list(FEW)
    assert seen == [(i, 4, names[:i]) for i in (1, 2, 3, 4)]
    assert not journal_of(out).exists()


class StoppedError(Exception):
    pass


def stop_after(n: int):
    def stop(done: int, total: int) -> None:
        if done == n:
            raise StoppedError

    return stop


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A table of four runs of which two are done."""
    out = tmp_path / "fits.parquet"
    with pytest.raises(StoppedError):
        fit_many(FEW, out=out, on_progress=stop_after(2), **SMALL)
    assert journalled(out) == ["run00", "run01"]
    return out


def test_resume_does_the_rest_only(begun: Path):
    seen = []
    found = fit_many(FEW, out=begun, resume=True, on_progress=lambda done, total: seen.append(done), **SMALL)
    assert seen == [3, 4]
    assert found.rows == fit_many(FEW, **SMALL).rows
    assert found.path == begun


def test_resume_of_a_finished_table_does_nothing(begun: Path):
    fit_many(FEW, out=begun, resume=True, **SMALL)
    data = begun.read_bytes()
    again = fit_many(FEW, out=begun, resume=True, on_progress=lambda *_: pytest.fail("it worked"), **SMALL)
    assert begun.read_bytes() == data
    assert again.rows == fit_many(FEW, **SMALL).rows


def test_a_kill_between_the_table_and_the_end_of_its_journal_is_harmless(begun: Path):
    journal = journal_of(begun).read_bytes()
    fit_many(FEW, out=begun, resume=True, **SMALL)
    data = begun.read_bytes()
    journal_of(begun).write_bytes(journal)
    assert fit_many(FEW, out=begun, resume=True, **SMALL).rows == fit_many(FEW, **SMALL).rows
    assert begun.read_bytes() == data
    assert not journal_of(begun).exists()


def test_resume_begins_where_nothing_is_there(tmp_path: Path):
    assert len(fit_many(FEW, out=tmp_path / "new.parquet", resume=True, **SMALL)) == 4


def test_overwrite_begins_anew_and_keeps_the_old_table_until_the_new_one_is_there(begun: Path):
    fit_many(FEW, out=begun, resume=True, **SMALL)
    old = begun.read_bytes()
    with pytest.raises(StoppedError):
        fit_many(FEW, out=begun, overwrite=True, rng=1, on_progress=stop_after(3), **SMALL)
    assert begun.read_bytes() == old
    fit_many(FEW, out=begun, overwrite=True, rng=2, **SMALL)
    assert set(pq.read_table(begun)["seed"].to_pylist()) == {2}
    assert not journal_of(begun).exists()


CHANGED = {**FEW, "run02": FEW["run03"]}


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (FEW, {"n_resamples": 30}, "was begun with n_resamples = 20, not 30"),
        (FEW, {"min_compute": 0.0}, r"was begun with options = {}, not {'min_compute': 0.0}"),
        (FEW, {"compute": 1e5}, r"was begun with budgets = None, not \[100000.0\]"),
        (FEW, {"rng": 5}, "was begun with seed 0, this is 5"),
        (CHANGED, {}, "was begun with other runs: the data of run02 have changed"),
        ({**FEW, "run99": FEW["run00"]}, {}, "was begun with other runs: run99 is new"),
        ({"run00": FEW["run00"]}, {}, "was begun with other runs: run01 is gone"),
        (dict(reversed(FEW.items())), {}, "was begun with other runs: their order is another one"),
    ],
)
def test_resume_of_something_else_is_refused(begun: Path, finished: bool, runs, options, message):
    if finished:
        fit_many(FEW, out=begun, resume=True, **SMALL)
    before = {path: path.read_bytes() for path in begun.parent.iterdir()}
    with pytest.raises(RLScalingError, match=message + r"; start anew with overwrite=True \(--overwrite\)"):
        fit_many(runs, out=begun, resume=True, **{**SMALL, **options})
    assert {path: path.read_bytes() for path in begun.parent.iterdir()} == before


def test_resume_of_another_version_is_refused(begun: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rlscaling.batch.__version__", "9.9.9")
    with pytest.raises(RLScalingError, match=r"was begun with version .*, this is 9\.9\.9"):
        fit_many(FEW, out=begun, resume=True, **SMALL)


def test_resume_of_what_is_no_table_is_refused(tmp_path: Path):
    out = tmp_path / "fits.parquet"
    out.write_text("mine")
    with pytest.raises(TraceError, match="is not a table of fits .*: nothing to go on with"):
        fit_many(FEW, out=out, resume=True)
    pd.DataFrame({"a": [1]}).to_parquet(out)
    with pytest.raises(TraceError, match="is not a table of fits: nothing to go on with"):
        fit_many(FEW, out=out, resume=True)
    out.unlink()
    write_trace(FEW["run00"], tmp_path / "trace.jsonl")
    (tmp_path / "trace.jsonl").rename(journal_of(out))
    with pytest.raises(TraceError, match="is not the journal of a table of fits"):
        fit_many(FEW, out=out, resume=True)


def test_two_processes_do_not_write_one_table(begun: Path):
    with TraceWriter(journal_of(begun), {}, append=True):
        for how in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(TraceError, match="is being written by another process"):
                fit_many(FEW, out=begun, **how, **SMALL)
    assert journalled(begun) == ["run00", "run01"]


def test_a_full_disk_keeps_the_rows_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out, write = tmp_path / "fits.parquet", TraceWriter.write

    def full(self: TraceWriter, kind: str, **columns: Any) -> None:
        if self.n_rows == 2:
            raise OSError(28, "No space left on device")
        write(self, kind, **columns)

    with monkeypatch.context() as patch:
        patch.setattr(TraceWriter, "write", full)
        with pytest.raises(RLScalingError, match=r"No space left on device; the 2 rows before are kept: go on with"):
            fit_many(FEW, out=out, **SMALL)
    assert fit_many(FEW, out=out, resume=True, **SMALL).rows == fit_many(FEW, **SMALL).rows


# --- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (FEW, {"n_jobs": 0}, r"n_jobs=0 is not a number of workers: 1, 2, ... or -1 for all cores \(--n-jobs\)"),
        (FEW, {"n_jobs": 1.5}, "n_jobs=1.5 is not a number of workers"),
        (FEW, {"n_resamples": 1}, "n_resamples=1 must be a whole number of 2 or more"),
        (FEW, {"scheme": "magic"}, "scheme='magic' is unknown"),
        (FEW, {"seed_sd": -1}, "seed_sd=-1 must be a finite number"),
        (FEW, {"confidence_level": 95}, "for 95 % give 0.95"),
        (FEW, {"compute": 0}, "compute=0: a budget is a positive, finite amount"),
        (FEW, {"compute": []}, r"compute=\[\]: a budget is"),
        (FEW, {"rng": -1}, "rng=-1 is not a seed"),
        (FEW, {"rng": 2**64}, "is too large for the table's column of seeds"),
        (FEW, {"on_error": "ignore"}, "on_error='ignore' is unknown"),
        (FEW, {"weights": [1]}, "weights= is an option of one fit"),
        (FEW, {"min_computee": 1}, "unknown option 'min_computee'"),
        (FEW, {"B_bounds": (5, 1)}, "B_bounds"),
        (FEW, {"read": {}}, "these are no paths"),
        (FEW, {"resume": True}, "resume= and overwrite= are about the table at out="),
        ("x.csv", {"read": {"colour": 1}}, "'colour': ...} is unknown; the options of reading are compute_column"),
        ([], {}, "no runs were given"),
        ({}, {}, "no runs were given"),
        ([Trace([0, 1], [0.1, 0.2])], {}, "run 1 has no name; give a mapping"),
        ([Trace([0, 1], [0.1, 0.2], name="a")] * 2, {}, "1 names stand for two runs or more, 'a' first"),
        ([FEW["run00"], "x.csv"], {}, "run 2 is a str: fit_many takes Traces or fits, or paths, not both|run 1 has no"),
        ({"a": 3}, {}, "run 1 is a int"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_any_work(runs, options, message):
    with pytest.raises(RLScalingError, match=message):
        fit_many(runs, **options)


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("fits.csv", {}, r"the table is a Parquet file; end the name in \.parquet"),
        ("no/fits.parquet", {}, "there is no folder no; make it first"),
        ("folder.parquet", {}, "is a folder; name a file"),
        ("old.parquet", {}, r"old\.parquet exists and is not written over"),
        ("old.parquet", {"resume": True, "overwrite": True}, "give one of them"),
        ("file/fits.parquet", {}, "there is no folder file"),
    ],
)
def test_a_table_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch, out, options, message):
    monkeypatch.chdir(tmp_path)
    Path("old.parquet").write_text("mine")
    Path("file").write_text("mine")
    Path("folder.parquet").mkdir()
    with pytest.raises(RLScalingError, match=message):
        fit_many(FEW, out=out, on_progress=lambda *_: pytest.fail("it worked before it checked"), **options)
    assert Path("old.parquet").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(TraceError, match="Permission denied; choose another place"):
        fit_many(FEW, out=tmp_path / "fits.parquet", **SMALL)


# --- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, trace in FEW.items():
        write_trace(trace, tmp_path / f"{name}.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_writes_the_table_of_fit_many(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["fit", "*.jsonl", "--resamples", "20", "--extrapolate", "100000", "--seed", "3", "--out", "fits.parquet"]
    assert main([*argv, "--json"]) == 3  # one run is too short
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "schema_version": 1, "version": rlscaling.__version__, "seed": 3, "out": "fits.parquet", "n_runs": 4,
        "verdicts": {"identified": 3, "refused": 1},
        "refused": [{"run": "run01", "error": fit_many(FEW, **SMALL).refused["run01"]}],
    }  # fmt: skip
    assert "rlscaling: error: run01: " in said.err
    found = pq.read_table("fits.parquet").to_pylist()
    expected = fit_many("*.jsonl", compute=100_000, rng=3, read={"scale": "auto"}, **SMALL).rows
    assert found == list(expected)
    assert main([*argv, "--continue"]) == 3
    assert "wrote fits.parquet: 4 runs" in capsys.readouterr().out


def test_the_table_among_its_inputs_is_no_run(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["fit", "**", "--resamples", "20", "--out", "fits.parquet"]) == 3
    Path("fits.parquet.journal.torn").write_text("half a line")
    assert main(["fit", "**", "--resamples", "20", "--out", "fits.parquet", "--continue"]) == 3
    assert pq.read_table("fits.parquet")["run"].to_pylist() == list(FEW)


def test_answers_of_a_batch_do_not_depend_on_the_workers(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    from joblib import parallel_config

    said = []
    for n_jobs in ("1", "2"):
        with parallel_config("threading"):
            assert main(["fit", "*.jsonl", "--resamples", "20", "--json", "--reach", "0.5", "--n-jobs", n_jobs]) == 3
        said.append(capsys.readouterr())
    assert said[0] == said[1]


def test_jobs_is_another_name_of_n_jobs(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    said = []
    for option in ("--n-jobs", "--jobs"):
        assert main(["fit", "run00.jsonl", "--resamples", "20", option, "1", "--json"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--n-jobs", "0"), "argument --n-jobs/--jobs: '0' is not a whole number of 1 or more"),
        (("--n-jobs", "-2"), "'-2' is not a whole number of 1 or more, nor -1 for all cores"),
        (("--out", "fits.csv"), "end the name in .parquet"),
        (("--out", "fits.parquet", "--plot", "a.png"), "--plot is about single answers, --out writes a table of all"),
        (("--out", "fits.parquet", "--cutoffs"), "--cutoffs is about single answers"),
        (("--out", "fits.parquet", "--continue", "--overwrite"), "give one of them"),
        (("--continue",), "--continue is about a table that was begun; name it with --out FILE"),
    ],
)
def test_options_of_the_command_that_cannot_be_carried_out(runs_here, capsys, argv, message):
    assert main(["fit", "run00.jsonl", *argv]) == 2
    assert message in capsys.readouterr().err


def test_the_ceilings_can_be_required_of_a_table(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["fit", "run00.jsonl", "--resamples", "20", "--require-identified", "--overwrite", "--out", "fits.parquet"]
    assert main(argv) == 0
    assert main([*argv, "--max-compute", "5000"]) == 4


def test_dead_workers_and_interrupts_say_how_to_go_on(runs_here, capsys, monkeypatch):
    def die(*_: object) -> None:
        raise WorkersError("the workers stopped")

    argv = ["fit", "*.jsonl", "--resamples", "20", "--out", "fits.parquet"]
    monkeypatch.setattr("rlscaling.batch.row_of", die)
    assert main(argv) == 5
    said = capsys.readouterr().err
    assert (
        "the workers stopped. 0 of 4 runs are kept in fits.parquet.journal: go on with resume=True (--continue)" in said
    )

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlscaling.batch.row_of", interrupt)
    assert main([*argv, "--continue"]) == 130
    assert "what is finished stands in fits.parquet.journal; --continue goes on" in capsys.readouterr().err


def test_the_simulated_runs_are_what_they_are_meant_to_be():
    assert (len(some_runs()), N_RESAMPLES) == (N_RUNS, 100)


def test_a_seed_that_is_too_large_for_the_table_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_runs(tmp_path / "runs")
    out = tmp_path / "fits.parquet"
    assert main(["fit", str(tmp_path / "runs" / "*"), "--seed", str(2**64), "--out", str(out)]) == 2
    assert "is too large for the table's column of seeds" in capsys.readouterr().err
    assert list(tmp_path.glob("fits*")) == []


def test_two_stars_take_the_logs_below_and_leave_what_lies_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What a trainer leaves beside its trace is no run: the first command of docs/scale.md."""
    for name, run in list(load_demo().items())[:2]:
        folder = tmp_path / "runs" / name
        (folder / "checkpoint-6").mkdir(parents=True)
        write_trace(run, folder / "trace.jsonl")
        (folder / "trace.discarded.jsonl").write_text("{}\n")
        (folder / "checkpoint.pt").write_bytes(b"PK\x03\x04")
        (folder / "checkpoint-6" / "__0_0.distcp").write_bytes(b"x")
    out = tmp_path / "fits.parquet"
    assert main(["fit", str(tmp_path / "runs" / "**"), "--resamples", "50", "--out", str(out)]) == 0
    assert fit_many(str(tmp_path / "runs" / "**"), n_resamples=50).refused == {}
    assert "2 runs" in capsys.readouterr().out
