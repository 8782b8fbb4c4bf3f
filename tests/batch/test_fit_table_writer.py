"""Tests of `rlscaling/batch/fit_table_writer.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from helpers.fit_tables import FEW, SMALL, journalled
from rlscaling import TraceError, fit_many
from rlscaling.batch.fit_table_writer import journal_of
from rlscaling.errors import RLScalingError
from rlscaling.traces.trace_files import write_trace
from rlscaling.traces.writer import TraceWriter


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
    monkeypatch.setattr("rlscaling.batch.fit_table.__version__", "9.9.9")
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
