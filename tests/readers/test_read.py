"""Files that hold no trace, and every real curve: a trace, or a refusal in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

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
