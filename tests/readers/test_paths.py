"""Files, folders, globs and URLs: what is read of them, and under which names."""

from __future__ import annotations

import sqlite3
import sys

import pytest

from helpers import log_files
from helpers.log_files import verl
from helpers.trace_tables import PLAIN, own
from rlscaling import read_trace, read_traces
from rlscaling.errors import TraceError
from rlscaling.traces.trace import Trace
from rlscaling.traces.trace_files import write_trace


def test_paths_that_lead_nowhere(file, tmp_path):
    file(PLAIN, "scalerl.csv")
    with pytest.raises(TraceError, match=r"no such file: .*did you mean 'scalerl.csv'\?"):
        read_trace(tmp_path / "scalrl.csv")
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "nowhere" / "x.csv")
    with pytest.raises(TraceError, match=r"is a folder without a trace or a log; it holds scalerl.csv; name a file"):
        read_trace(tmp_path)
    (tmp_path / "void").mkdir()
    with pytest.raises(TraceError, match="holds no CSV, JSON or Parquet file either"):
        read_trace(tmp_path / "void")
    with pytest.raises(TraceError, match="no file matches"):
        read_traces(str(tmp_path / "*.nope"))
    with pytest.raises(TraceError, match="no files were given"):
        read_traces([])


def test_names_are_unique(file, tmp_path):
    other = file(PLAIN, "b/other.csv")
    (tmp_path / "a").mkdir()
    for name in ("a", "b"):
        own(tmp_path / name, [{"kind": "eval", "compute_gpu_hours": 0, "pass_rate": 0.5}], name="same")
    assert list(read_traces(str(tmp_path / "*/trace.jsonl"))) == ["a/trace", "b/trace"]
    assert list(read_traces([tmp_path / "a", tmp_path / "b"])) == ["a", "b"]
    assert list(read_traces([tmp_path / "a/trace.jsonl", other])) == ["trace", "other"]
    assert read_trace(tmp_path / "a").name == "same"
    assert list(read_traces([other, str(tmp_path / "b/*.csv")])) == ["other"]


def test_same_stem_in_one_folder_is_told_apart_by_suffix(file, tmp_path):
    file(PLAIN, "x.csv")
    file(PLAIN.replace(",", "\t"), "x.tsv")
    names = list(read_traces(str(tmp_path / "x.*")))
    assert len(set(names)) == 2
    assert [name.rpartition(".")[2] for name in names] == ["csv", "tsv"]


def test_a_glob_skips_discarded_rows(file, tmp_path):
    path = tmp_path / "trace.jsonl"
    write_trace(Trace([0, 1], [0.3, 0.4]), path)
    file('{"kind": "eval", "compute_gpu_hours": 9, "pass_rate": 0.1}\n', "trace.discarded.jsonl")
    assert list(read_traces(str(tmp_path / "*.jsonl"))) == ["trace"]


def test_traces_of_any_name_are_read_from_a_folder(file, tmp_path):
    for name in ("a", "inner/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_trace(Trace([0, 1], [0.3, 0.4]), tmp_path / f"{name}.jsonl")
    file('{"kind": "eval", "compute_gpu_hours": 9, "pass_rate": 0.1}\n', "a.discarded.jsonl")
    file('{"note": "neither a trace nor a log"}\n', "others.jsonl")
    assert list(read_traces(tmp_path)) == ["a", "b"]


def test_folders_are_searched_for_logs(tmp_path):
    log_files.verl_file(tmp_path / "proj", log_files.verl_rows(20, 10), "a.jsonl")
    log_files.verl_file(tmp_path / "proj", log_files.verl_rows(20, 10), "b.jsonl")
    assert list(read_traces(tmp_path)) == ["a", "b"]
    with pytest.raises(TraceError, match=r"holds 2 logs: proj/a.jsonl, proj/b.jsonl; name one"):
        read_trace(tmp_path)


def test_a_database_of_something_else_beside_a_log_does_not_matter(tmp_path):
    log_files.verl_file(tmp_path, log_files.verl_rows(20, 10))
    with sqlite3.connect(tmp_path / "prompts.db") as connection:
        connection.execute("CREATE TABLE prompts (a)")
    connection.close()
    assert len(read_trace(tmp_path)) == 3
    log_files.trackio(tmp_path, log_files.verl_rows(20, 10))
    assert list(read_traces(tmp_path)) == ["exp", "project"]


def test_remote_paths_are_copied_and_read(tmp_path, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    rows = log_files.verl_rows(20, 10)
    memory.pipe("/bucket/exp.jsonl", verl(tmp_path, rows).read_bytes())
    for file in log_files.tensorboard(tmp_path, rows).iterdir():
        memory.pipe(f"/bucket/tb/{file.name}", file.read_bytes())
    assert list(read_traces("memory://bucket/exp.jsonl")) == ["exp"]
    assert len(read_trace("memory://bucket/tb")) == 3
    with pytest.raises(TraceError, match="cannot read memory://bucket/none.jsonl: FileNotFoundError"):
        read_trace("memory://bucket/none.jsonl")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(TraceError, match=r"needs fsspec: pip install 'rlscaling\[remote\]'"):
        read_trace("memory://bucket/other.jsonl")


def test_two_stars_are_the_logs_below_a_folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "runs" / name / "checkpoint-6").mkdir(parents=True)
        (tmp_path / "runs" / name / "checkpoint.pt").write_bytes(b"PK\x03\x04")
        (tmp_path / "runs" / name / "checkpoint-6" / "__0_0.distcp").write_bytes(b"x")
        verl(tmp_path / "runs" / name, log_files.verl_rows(20, 10), "exp.jsonl")
    assert list(read_traces(str(tmp_path / "runs" / "**"))) == ["a/exp", "b/exp"]
    (tmp_path / "tables" / "c").mkdir(parents=True)
    (tmp_path / "tables" / "c" / "c.csv").write_text("gpu_hours,accuracy\n0,0.31\n100,0.35\n")
    assert list(read_traces(str(tmp_path / "tables" / "**"))) == ["c"]
    with pytest.raises(TraceError, match="no file matches"):
        read_traces(str(tmp_path / "none" / "**"))
