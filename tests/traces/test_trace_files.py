"""Tests of `rlscaling/traces/trace_files.py`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers.small_traces import same, trace
from rlscaling import Trace, read_trace, read_traces, write_traces
from rlscaling.errors import TraceError
from rlscaling.traces.schema import COMPUTE_UNITS
from rlscaling.traces.trace_files import write_trace

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
    with pytest.raises(TraceError, match=r"exists and is not written over; .*overwrite=True"):
        write_trace(trace(name="other"), path)
    assert path.read_bytes() == before
    write_trace(trace(name="other"), path, overwrite=True)
    assert read_trace(path).name == "other"
    with pytest.raises(TraceError, match=r"end the name in .jsonl, .parquet or .csv"):
        write_trace(trace(), tmp_path / "r.xlsx")


def two_runs() -> dict[str, Trace]:
    a = Trace([0, 1], [0.3, 0.4], columns={"step": [0, 5], "note": ["x", None]}, metadata={"seed": 3}, notes=("n",))
    b = Trace([10, 20], [-3.0, 4.0], compute_unit="tokens", columns={"lists": [[1], [2]]}, metadata={"scale": "reward"})
    return {"a": a, "b": b}


@pytest.mark.parametrize(("path", "name"), [("runs.parquet", "runs:{}"), ("runs", "{}")])
def test_write_traces_round_trip(tmp_path, path, name):
    write_traces(two_runs(), tmp_path / path)
    traces = read_traces(tmp_path / path)
    assert len(traces) == 2
    for run, written in two_runs().items():
        back = traces[name.format(run)]
        assert back.compute.tolist() == written.compute.tolist()
        assert back.pass_rate.tolist() == written.pass_rate.tolist()
        assert back.compute_unit == written.compute_unit
        assert {k: v.tolist() for k, v in back.columns.items()} == {k: v.tolist() for k, v in written.columns.items()}
        assert back.metadata == written.metadata
        assert back.notes == written.notes


def test_a_run_of_a_parquet_file_is_chosen_by_name(tmp_path):
    write_traces(two_runs(), tmp_path / "runs.parquet")
    assert read_trace(tmp_path / "runs.parquet", run="b").scale == "reward"
    with pytest.raises(TraceError, match="has no run 'c'; it has a, b"):
        read_trace(tmp_path / "runs.parquet", run="c")


@pytest.mark.parametrize("path", ["runs.parquet", "runs"])
def test_write_traces_never_overwrites_unasked(tmp_path, path):
    write_traces(two_runs(), tmp_path / path)
    (tmp_path / "runs").mkdir(exist_ok=True)
    (tmp_path / "runs" / "notes.txt").write_text("kept")
    with pytest.raises(TraceError, match=r"exists and is not written over.*overwrite=True"):
        write_traces(two_runs(), tmp_path / path)
    write_traces({"a": two_runs()["b"], "c": two_runs()["a"]}, tmp_path / path, overwrite=True)
    runs = {key.removeprefix("runs:"): trace for key, trace in read_traces(tmp_path / path).items()}
    assert runs["a"].compute_unit == "tokens"
    assert list(runs) == (["a", "c"] if path.endswith("parquet") else ["a", "b", "c"])
    assert (tmp_path / "runs" / "notes.txt").read_text() == "kept"


def test_a_folder_of_runs_holds_what_write_trace_writes(tmp_path):
    write_traces(two_runs(), tmp_path / "runs")
    write_trace(two_runs()["a"], tmp_path / "a.jsonl")
    assert (tmp_path / "runs" / "a.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("names", "files"),
    [(["exp/trace", "runs:b 2"], ["exp_trace.jsonl", "runs_b 2.jsonl"]), (["..", "é"], ["run.jsonl", "é.jsonl"])],
)
def test_names_of_runs_become_names_of_files(tmp_path, names, files):
    write_traces(dict.fromkeys(names, two_runs()["a"]), tmp_path / "runs")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(files)


@pytest.mark.parametrize(
    ("names", "path", "message"),
    [
        (["a"], "x.csv", "cannot write several runs to 'x.csv': end the name in .parquet, or give a folder"),
        ([], "runs", "there are no runs to write; give at least one"),
        (["a/b", "a:b"], "runs", "the runs 'a/b' and 'a:b' would both be written to a_b.jsonl; rename one"),
        (["A", "a"], "runs", "the runs 'A' and 'a' would both be written to a.jsonl"),
        (["a", "trace"], "runs", "none may be named 'trace'; rename it"),
        (["a"], "nowhere/runs", "cannot create the folder .*nowhere/runs: No such file or directory; choose another"),
    ],
)
def test_runs_that_cannot_be_written(tmp_path, names, path, message):
    with pytest.raises(TraceError, match=message):
        write_traces(dict.fromkeys(names, two_runs()["a"]), tmp_path / path)
    assert not list(tmp_path.iterdir())
