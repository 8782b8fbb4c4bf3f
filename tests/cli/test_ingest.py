"""``rlscaling ingest``: receipts, several kinds of logs at once, files written."""

from __future__ import annotations

import json
from pathlib import Path

from helpers import log_files
from helpers.command_line import run_command
from rlscaling import Trace, read_traces, write_trace


def test_ingest_prints_a_receipt_and_keeps_it(working_folder, capsys):
    path = log_files.verl_file(working_folder, log_files.verl_rows(40, 10))
    code, out, err = run_command(capsys, "ingest", path, "-o", "runs.parquet")
    assert code == 0
    assert out.startswith("exp: 5 evaluations, 0 to 851.299 GPU-hours, pass rate 0.25 to 0.29\n")
    for line in (
        "read as: verl file logger",
        f"pass rate: {log_files.SCORE}",
        "rows: 41 read, 5 kept as evaluations",
        "left out: 36 rows: without this score",
        "GPUs: 256",
        "evaluation time: excluded; it is not part of the time of a step",
        "scale: fraction",
    ):
        assert f"  {line}\n" in out
    assert "rlscaling: wrote 1 run to runs.parquet" in err
    import hashlib

    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (trace,) = read_traces("runs.parquet").values()
    assert trace.metadata["receipt"]["files"] == [{"name": "exp.jsonl", "bytes": path.stat().st_size, "sha256": digest}]
    assert digest[:12] in out
    code, out, err = run_command(capsys, "ingest", path, "-o", "runs.parquet")
    assert code == 2
    assert "exists and is not written over" in err


def test_ingest_json_of_several_kinds_at_once_and_a_refused_one(working_folder, capsys):
    rows = log_files.verl_rows(40, 10)
    paths = [writer(working_folder, rows) for writer in (log_files.verl_file, log_files.tensorboard, log_files.trackio)]
    table = working_folder / "plain.csv"
    table.write_text("gpu_hours,pass_rate\n0,0.3\n10,\n20,0.4\n")
    bad = working_folder / "bad.csv"
    bad.write_text("x\n")
    code, out, _ = run_command(capsys, "ingest", *paths, table, bad, "--drop-missing", "--json", "-o", "all.parquet")
    assert code == 3
    document = json.loads(out)
    runs = {one["run"]: one for one in document["runs"]}
    assert set(runs) == {"exp", "tb", "project", "plain", "bad"}
    assert "one column only" in runs["bad"]["error"]
    assert runs["plain"]["receipt"]["dropped"] == {"without compute or pass rate": 1}
    assert runs["plain"]["receipt"]["rows_read"] == 3
    assert all(len(runs[name]["receipt"]["files"][0]["sha256"]) == 64 for name in ("exp", "tb", "project", "plain"))
    assert document["out"] == "all.parquet"
    assert list(read_traces("all.parquet")) == ["all:exp", "all:tb", "all:project", "all:plain"]
    code, out, _ = run_command(capsys, "ingest", *paths, "-o", "x.csv")
    assert code == 2


def test_a_choice_is_asked_for_with_exit_code_3(working_folder, capsys):
    rows = log_files.verl_rows(40, 10)
    rows[10]["val-core/aime/acc/mean@16"] = 0.1
    path = log_files.verl_file(working_folder, rows)
    code, _, err = run_command(capsys, "fit", path)
    assert code == 3
    assert "the pass rate could be any of 2 metrics; choose with metric= / --metric GLOB" in err
    code, out, _ = run_command(capsys, "ingest", path, "--metric", "*math*", "--json")
    assert (code, json.loads(out)["runs"][0]["n_evaluations"]) == (0, 5)


def test_stitch_joins_pieces_and_refuses_tables(working_folder, capsys):
    rows = log_files.verl_rows(40, 10)
    first, second = (
        log_files.verl_file(working_folder, rows[:21], "a.jsonl"),
        log_files.verl_file(working_folder, rows[21:], "b.jsonl"),
    )
    code, out, _ = run_command(capsys, "ingest", second, first, "--stitch", "--json")
    (one,) = json.loads(out)["runs"]
    assert (code, one["n_evaluations"]) == (0, 5)
    (working_folder / "t.csv").write_text("gpu_hours,pass_rate\n0,0.3\n")
    code, _, err = run_command(capsys, "ingest", first, working_folder / "t.csv", "--stitch")
    assert code == 3
    assert "t.csv is a table or a trace (csv), not a trainer's log" in err


def test_device_factor_is_stated(working_folder, capsys):
    path = log_files.verl_file(working_folder, log_files.verl_rows(40, 10))
    _, out, _ = run_command(capsys, "ingest", path, "--device-factor", "A100:H100")
    assert "device factor: A100:H100 = 0.3153" in out
    code, _, err = run_command(capsys, "ingest", path, "--device-factor", "X:Y")
    assert code == 2
    assert "of known devices" in err


def test_a_single_run_goes_into_any_format_and_several_into_parquet_only(working_folder, capsys):
    path = log_files.verl_file(working_folder, log_files.verl_rows(40, 10))
    for suffix, kept in ((".parquet", True), (".jsonl", True), (".csv", False)):
        assert run_command(capsys, "ingest", path, "-o", f"out{suffix}")[0] == 0
        (trace,) = read_traces(f"out{suffix}").values()
        assert len(trace) == 5
        assert ("receipt" in trace.metadata) == kept
    log_files.verl_file(working_folder, log_files.verl_rows(20, 10), "two.jsonl")
    code, _, err = run_command(capsys, "ingest", path, "two.jsonl", "-o", "several.csv")
    assert code == 2
    assert "--out several.csv: 2 runs go into a Parquet file only; end the name in .parquet" in err
    assert not Path("several.csv").exists()


def test_ingest_of_own_trace_round_trips(working_folder, capsys):
    write_trace(Trace([0, 1], [0.3, 0.4], name="mine"), working_folder / "mine.jsonl")
    assert run_command(capsys, "ingest", "mine.jsonl", "-o", "again.jsonl")[0] == 0
    (again,) = read_traces("again.jsonl").values()
    assert again.pass_rate.tolist() == [0.3, 0.4]
    assert again.metadata["receipt"]["files"][0]["name"] == "mine.jsonl"
    assert Path("again.jsonl").is_file()
