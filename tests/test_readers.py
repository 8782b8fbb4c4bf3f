"""Files as people have them: what is taken, what is announced, what is refused, and in which words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlscaling.errors import TraceError
from rlscaling.readers import read_trace, read_traces
from rlscaling.trace import Trace, TraceWriter, write_trace

PLAIN = "compute,pass_rate\n0,0.3\n100,0.35\n200,0.4\n"


@pytest.fixture
def file(tmp_path):
    def write(content, name="run7.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("name", ["compute", "compute_gpu_hours", "gpu_hours"])
def test_plain_names_are_taken_without_comment(file, name):
    trace = read_trace(file(PLAIN.replace("compute", name)))
    assert trace.compute.tolist() == [0, 100, 200]
    assert trace.pass_rate.tolist() == [0.3, 0.35, 0.4]
    assert (trace.name, trace.compute_unit, trace.notes) == ("run7", "gpu-hours", ())
    assert trace.metadata == {"source": "run7.csv", "scale": "fraction"}


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", ";"),
        "\ufeff" + PLAIN,
        PLAIN.encode("utf-16"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("100,", '"100",'),
        PLAIN.replace("\n", "\n\n"),
        PLAIN.rstrip("\n"),
        PLAIN.replace("compute,", " compute , "),
    ],
    ids=["tab", "semicolon", "bom", "utf16", "crlf", "quotes", "blank lines", "no last newline", "spaces"],
)
def test_every_common_csv_dialect(file, content):
    assert read_trace(file(content)).pass_rate.tolist() == [0.3, 0.35, 0.4]


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("gpu-h", "gpu-hours"),
        ("H100 hours", "gpu-hours"),
        ("tpu_hours", "device-hours"),
        ("total_flops", "flops"),
        ("num_tokens", "tokens"),
        ("rollouts", "rollouts"),
        ("hours", "wall-hours"),
        ("Step", "steps"),
        ("train/global_step", "steps"),
        ("_step", "steps"),
    ],
)
def test_guessed_compute_and_its_unit_are_announced(file, column, unit):
    trace = read_trace(file(PLAIN.replace("compute", column)))
    assert trace.compute_unit == unit
    assert trace.notes[0].startswith(f"Took column '{column}' as the compute; compute_column= / --compute-column")
    assert unit in trace.notes[1]
    assert read_trace(file(PLAIN.replace("compute", column)), compute_unit="tokens").compute_unit == "tokens"


@pytest.mark.parametrize(
    ("columns", "taken"),
    [
        (["acc", "reward"], "acc"),
        (["train/acc", "eval/acc"], "eval/acc"),
        (["mean@16", "best@16", "acc_std"], "mean@16"),
        (
            ["val-core/math/acc/mean@16", "val-aux/math/reward/mean@16", "val-core/math/acc/best@16/mean"],
            "val-core/math/acc/mean@16",
        ),
        (["run 1 - accuracy", "run 1 - accuracy__MIN", "run 1 - accuracy__MAX"], "run 1 - accuracy"),
        (["eval/score", "loss"], "eval/score"),
        (["mean_reward", "reward_std"], "mean_reward"),
    ],
)
def test_guessed_pass_rate_is_announced(file, columns, taken):
    rows = [["0", *["0.3"] * len(columns)], ["100", *["0.4"] * len(columns)]]
    path = file("\n".join(",".join(row) for row in [["compute", *columns], *rows]))
    trace = read_trace(path)
    assert trace.notes == (f"Took column {taken!r} as the pass rate; pass_rate_column= / --pass-rate-column chooses.",)
    assert set(trace.columns) == set(columns) - {taken}


def test_two_equally_plausible_columns_are_no_coin_toss(file):
    path = file("step,acc,accuracy,note\n1,0.3,0.5,x\n2,0.4,,x\n")
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert str(error.value) == (
        "run7.csv: the pass rate could be 'acc' or 'accuracy'; "
        "choose with pass_rate_column= / --pass-rate-column. "
        "The columns are: step (2 values, 1 to 2), acc (2 values, 0.3 to 0.4), accuracy (1 value, 0.5), "
        "note (2 values, text)."
    )
    assert read_trace(path, pass_rate_column="acc").columns["note"].tolist() == ["x", "x"]


def test_named_columns(file):
    path = file("h,y,step\n1,0.3,10\n2,0.4,20\n")
    trace = read_trace(path, compute_column="h", pass_rate_column="y")
    assert trace.notes == ("Took column 'h' to be in gpu-hours; compute_unit= / --compute-unit chooses.",)
    assert trace.columns["step"].tolist() == [10, 20]
    with pytest.raises(
        TraceError, match=r"no column 'stp' \(compute_column= .*did you mean 'step'\? The columns are: h"
    ):
        read_trace(path, compute_column="stp")
    with pytest.raises(TraceError, match="no column looks like the pass rate; name it with pass_rate_column="):
        read_trace(path)
    with pytest.raises(TraceError, match="column 'h' cannot be both compute and pass rate"):
        read_trace(path, compute_column="h", pass_rate_column="h")


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


def test_rows_are_counted_as_an_editor_shows_them(file):
    with pytest.raises(TraceError, match="row 5, column 'pass_rate': 'x'"):
        read_trace(file("compute,pass_rate\n\n1,0.3\n\n2,x\n"))


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


def test_paths_that_lead_nowhere(file, tmp_path):
    file(PLAIN, "scalerl.csv")
    with pytest.raises(TraceError, match=r"no such file: .*did you mean 'scalerl.csv'\?"):
        read_trace(tmp_path / "scalrl.csv")
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "nowhere" / "x.csv")
    with pytest.raises(TraceError, match=r"is a folder without trace.jsonl; it holds scalerl.csv; name a file"):
        read_trace(tmp_path)
    (tmp_path / "void").mkdir()
    with pytest.raises(TraceError, match="holds no CSV, JSON or Parquet file either"):
        read_trace(tmp_path / "void")
    with pytest.raises(TraceError, match="no file matches"):
        read_traces(str(tmp_path / "*.nope"))
    with pytest.raises(TraceError, match="no files were given"):
        read_traces([])


def test_options_are_checked_before_files(file):
    with pytest.raises(TraceError, match="scale='pct' is unknown; choose one of fraction, percent, pm1, reward, auto"):
        read_trace(file(PLAIN), scale="pct")
    with pytest.raises(TraceError, match="compute_unit='hours' is unknown; choose one of gpu-hours"):
        read_trace(file(PLAIN), compute_unit="hours")
    with pytest.raises(TypeError, match="colour"):
        read_traces(file(PLAIN), colour="red")


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
    assert note == ("Values reach 2.0: not a pass rate; read as an unbounded reward; give --scale to choose.",)
    for values in ((30, 40), (-0.5, 0.5), (-3, 7)):
        with pytest.raises(TraceError, match="outside"):
            read_trace(scores(file, *values), scale="auto")


SEVERAL = "run,compute,pass_rate\n" + "".join(f"{r},{c},0.{c + 1}\n" for r in ("a", "b", "c") for c in range(4))


def test_several_runs_in_one_file(file):
    path = file(SEVERAL)
    with pytest.raises(TraceError, match=r"run7.csv holds 3 runs or domains: a, b, c; choose with run= / --run"):
        read_trace(path)
    assert read_trace(path, run="b").metadata["run"] == "b"
    found = read_traces(path)
    assert list(found) == ["run7:a", "run7:b", "run7:c"]
    assert all(len(trace) == 4 and trace.name == name for name, trace in found.items())
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


def own(tmp_path, rows, **header):
    with TraceWriter(tmp_path / "trace.jsonl", header) as writer:
        for row in rows:
            writer.write(**row)
    return tmp_path / "trace.jsonl"


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
    with pytest.raises(TraceError, match="tells no domains apart"):
        read_trace(tmp_path / "code.jsonl", domain="math")


def test_own_trace_of_rewards(tmp_path):
    path = own(tmp_path, [{"kind": "eval", "compute_gpu_hours": 0, "pass_rate": -3.0}], scale="reward")
    assert read_trace(path).pass_rate.tolist() == [-3]
    assert read_trace(path, scale="auto").scale == "reward"


def test_errors_in_own_traces_name_the_line(tmp_path):
    rows = [{"kind": "eval", "compute_gpu_hours": c, "pass_rate": 0.5} for c in (0, 2, 1)]
    with pytest.raises(TraceError, match=r"trace.jsonl: compute falls from 2 to 1 at row 4; sort"):
        read_trace(own(tmp_path, rows))


LINES = '{"step": 1, "acc": 0.3}\n{"step": 2, "acc": 0.4, "x": 1}\n'
LIST = '[{"step": 1, "acc": 0.3}, {"step": 2, "acc": 0.4}]'
OBJECT = '{"step": [1, 2], "acc": [0.3, 0.4], "title": "t"}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("log.json", content) for content in (LINES, LIST, OBJECT)),
        *(("log.txt", content) for content in (LINES, LIST, OBJECT)),
        *(("log.jsonl", content) for content in (LINES, LIST)),
    ],
)
def test_foreign_json(file, name, content):
    trace = read_trace(file(content, name))
    assert trace.pass_rate.tolist() == [0.3, 0.4]
    assert trace.compute_unit == "steps"
    assert len(trace.notes) == 3


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

    monkeypatch.setattr("rlscaling.readers.own.parsed_lines", refused)
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


SHARED = Path(__file__).parents[2] / "shared" / "data" / "traces"


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
