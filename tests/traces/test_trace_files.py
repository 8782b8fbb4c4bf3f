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


def test_write_traces_round_trip(tmp_path):
    a = Trace([0, 1], [0.3, 0.4], columns={"step": [0, 5], "note": ["x", None]}, metadata={"seed": 3}, notes=("n",))
    b = Trace([10, 20], [-3.0, 4.0], compute_unit="tokens", columns={"lists": [[1], [2]]}, metadata={"scale": "reward"})
    path = tmp_path / "runs.parquet"
    write_traces({"a": a, "b": b}, path)
    found = read_traces(path)
    for name, written in (("a", a), ("b", b)):
        back = found[f"runs:{name}"]
        assert back.compute.tolist() == written.compute.tolist()
        assert back.pass_rate.tolist() == written.pass_rate.tolist()
        assert back.compute_unit == written.compute_unit
        assert {k: v.tolist() for k, v in back.columns.items()} == {k: v.tolist() for k, v in written.columns.items()}
        assert back.metadata == written.metadata
        assert back.notes == written.notes
    assert read_trace(path, run="b").scale == "reward"
    with pytest.raises(TraceError, match="has no run 'c'; it has a, b"):
        read_trace(path, run="c")
    with pytest.raises(TraceError, match="exists and is not written over"):
        write_traces({"a": a}, path)
    with pytest.raises(TraceError, match="end the name 'x.csv' in .parquet"):
        write_traces({"a": a}, tmp_path / "x.csv")
