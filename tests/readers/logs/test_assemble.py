"""From logs to traces: scales, and scores that are not numbers."""

from __future__ import annotations

import json

import pytest

from helpers import log_files
from helpers.log_files import SCORE, receipt, verl
from rlscaling import read_trace
from rlscaling.errors import TraceError


def test_scores_beyond_0_and_1_are_refused_until_told(tmp_path):
    rows = log_files.verl_rows(steps=20, every=10)
    for row in rows:
        if SCORE in row:
            row[SCORE] = 2 * row[SCORE] - 1
    path = verl(tmp_path, rows)
    with pytest.raises(TraceError, match=r"mean@16: pass_rate at row 1 is -0.5: outside \[0, 1\].*--scale pm1"):
        read_trace(path)
    trace = read_trace(path, scale="pm1")
    assert trace.pass_rate[0] == 0.25
    assert receipt(trace)["assumed"]["scale"] == "pm1"


@pytest.mark.parametrize("bad", ["null", "NaN", '"n/a"'])
def test_a_score_that_is_no_number_is_counted_as_such(tmp_path, bad):
    path = verl(tmp_path, log_files.verl_rows(40, 10))
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '"step": 20' in line)
    row = json.loads(lines[at])
    row["data"][log_files.SCORE] = "HERE"
    lines[at] = json.dumps(row).replace('"HERE"', bad)
    path.write_text("\n".join(lines) + "\n")
    trace = read_trace(path)
    assert trace.columns["step"].tolist() == [0, 10, 30, 40]
    assert receipt(trace)["dropped"]["with a score that is not a number (NaN, null, text)"] == 1
    assert receipt(trace)["dropped"]["without this score"] == 36
