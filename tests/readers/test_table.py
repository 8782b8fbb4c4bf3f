"""Tables with any column names: cells, scales, several runs."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.trace_tables import PLAIN
from rlscaling.errors import TraceError
from rlscaling.readers.read import read_trace, read_traces


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("n/a", "run7.csv, row 3, column 'pass_rate': 'n/a' is not a number; repair or remove that row"),
        ('"0,35"', "row 3.*'0,35' has a decimal comma; write numbers with a decimal point"),
        ('"1,234"', "'1,234' has a thousands separator"),
        ("1_000", "'1_000' has a thousands separator"),
        ("35%", "'35%' has a percent sign; remove it and pass scale="),
        ("0.35,", "row 3: 3 cells under 2 column names; a row cut short, a decimal comma"),
        ("inf", "pass_rate at row 3 is inf: not a finite number"),
        ("35", r"pass_rate at row 3 is 35: outside \[0, 1\]"),
        (
            "",
            r"1 of 3 rows have no pass rate \(column 'pass_rate' is blank, first in row 3\).*--drop-missing",
        ),
        ("NaN", "1 of 3 rows have no pass rate"),
    ],
)
def test_a_bad_cell_is_named_by_its_row_in_the_file(file, cell, message):
    with pytest.raises(TraceError, match=message):
        read_trace(file(PLAIN.replace("0.35", cell)))


def test_blank_rows_are_left_out_only_when_asked_and_counted(file):
    path = file("compute,pass_rate\n0,0.3\n50,\n100,0.35\n150,nan\n,0.2\n")
    trace = read_trace(path, drop_missing=True)
    assert trace.compute.tolist() == [0, 100]
    assert trace.notes == (
        "Left out 2 rows without a pass rate (column 'pass_rate').",
        "Left out 1 row without compute (column 'compute').",
    )
    with pytest.raises(TraceError, match="no row has both compute and a pass rate"):
        read_trace(file("compute,pass_rate\n1,\n"), drop_missing=True)


def scores(file, *values):
    return file("compute,pass_rate,pass_rate_se\n" + "".join(f"{i},{v},0.5\n" for i, v in enumerate(values)))


@pytest.mark.parametrize(
    ("values", "scale", "expected", "se", "used"),
    [
        ((30, 40), "percent", [0.3, 0.4], 0.005, "percent"),
        ((-0.5, 0.5), "pm1", [0.25, 0.75], 0.25, "pm1"),
        ((-7, 900), "reward", [-7, 900], 0.5, "reward"),
        ((0.1, 0.2), "auto", [0.1, 0.2], 0.5, "fraction"),
        ((0.1, 2.0), "auto", [0.1, 2.0], 0.5, "reward"),
    ],
)
def test_scales(file, values, scale, expected, se, used):
    trace = read_trace(scores(file, *values), scale=scale)
    np.testing.assert_allclose(trace.pass_rate, expected)
    np.testing.assert_allclose(trace.pass_rate_se, se)
    assert trace.metadata["scale"] == trace.scale == used


def test_auto_scale_says_so_and_refuses_what_may_be_percent(file):
    note = read_trace(scores(file, 0, 2), scale="auto").notes
    assert note == ("Values reach 2.0: not a pass rate; read as an unbounded reward; scale= / --scale chooses.",)
    for values in ((30, 40), (-0.5, 0.5), (-3, 7)):
        with pytest.raises(TraceError, match="outside"):
            read_trace(scores(file, *values), scale="auto")


SEVERAL = "run,compute,pass_rate\n" + "".join(f"{r},{c},0.{c + 1}\n" for r in ("a", "b", "c") for c in range(4))


def test_several_runs_in_one_file(file):
    path = file(SEVERAL)
    with pytest.raises(TraceError, match=r"run7.csv holds 3 runs or domains: a, b, c; choose with run= / --run"):
        read_trace(path)
    assert read_trace(path, run="b").metadata["run"] == "b"
    traces = read_traces(path)
    assert list(traces) == ["run7:a", "run7:b", "run7:c"]
    assert all(len(trace) == 4 and trace.name == name for name, trace in traces.items())
    with pytest.raises(TraceError, match=r"has no run 'd' in column 'run'; it has a, b, c"):
        read_trace(path, run="d")
    with pytest.raises(TraceError, match="no column that tells runs apart; name it with run_column="):
        read_trace(file(PLAIN, "p.csv"), run="a")


def test_runs_by_recipe_and_seed_together_and_by_a_named_column(file):
    rows = [(r, s, c) for r in ("x", "y") for s in (1, 2) for c in range(3)]
    path = file("recipe,seed,compute,pass_rate\n" + "".join(f"{r},{s},{c},0.5\n" for r, s, c in rows))
    assert list(read_traces(path)) == ["run7:x:1", "run7:x:2", "run7:y:1", "run7:y:2"]
    assert len(read_trace(path, run="y:2")) == 3
    path = file("size,compute,pass_rate\n" + "".join(f"{s},{c},0.5\n" for s in (8, 17) for c in range(3)))
    assert len(read_trace(path, run_column="size", run=17)) == 3
    with pytest.raises(TraceError, match="compute restarts at rows 5"):
        read_trace(path)


def test_a_column_that_differs_in_every_row_tells_no_runs_apart(file):
    path = file("name,compute,pass_rate\nstep_0,0,0.3\nstep_1,1,0.4\n")
    assert len(read_trace(path)) == 2


def test_a_broken_run_does_not_hide_the_others(file):
    path = file(SEVERAL + "d,5,oops\n")
    assert len(read_trace(path, run="a")) == 4
    with pytest.raises(TraceError, match="row 14, column 'pass_rate': 'oops'"):
        read_traces(path)
