"""Tests of `rlscaling/traces/writer.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from helpers.small_traces import make
from rlscaling import files
from rlscaling.errors import TraceError
from rlscaling.traces import writer as trace_writer
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.writer import TraceWriter, rewind

ROW = {"compute_gpu_hours": 1.0, "pass_rate": 0.5}


def test_writer_writes_rows_that_read_back(tmp_path):
    path = tmp_path / "trace.jsonl"
    with TraceWriter(path, {"run_id": "a", "n": np.int64(3)}) as writer:
        writer.write("train", step=1, loss=np.float32(0.5), grad_norm=np.inf, extra=np.array([1, 2]))
        writer.write("eval", step=1, **ROW)
        assert writer.n_rows == 2
    header, rows, notes = read_jsonl(path)
    assert header == {"kind": "header", "schema_version": 1, "run_id": "a", "n": 3}
    assert rows[0] == {"kind": "train", "step": 1, "loss": 0.5, "grad_norm": None, "extra": [1, 2]}
    assert notes == ()
    with pytest.raises(TraceError, match="is closed; open it again with append=True"):
        writer.write("eval", **ROW)


@pytest.mark.parametrize(
    "bad", [{"pass_rate": np.nan}, {"compute_gpu_hours": np.inf}, {"compute": None}, {"pass_rate": "x"}]
)
def test_writer_refuses_compute_and_pass_rate_that_are_no_numbers(tmp_path, bad):
    with TraceWriter(tmp_path / "t.jsonl", {}) as writer:
        with pytest.raises(TraceError, match=f"{next(iter(bad))} is .* in eval row 1: not a finite number"):
            writer.write("eval", **{**ROW, **bad})
        with pytest.raises(TraceError, match="kind='header' cannot be written"):
            writer.write("header")
        assert writer.n_rows == 0
    assert read_jsonl(tmp_path / "t.jsonl")[1] == []


def test_writer_leaves_an_existing_file_alone(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("precious")
    with pytest.raises(TraceError, match="is there already and was left as it is; pass append=True"):
        TraceWriter(path, {})
    assert path.read_text() == "precious"
    with pytest.raises(TraceError, match="no folder of that name; create it first"):
        TraceWriter(tmp_path / "no" / "t.jsonl", {})


@pytest.mark.parametrize("tail", [b'{"kind": "eval", "st', b'{"kind": "eva\n', b"\0\0\0", b"\xff\n", b"[1]\n"])
def test_a_torn_last_line_is_set_aside_and_nothing_else_is_lost(tmp_path, tail):
    path = tmp_path / "t.jsonl"
    whole = make(path)
    path.write_bytes(whole + tail)
    _, rows, notes = read_jsonl(path)
    assert len(rows) == 3
    assert "was cut short" in notes[0]
    with TraceWriter(path, {}, append=True) as writer:
        assert "moved to t.jsonl.torn" in writer.recovered
        assert writer.n_rows == 3
        writer.write("eval", step=30, compute_gpu_hours=3.0, pass_rate=0.4)
    assert path.read_bytes().startswith(whole)
    assert (tmp_path / "t.jsonl.torn").read_bytes().strip(b"\n") == tail.strip(b"\n")
    assert [row["step"] for row in read_jsonl(path)[1]] == [0, 10, 20, 30]


@pytest.mark.parametrize("cut", range(0, 140, 7))
def test_a_file_cut_anywhere_can_be_gone_on_with(tmp_path, cut):
    path = tmp_path / "t.jsonl"
    whole = make(path, n=1)
    path.write_bytes(whole[:cut])
    with TraceWriter(path, {}, append=True) as writer:
        writer.write("eval", step=99, compute_gpu_hours=9.0, pass_rate=0.5)
    header, rows, notes = read_jsonl(path)
    assert header["schema_version"] == 1
    assert rows[-1]["step"] == 99
    assert len(rows) == 1 + (cut >= len(whole) - 1)
    assert notes == ()


def test_the_file_of_another_run_is_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    whole = make(path, run_id="a", config_hash="1")
    with pytest.raises(TraceError, match="another run: its config_hash is '1', not '2'"):
        TraceWriter(path, {"run_id": "a", "config_hash": "2"}, append=True)
    assert path.read_bytes() == whole
    with TraceWriter(path, {"run_id": "a"}, append=True) as writer:
        assert writer.header["config_hash"] == "1"
        assert writer.recovered == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no such lock there")
def test_a_second_writer_is_refused_while_the_first_lives(tmp_path):
    path = tmp_path / "t.jsonl"
    with TraceWriter(path, {}) as writer:
        for attempt in (lambda: TraceWriter(path, {}, append=True), lambda: rewind(path, 0)):
            with pytest.raises(TraceError, match="is being written by another process"):
                attempt()
        writer.write("eval", **ROW)
    TraceWriter(path, {}, append=True).close()


def test_a_full_disk_leaves_no_half_row(tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    with TraceWriter(path, {}) as writer:
        writer.write("eval", **ROW)
        whole = path.read_bytes()
        real = os.write

        def fills_up(fd, data):
            real(fd, bytes(data)[:5])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files.os, "write", fills_up)
        with pytest.raises(OSError, match="No space"):
            writer.write("eval", **ROW)
        monkeypatch.undo()
        assert path.read_bytes() == whole
        writer.write("eval", **ROW)
    assert len(read_jsonl(path)[1]) == 2


KILLED = """
import sys
from rlscaling.traces.writer import TraceWriter
with TraceWriter(sys.argv[1], {"run_id": "a"}, append=True) as writer:
    for i in range(writer.n_rows, 10**6):
        writer.write("train", step=i, text="x" * 200)
        print(i, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_killed_writer_loses_no_written_row(tmp_path):
    path = tmp_path / "trace.jsonl"
    for rows in (1, 25, 60):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
        with child:
            assert child.stdout is not None
            for line in child.stdout:
                last = int(line)
                if last >= rows:
                    child.send_signal(signal.SIGKILL)
                    break
            last = max([last, *map(int, child.stdout)])
        _, rows, _ = read_jsonl(path)
        steps = [row["step"] for row in rows]
        assert steps == list(range(len(steps)))
        assert steps[-1] >= last


def test_rewind_moves_late_rows_aside(tmp_path):
    path = tmp_path / "trace.jsonl"
    whole = make(path, n=4)
    assert rewind(path, 10) == 2
    assert [row["step"] for row in read_jsonl(path)[1]] == [0, 10]
    moved = (tmp_path / "trace.discarded.jsonl").read_bytes()
    assert path.read_bytes() + moved == whole
    assert rewind(path, 10) == 0
    with TraceWriter(path, {}, append=True) as writer:
        writer.write("eval", step=20, compute_gpu_hours=5.0, pass_rate=0.3)
    assert rewind(path, 10) == 1
    discarded = [json.loads(line) for line in (tmp_path / "trace.discarded.jsonl").read_text().splitlines()]
    assert [(row["step"], row["compute_gpu_hours"]) for row in discarded] == [(20, 2), (30, 3), (20, 5)]
    with pytest.raises(TraceError, match="no such file"):
        rewind(tmp_path / "other.jsonl", 1)


@pytest.mark.parametrize("stop_at", ["before", "half", "after"])
def test_rewind_interrupted_and_repeated_loses_and_doubles_nothing(tmp_path, monkeypatch, stop_at):
    path = tmp_path / "trace.jsonl"
    whole = make(path, n=4)
    late = b"".join(whole.splitlines(keepends=True)[3:])
    if stop_at == "half":
        (tmp_path / "trace.discarded.jsonl").write_bytes(late[: len(late) * 3 // 4])
    else:
        name = {"before": "_append_once", "after": "replace_file"}[stop_at]
        monkeypatch.setattr(trace_writer, name, lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            rewind(path, 10)
        monkeypatch.undo()
        assert path.read_bytes() == whole
    assert rewind(path, 10) == 2
    assert path.read_bytes() + (tmp_path / "trace.discarded.jsonl").read_bytes() == whole
