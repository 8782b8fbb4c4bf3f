"""Trace files of this package, and JSON lines and Parquet files of others."""

from __future__ import annotations

import pandas as pd
import pytest

from helpers.trace_tables import own
from rlscaling.errors import TraceError
from rlscaling.readers.read import read_trace, read_traces
from rlscaling.traces.trace_files import write_trace


def test_own_trace(tmp_path):
    rows = [
        {"kind": "eval", "step": 0, "compute_gpu_hours": 0, "pass_rate": 0.3, "tokens_generated": 0},
        {"kind": "train", "step": 1, "compute_gpu_hours": 1, "loss": 0.5},
        {
            "kind": "eval",
            "step": 1,
            "compute_gpu_hours": 1,
            "pass_rate": 0.4,
            "tokens_generated": 99,
            "odd": None,
        },
    ]
    path = own(tmp_path, rows, run_id="r1", compute_unit="device-hours")
    trace = read_trace(path)
    assert (trace.compute.tolist(), trace.compute_unit, trace.name) == ([0, 1], "device-hours", "trace")
    assert trace.metadata == {"run_id": "r1", "scale": "fraction"}
    assert list(trace.columns) == ["step", "tokens_generated", "odd"]
    by_tokens = read_trace(path, compute_column="tokens_generated")
    assert (by_tokens.compute_unit, by_tokens.compute[-1]) == ("tokens", 99)
    with path.open("ab") as stream:
        stream.write(b'{"kind": "ev')
    assert "The last line of trace.jsonl was cut short (12 bytes) and was left out." in read_trace(path).notes


def test_own_trace_of_several_domains(tmp_path):
    rows = [
        {"kind": "eval", "domain": d, "compute_gpu_hours": c, "pass_rate": 0.1 + c / 10 + (d == "code") / 2}
        for c in range(3)
        for d in ("math", "code")
    ]
    path = own(tmp_path, rows)
    assert list(read_traces(path)) == ["trace:math", "trace:code"]
    with pytest.raises(TraceError, match=r"holds 2 runs or domains: math, code; .*domain= / --domain"):
        read_trace(path)
    code = read_trace(path, domain="code")
    assert code.pass_rate[0] == 0.6
    assert code.metadata["domain"] == "code"
    with pytest.raises(TraceError, match=r"has no domain 'maths'.*did you mean 'math'"):
        read_trace(path, domain="maths")
    write_trace(code, tmp_path / "code.jsonl")
    assert read_trace(tmp_path / "code.jsonl", domain="code").metadata["domain"] == "code"
    with pytest.raises(TraceError, match="does not tell domains apart"):
        read_trace(tmp_path / "code.jsonl", domain="math")


def test_own_trace_of_rewards(tmp_path):
    path = own(tmp_path, [{"kind": "eval", "compute_gpu_hours": 0, "pass_rate": -3.0}], scale="reward")
    assert read_trace(path).pass_rate.tolist() == [-3]
    assert read_trace(path, scale="auto").scale == "reward"


def test_errors_in_own_traces_name_the_line(tmp_path):
    rows = [{"kind": "eval", "compute_gpu_hours": c, "pass_rate": 0.5} for c in (0, 2, 1)]
    with pytest.raises(TraceError, match=r"trace.jsonl: compute falls from 2 to 1 at row 4; sort"):
        read_trace(own(tmp_path, rows))


@pytest.mark.parametrize(
    "cell",
    ["1", "0.5", "null", "true", '"text"', '"0.5"', '"2024-01-01T00:00:00"', "[1, 2]", '{"a": 1}', str(10**25), "NaN",
     '"é"', '""', "-0.0", "1e-7"],
)  # fmt: skip
@pytest.mark.parametrize("other", ["", ', "odd": 7', ', "odd": "seven"', ', "odd": null'])
def test_lines_read_at_once_are_as_those_read_one_by_one(file, monkeypatch, cell, other):
    """A column of every kind, in all rows or beside another kind; keys that rows lack; a torn last line."""
    rows = [f'{{"step": {i}, "acc": 0.{i + 1}, "odd": {cell}}}' for i in range(3)]
    path = file("\n".join([*rows, f'{{"step": 3, "acc": 0.5{other}}}', '{"step": 4, "ac']), "log.jsonl")
    fast = read_trace(path)

    def refused(*_, **__):
        raise ValueError

    monkeypatch.setattr("rlscaling.readers.formats.trace_files.parsed_lines", refused)
    slow = read_trace(path)
    assert (fast.compute.tolist(), fast.pass_rate.tolist()) == (slow.compute.tolist(), slow.pass_rate.tolist())
    assert repr(fast.columns["odd"].tolist()) == repr(slow.columns["odd"].tolist())
    assert (fast.notes, fast.metadata) == (slow.notes, slow.metadata)


def test_a_bad_cell_is_named_by_its_line_beside_blank_ones(file):
    path = file('{"compute": 0, "pass_rate": 0.3}\n\n{"compute": 1, "pass_rate": 7}\n', "log.jsonl")
    with pytest.raises(TraceError, match=r"pass_rate at row 3 is 7: outside"):
        read_trace(path)


def test_foreign_parquet(tmp_path):
    frame = pd.DataFrame({"gpu_hours": [1, 2, 3], "accuracy": [0.3, None, 0.4], "note": ["a", None, "c"]})
    frame.to_parquet(tmp_path / "f.parquet")
    with pytest.raises(TraceError, match=r"1 of 3 rows have no pass rate .*first in row 2"):
        read_trace(tmp_path / "f.parquet")
    trace = read_trace(tmp_path / "f.parquet", drop_missing=True)
    assert trace.pass_rate.tolist() == [0.3, 0.4]
    assert trace.columns["note"].tolist() == ["a", "c"]
    assert trace.metadata["source"] == "f.parquet"
