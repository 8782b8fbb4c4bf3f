"""The trace: what may enter it, and a file that survives being killed."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlscaling import journal
from rlscaling.errors import TraceError
from rlscaling.readers import read_trace
from rlscaling.schema import VERL_NAMES
from rlscaling.trace import (
    COLUMNS,
    COMPUTE_UNITS,
    Trace,
    TraceWriter,
    as_floats,
    check_series,
    read_jsonl,
    rewind,
    write_trace,
)

DOCS = Path(__file__).parents[1] / "docs"
ROW = {"compute_gpu_hours": 1.0, "pass_rate": 0.5}


class FakeTensor:
    """Just enough of a torch tensor: ``numpy`` works for detached float64 on the CPU only."""

    def __init__(self, values, dtype="torch.bfloat16", device="cuda", grad=True):
        self.values, self.dtype, self.device, self.grad = values, dtype, device, grad

    def detach(self):
        return FakeTensor(self.values, self.dtype, self.device, grad=False)

    def cpu(self):
        return FakeTensor(self.values, self.dtype, "cpu", self.grad)

    def double(self):
        return FakeTensor(self.values, "torch.float64", self.device, self.grad)

    def numpy(self):
        assert (self.dtype, self.device, self.grad) == ("torch.float64", "cpu", False)
        return np.array(self.values)


@pytest.mark.parametrize(
    "values",
    [
        [0.25, 0.5],
        (0.25, 0.5),
        np.array([0.25, 0.5], dtype=np.float16),
        np.ma.MaskedArray([0.25, 0.5]),
        [Decimal("0.25"), np.float32(0.5)],
        (value for value in (0.25, 0.5)),
        pd.Series([0.25, 0.5], index=[7, 9]),
        pd.Series([0.25, 0.5], dtype="Float64"),
        pd.Index([0.25, 0.5]),
        pl.Series([0.25, 0.5]),
        FakeTensor([0.25, 0.5]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_as_floats_takes_every_kind_of_series(values):
    array = as_floats(values, "pass_rate")
    assert array.dtype == np.float64
    assert array.tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([0.25, pd.NA], dtype="Float64"),
        pd.Series([1, pd.NA], dtype="Int64"),
        pl.Series([0.25, None]),
        pl.Series([1, None]),
        np.ma.MaskedArray([0.25, 0.5], mask=[False, True]),
    ],
    ids=["pandas-float", "pandas-int", "polars-float", "polars-int", "masked"],
)
def test_missing_entries_become_nan_which_the_check_refuses(values):
    assert np.isnan(as_floats(values, "pass_rate")).tolist() == [False, True]
    with pytest.raises(TraceError, match="pass_rate at position 1 is nan: not a finite number; drop or repair"):
        check_series([1, 2], values)


def test_as_floats_takes_real_torch_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([0.25, 0.5], dtype=torch.bfloat16, requires_grad=True)
    assert as_floats(tensor, "pass_rate").tolist() == [0.25, 0.5]
    assert as_floats([torch.tensor(0.25), torch.tensor(0.5)], "pass_rate").tolist() == [0.25, 0.5]
    for bad in (torch.tensor([True]), torch.tensor([1j])):
        with pytest.raises(TraceError, match="not real numbers"):
            as_floats(bad, "pass_rate")


def test_as_floats_copies():
    values = np.array([0.1, 0.2])
    as_floats(values, "x")[0] = 9
    assert values[0] == 0.1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([*[0.1] * 17, "n/a"], r"pass_rate\[17\] is 'n/a': text, not a number; drop or repair"),
        (pd.Series([0.1, "x"], dtype=object), r"pass_rate\[1\] is 'x': text"),
        (pl.Series(["a", "b"]), r"pass_rate\[0\] is 'a': text"),
        (np.array(["a"]), r"pass_rate\[0\] is 'a': text"),
        ([0.1, None], r"pass_rate\[1\] is None: missing"),
        ([0.1, 1j], r"pass_rate\[1\] is 1j: a complex number"),
        ([0.1, True], r"pass_rate\[1\] is True: a truth value"),
        (np.array([True, False]), r"pass_rate\[0\] is True: a truth value"),
        ([0.1, [0.2]], r"pass_rate\[1\] is \[0.2\]: not a number"),
        ([10**400], r"pass_rate\[0\] is 1000.*\.\.\.: too large"),
        ([[0.1, 0.2]], r"pass_rate is of shape \(1, 2\)"),
        (pd.DataFrame({"a": [1.0]}), r"of shape \(1, 1\); pass one number per evaluation"),
        (np.array(0.5), "a single value"),
        (0.5, "pass_rate is 0.5: not a series"),
        ("0.1, 0.2", "pass_rate is '0.1, 0.2': not a series"),
        (None, "pass_rate is None: not a series"),
        ({"a": 1}, "not a series"),
        (pd.Series(pd.to_datetime(["2025-01-01"])), "a date or duration"),
        (FakeTensor([True], dtype="torch.bool"), "tensor of torch.bool: not real numbers"),
    ],
)
def test_as_floats_says_what_is_no_number(values, message):
    with pytest.raises(TraceError, match=message):
        as_floats(values, "pass_rate")


def rising(n=20, start=0.0):
    return (start + np.arange(n) * 10.0).tolist()


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        ([], "no evaluations"),
        ([1, np.nan], "compute at position 1 is nan: not a finite number; drop or repair"),
        ([1, np.inf, np.inf], r"position 1 is inf \(2 such values in all\)"),
        ([-5, 1], "compute at position 0 is -5: negative"),
        ([1, 3, 2, 4], "falls from 3 to 2 at position 2; sort by compute"),
        ([4, 3, 2, 1], "falls from 4 to 3 at position 1, and 2 more times; sort by compute"),
        (
            [1, 2, 2, 3],
            "compute 2 is a duplicate: it stands at position 1 and at position 2; average them or keep one",
        ),
        ([1, 1, 1], "compute 1 is a duplicate"),
        ([1, 1, 2, 2], r"is a duplicate \(2 times each\): looks like 2 runs or domains in one series"),
        (
            rising() * 3,
            r"looks like 3 runs one after the other \(compute restarts at positions 20, 40\).*--run",
        ),
        (rising() + rising(start=3), r"looks like 2 runs .*positions 20\)"),
        ([*rising(), 150.0, 160, 170, 200], r"falls from 190 to 150 at position 20; .*if a run was resumed"),
        ([*rising(), 0.0], "falls from 190 to 0 at position 20; sort"),
    ],
)
def test_compute_that_does_not_rise_is_told_apart(compute, message):
    with pytest.raises(TraceError, match=message):
        check_series(compute, [0.5] * len(compute))


def test_messages_name_file_rows_when_they_are_known():
    with pytest.raises(TraceError, match="row 4 and at row 9"):
        check_series([1, 1, 2], [0.1, 0.2, 0.3], rows=[4, 9, 10])
    with pytest.raises(TraceError, match="restarts at rows 23"):
        check_series(rising() * 1 + rising(start=1), [0.5] * 40, rows=list(range(3, 43)))


def test_unequal_lengths_name_both():
    with pytest.raises(TraceError, match="compute has 3 values and pass_rate 2"):
        check_series([1, 2, 3], [0.1, 0.2])


@pytest.mark.parametrize(
    ("pass_rate", "scale", "message"),
    [
        (
            [31.0, 40.0],
            "fraction",
            r"position 0 is 31: outside \[0, 1\].*looks like percent.*scale=\"percent\"",
        ),
        ([-0.4, 0.2], "fraction", r"mean of \+1/-1 rewards; take \(y \+ 1\) / 2, or .*scale=\"pm1\" \(--scale pm1\)"),
        ([0.4, 1.7], "fraction", "position 1 is 1.7.*a reward.*A_max=inf.*--scale reward"),
        ([0.4, 170], "fraction", "A_max=inf"),
        ([-3, 0.4], "fraction", "A_max=inf"),
        ([0.4, 170], "percent", "position 1 is 1.7 after scale='percent': outside"),
        ([0.4, 3], "pm1", "position 1 is 2 after scale='pm1'"),
        ([0.4, 0.5], "log", "scale='log' is unknown; choose one of fraction, percent, pm1, reward"),
    ],
)
def test_scores_that_are_no_fractions_are_told_apart(pass_rate, scale, message):
    with pytest.raises(TraceError, match=message):
        check_series([1, 2], pass_rate, scale=scale)


def test_scales():
    assert check_series([1, 2], [31, 40], scale="percent")[1].tolist() == [0.31, 0.4]
    assert check_series([1, 2], [-1, 0.5], scale="pm1")[1].tolist() == [0, 0.75]
    assert check_series([1, 2], [-7, 900], scale="reward")[1].tolist() == [-7, 900]
    assert check_series([1, 2], [-7, 900], bounded=False)[1].tolist() == [-7, 900]


def test_extreme_but_legal_compute():
    C, y = check_series([0, 1e-3, 1e24], [0, 0.5, 1])
    assert C.tolist() == [0, 1e-3, 1e24]
    assert y.tolist() == [0, 0.5, 1]


@given(st.lists(st.floats(0, 1e24), min_size=2, max_size=20, unique=True), st.randoms())
def test_any_rising_series_passes_and_any_shuffle_of_it_is_refused(values, random):
    ordered = sorted(values)
    C, _ = check_series(ordered, [0.5] * len(ordered))
    assert C.tolist() == ordered
    shuffled = ordered.copy()
    random.shuffle(shuffled)
    if shuffled != ordered:
        with pytest.raises(TraceError, match=r"sort by compute|one after the other"):
            check_series(shuffled, [0.5] * len(ordered))


def trace(**fields):
    columns = {"step": [0, 10, 20], "n_prompts": [8.0] * 3, "note": ["a", None, "c"]}
    return Trace([0, 1.5, 3], [0.3, 0.35, 0.4], **{"name": "r", "columns": columns, "metadata": {"seed": 1}, **fields})


def test_trace_is_frozen_and_reads_well():
    t = trace()
    assert len(t) == 3
    assert repr(t) == "Trace('r': 3 evaluations, 0 to 3 gpu-hours, pass rate 0.3 to 0.4)"
    assert t.n_prompts.tolist() == [8, 8, 8]
    assert t.n_samples is None
    assert t.pass_rate_se is None
    with pytest.raises(ValueError, match="read-only"):
        t.pass_rate[0] = 1
    assert pickle.loads(pickle.dumps(t)).compute.tolist() == t.compute.tolist()


def test_trace_does_not_alias_what_it_was_made_from():
    C, step = np.array([1.0, 2.0]), np.array([1.0, 2.0])
    t = Trace(C, [0.1, 0.2], columns={"step": step})
    C[0] = step[0] = 1.5
    assert t.compute[0] == t.columns["step"][0] == 1.0


def test_trace_refuses():
    with pytest.raises(TraceError, match="compute_unit='hours' is unknown; choose one of gpu-hours"):
        trace(compute_unit="hours")
    with pytest.raises(TraceError, match="column 'step' has 2 values for 3 evaluations"):
        trace(columns={"step": [1, 2]})
    with pytest.raises(TraceError, match="outside"):
        Trace([1, 2], [0.5, 3])
    assert Trace([1, 2], [0.5, 3], metadata={"scale": "reward"}).pass_rate[1] == 3


def test_up_to_cuts_every_column():
    t = trace().up_to(1.5)
    assert t.compute.tolist() == [0, 1.5]
    assert t.columns["note"].tolist() == ["a", None]
    with pytest.raises(TraceError, match="no evaluation at or below -1 gpu-hours: the first is at 0"):
        trace().up_to(-1)


def same(a: Trace, b: Trace) -> None:
    assert (a.name, a.compute_unit, a.notes, dict(a.metadata)) == (
        b.name,
        b.compute_unit,
        b.notes,
        dict(b.metadata),
    )
    assert list(a.columns) == list(b.columns)
    for x, y in zip(
        (a.compute, a.pass_rate, *a.columns.values()),
        (b.compute, b.pass_rate, *b.columns.values()),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


def test_frames_round_trip():
    same(Trace.from_frame(trace().to_frame()), trace())
    frame = pl.DataFrame({"hours": [1, 2], "acc": [0.1, 0.2], "step": [1, 2]})
    t = Trace.from_frame(frame, compute="hours", pass_rate="acc", name="x")
    assert (t.name, t.compute.tolist(), t.columns["step"].tolist()) == ("x", [1, 2], [1, 2])
    with pytest.raises(TraceError, match="no column 'compute'; it has hours, acc, step"):
        Trace.from_frame(frame)


finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def traces(draw):
    compute = sorted(draw(st.lists(st.floats(0, 1e24), min_size=1, max_size=6, unique=True)))
    n = len(compute)
    return Trace(
        compute,
        draw(hnp.arrays(float, n, elements=st.floats(0, 1))),
        compute_unit=draw(st.sampled_from(COMPUTE_UNITS)),
        name="n" + draw(texts),
        columns={
            "step": np.arange(n),
            "loss": draw(hnp.arrays(float, n, elements=st.one_of(finite, st.just(np.nan)))),
            "remark": np.array(draw(st.lists(st.sampled_from(["a", "b é"]), min_size=n, max_size=n)), dtype=object),
        },
        metadata=draw(
            st.dictionaries(st.sampled_from(["seed", "recipe", "x"]), st.one_of(texts, finite, st.integers()))
        ),
        notes=tuple(draw(st.lists(texts, max_size=2))),
    )


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@settings(max_examples=60, deadline=None)
@given(original=traces())
def test_files_give_the_same_trace_back(tmp_path_factory, suffix, original):
    path = tmp_path_factory.mktemp("t") / f"run{suffix}"
    write_trace(original, path)
    same(read_trace(path), original)


@pytest.mark.parametrize("unit", COMPUTE_UNITS)
def test_csv_keeps_columns_and_unit(tmp_path, unit):
    write_trace(trace(compute_unit=unit), tmp_path / "r.csv")
    back = read_trace(tmp_path / "r.csv")
    assert (back.compute_unit, back.notes) == (unit, ())
    assert back.columns["step"].tolist() == [0, 10, 20]
    assert back.columns["note"].tolist() == ["a", None, "c"]


def test_columns_of_lists_survive_parquet(tmp_path):
    t = trace(columns={"counts": [[1, 2], [3, 4], [5, 6]]})
    write_trace(t, tmp_path / "r.parquet")
    assert read_trace(tmp_path / "r.parquet").columns["counts"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_write_trace_never_overwrites_unasked(tmp_path):
    path = tmp_path / "r.jsonl"
    write_trace(trace(), path)
    before = path.read_bytes()
    with pytest.raises(TraceError, match=r"is there already and was left as it is; .*overwrite=True"):
        write_trace(trace(name="other"), path)
    assert path.read_bytes() == before
    write_trace(trace(name="other"), path, overwrite=True)
    assert read_trace(path).name == "other"
    with pytest.raises(TraceError, match=r"end the name in .jsonl, .parquet or .csv"):
        write_trace(trace(), tmp_path / "r.xlsx")


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


def make(path, n=3, **header):
    with TraceWriter(path, header) as writer:
        for i in range(n):
            writer.write("eval", step=10 * i, compute_gpu_hours=float(i), pass_rate=0.1 * i)
    return path.read_bytes()


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


def test_a_broken_line_elsewhere_is_an_error_with_its_number(tmp_path):
    path = tmp_path / "t.jsonl"
    lines = make(path).splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    for attempt in (lambda: read_jsonl(path), lambda: TraceWriter(path, {}, append=True)):
        with pytest.raises(TraceError, match=r"t.jsonl, line 3: 'garbage' is not a JSON object"):
            attempt()
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(TraceError, match=r'line 1: no {"kind": "header"} there'):
        read_jsonl(path)
    path.write_bytes(b"".join(lines + lines))
    with pytest.raises(TraceError, match="line 5: a second header"):
        read_jsonl(path)
    path.write_bytes(b'{"kind": "header", "schema_version": 99}\n')
    with pytest.raises(TraceError, match="schema_version 99, this one reads up to 1; upgrade"):
        read_jsonl(path)


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

        monkeypatch.setattr(journal.os, "write", fills_up)
        with pytest.raises(OSError, match="No space"):
            writer.write("eval", **ROW)
        monkeypatch.undo()
        assert path.read_bytes() == whole
        writer.write("eval", **ROW)
    assert len(read_jsonl(path)[1]) == 2


KILLED = """
import sys
from rlscaling.trace import TraceWriter
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
        _, found, _ = read_jsonl(path)
        steps = [row["step"] for row in found]
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
        monkeypatch.setattr(journal, name, lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            rewind(path, 10)
        monkeypatch.undo()
        assert path.read_bytes() == whole
    assert rewind(path, 10) == 2
    assert path.read_bytes() + (tmp_path / "trace.discarded.jsonl").read_bytes() == whole


def test_the_documented_columns_are_the_schema():
    lines = [line for line in (DOCS / "metrics.md").read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert {name.strip("`"): (unit, meaning) for _, name, unit, meaning, *_ in cells} == dict(COLUMNS)
    assert len(lines) == len(COLUMNS)
    verl = {name: f"`{metric}`" + (f" ({how})" if how else "") for name, (metric, how) in VERL_NAMES.items()}
    assert {name.strip("`"): metric for _, name, _, _, metric, _ in cells if metric} == verl


def test_the_documented_example_is_a_trace(tmp_path):
    text = (DOCS / "trace-file.md").read_text().split("```json\n")[1].split("```")[0]
    (tmp_path / "trace.jsonl").write_text(text)
    t = read_trace(tmp_path / "trace.jsonl")
    assert t.compute.tolist() == [0, 216.2]
    assert set(t.columns) <= set(COLUMNS)


def test_importing_the_trace_loads_no_heavy_library():
    heavy = {"pandas", "pyarrow", "polars", "torch", "matplotlib", "lmfit"}
    found = f"{{m.split('.')[0] for m in sys.modules}} & {heavy}"
    code = f"import sys, rlscaling.readers; print(sorted({found}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
