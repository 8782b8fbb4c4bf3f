"""Files without a trace, every real curve, and the same reading in Python and by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from helpers.command_line import run_command
from rlscaling import fit_trace
from rlscaling.errors import TraceError
from rlscaling.readers.read import read_trace


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("", "a.csv", "a.csv is empty"),
        (" \n", "a.csv", "a.csv is empty"),
        ("compute,pass_rate\n", "a.csv", "a.csv has a header but no rows"),
        (
            "0,0.3\n1,0.4\n",
            "a.csv",
            r"has no header: its first row holds numbers \(0, 0.3\); add a row of column names",
        ),
        ("hello\nworld\n", "a.txt", r"has one column only \('hello'\)"),
        ("a,acc,acc\n1,2,3\n", "a.csv", "two columns named 'acc'; rename one"),
        (b"\x1f\x8b\x08\x00\x00", "a.csv", "not text in UTF-8 .*compressed"),
        (b"compute,pass_rate\n\xe9,1\n", "a.csv", "not text in UTF-8"),
        ('compute,pass_rate\n"1,0.3\n', "a.csv", "row 2: not readable as CSV"),
        (b"PAR1 and then nothing", "a.parquet", "not a readable Parquet file"),
        (b"nothing of the kind", "a.parquet", "not a readable Parquet file"),
        ('{"kind": "sigmoid-fit", "A": 1}', "fit.json", "fit.json is a saved fit, not a trace"),
        ('{"kind": "sigmoid-fit", "A": 1}\n', "fit.jsonl", "fit.jsonl is a saved fit, not a trace"),
        (
            '{"a": [1, 2], "b": [1]}',
            "a.json",
            "neither a list of objects nor an object of equally long lists",
        ),
        ('{"a": ', "a.json", "not readable as JSON"),
        ('{"a": ', "a.jsonl", "no complete JSON object"),
        ('{"a": 1}\nx\n{"a": 2}\n', "a.jsonl", "line 2: 'x' is not a JSON object"),
        ('{"kind": "header"}\n{"kind": "train", "step": 1}\n', "a.jsonl", "no evaluation .*among its 1 rows"),
        (
            '{"kind": "header"}\n{"kind": "eval", "pass_rate": 1}\n',
            "a.jsonl",
            "no column 'compute_gpu_hours'",
        ),
    ],
)
def test_files_that_hold_no_trace(file, content, name, message):
    with pytest.raises(TraceError, match=message):
        read_trace(file(content, name))


SHARED = Path(__file__).parents[3] / "shared" / "data" / "traces"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared development data are not beside this checkout")
def test_every_real_curve_reads_or_is_refused_in_a_sentence():
    refused = {}
    for path in sorted(SHARED.glob("*.csv")):
        frame = pd.read_csv(path)
        try:
            trace = read_trace(path, scale="auto")
        except TraceError as error:
            refused[path.name] = str(error)
        else:
            assert trace.compute.tolist() == frame["compute"].tolist()
            assert trace.pass_rate.tolist() == frame["pass_rate"].tolist()
    assert all("row" in message for message in refused.values()), json.dumps(refused, indent=1)


CURVE = [round(0.3 + 0.35 / (1 + (2500 / max(C, 1e-9)) ** 1.5), 4) for C in range(0, 20_000, 500)]


def scores(file, transform):
    rows = [f"{500 * i},{transform(y)}" for i, y in enumerate(CURVE)]
    return file("\n".join(["compute,pass_rate", *rows]), "run.csv")


@pytest.mark.parametrize("factor", [1, 2], ids=["fractions", "rewards up to 1.3"])
def test_python_and_the_command_read_the_same(file, capsys, factor):
    path = scores(file, lambda y: round(factor * y, 4))
    trace = read_trace(path)
    code, out, _ = run_command(capsys, "fit", path, "--json", "--resamples", 20)
    run = json.loads(out)
    assert code == 0
    assert run["A"] == fit_trace(trace).params.A
    assert set(trace.notes) <= set(run["notes"])
    assert (trace.scale == "reward") == any("read as an unbounded reward" in note for note in trace.notes)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            lambda y: 100 * y,
            'looks like percent; divide by 100, or read the file with scale="percent" (--scale percent)',
        ),
        (lambda y: 2 * y - 1, 'read the file with scale="pm1" (--scale pm1)'),
        (lambda y: y - 5, 'read the file with scale="reward" (--scale reward)'),
    ],
    ids=["percent", "pm1", "negative rewards"],
)
def test_python_and_the_command_refuse_the_same(file, capsys, transform, message):
    path = scores(file, transform)
    with pytest.raises(TraceError) as refusal:
        read_trace(path)
    assert message in str(refusal.value)
    code, _, err = run_command(capsys, "fit", path)
    assert code == 3
    assert str(refusal.value) in err
