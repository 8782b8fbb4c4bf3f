"""``rlscaling ingest``, ``rlscaling doctor`` and logs given to the other commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import logfiles
from rlscaling import Trace, read_traces, write_trace
from rlscaling.cli import main
from rlscaling.readers.checks import examine, mixed_sizes

SCORE, CUT = logfiles.SCORE, "response_length/clip_ratio"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *words):
    code = main([str(word) for word in words])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_ingest_prints_a_receipt_and_keeps_it(here, capsys):
    path = logfiles.verl_file(here, logfiles.verl_rows(40, 10))
    code, out, err = run(capsys, "ingest", path, "-o", "runs.parquet")
    assert code == 0
    assert out.startswith("exp: 5 evaluations, 0 to 851.299 GPU-hours, pass rate 0.25 to 0.29\n")
    for line in (
        "read as: verl file logger",
        f"pass rate: {logfiles.SCORE}",
        "rows: 41 read, 5 kept as evaluations",
        "left out: 36 rows: without this score",
        "GPUs: 256",
        "evaluation time: excluded; it stands outside the time of a step",
        "scale: fraction",
    ):
        assert f"  {line}\n" in out
    assert "rlscaling: wrote 1 run to runs.parquet" in err
    import hashlib

    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (trace,) = read_traces("runs.parquet").values()
    assert trace.metadata["receipt"]["files"] == [{"name": "exp.jsonl", "bytes": path.stat().st_size, "sha256": digest}]
    assert digest[:12] in out
    code, out, err = run(capsys, "ingest", path, "-o", "runs.parquet")
    assert code == 2
    assert "exists and is not written over" in err


def test_ingest_json_of_several_kinds_at_once_and_a_refused_one(here, capsys):
    rows = logfiles.verl_rows(40, 10)
    paths = [writer(here, rows) for writer in (logfiles.verl_file, logfiles.tensorboard, logfiles.trackio)]
    table = here / "plain.csv"
    table.write_text("gpu_hours,pass_rate\n0,0.3\n10,\n20,0.4\n")
    bad = here / "bad.csv"
    bad.write_text("x\n")
    code, out, _ = run(capsys, "ingest", *paths, table, bad, "--drop-missing", "--json", "-o", "all.parquet")
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
    code, out, _ = run(capsys, "ingest", *paths, "-o", "x.csv")
    assert code == 2


def test_every_command_takes_logs(here, capsys):
    rows = logfiles.verl_rows(200, 10)
    for i, row in enumerate(rows):
        if logfiles.SCORE in row:
            hours = i * 256 * 300 / 3600
            row[logfiles.SCORE] = 0.25 + (0.36 / (1 + (1500 / hours) ** 2) if hours else 0.0)
    one, two = logfiles.wandb_file(here, rows), logfiles.tensorboard(here, rows)
    for words in (("fit", one, "--min-compute", 0), ("extrapolate", one, two, "--min-compute", 0, "--to", 5000)):
        code, out, err = run(capsys, *words, "--resamples", 50, "--json")
        assert code == 0, err
        assert '"verdict"' in out
        assert "Read as verl" in err
    code, out, _ = run(capsys, "compare", one, two, "--at", 5000, "--min-compute", 0, "--resamples", 100, "--json")
    assert code == 0
    assert {recipe["recipe"] for recipe in json.loads(out)["recipes"]} == {"run-a", "tb"}


def test_a_choice_is_asked_for_with_exit_code_3(here, capsys):
    rows = logfiles.verl_rows(40, 10)
    rows[10]["val-core/aime/acc/mean@16"] = 0.1
    path = logfiles.verl_file(here, rows)
    code, _, err = run(capsys, "fit", path)
    assert code == 3
    assert "the pass rate could be any of 2 metrics; choose with metric= / --metric GLOB" in err
    code, out, _ = run(capsys, "ingest", path, "--metric", "*math*", "--json")
    assert (code, json.loads(out)["runs"][0]["n_evaluations"]) == (0, 5)


def test_stitch_joins_pieces_and_refuses_tables(here, capsys):
    rows = logfiles.verl_rows(40, 10)
    first, second = logfiles.verl_file(here, rows[:21], "a.jsonl"), logfiles.verl_file(here, rows[21:], "b.jsonl")
    code, out, _ = run(capsys, "ingest", second, first, "--stitch", "--json")
    (one,) = json.loads(out)["runs"]
    assert (code, one["n_evaluations"]) == (0, 5)
    (here / "t.csv").write_text("gpu_hours,pass_rate\n0,0.3\n")
    code, _, err = run(capsys, "ingest", first, here / "t.csv", "--stitch")
    assert code == 3
    assert "t.csv is a table or a trace (csv), not a trainer's log" in err


def test_device_factor_is_stated(here, capsys):
    path = logfiles.verl_file(here, logfiles.verl_rows(40, 10))
    _, out, _ = run(capsys, "ingest", path, "--device-factor", "A100:H100")
    assert "device factor: A100:H100 = 0.3153" in out
    code, _, err = run(capsys, "ingest", path, "--device-factor", "X:Y")
    assert code == 2
    assert "of known devices" in err


def test_help_names_only_what_these_commands_do(here, capsys):
    for command in ("ingest", "doctor"):
        code, out, _ = run(capsys, command, "--help")
        text = " ".join(out.split())
        assert code == 0
        assert "exit codes: 0 answered 2 the command line" in text
        assert "doctor: something must be decided" in text
        assert "--require-identified" not in text
        assert "(default: 3600, or 5 times the usual time if that is longer)" in text


def test_a_single_run_goes_into_any_format_and_several_into_parquet_only(here, capsys):
    path = logfiles.verl_file(here, logfiles.verl_rows(40, 10))
    for suffix, kept in ((".parquet", True), (".jsonl", True), (".csv", False)):
        assert run(capsys, "ingest", path, "-o", f"out{suffix}")[0] == 0
        (trace,) = read_traces(f"out{suffix}").values()
        assert len(trace) == 5
        assert ("receipt" in trace.metadata) == kept
    logfiles.verl_file(here, logfiles.verl_rows(20, 10), "two.jsonl")
    code, _, err = run(capsys, "ingest", path, "two.jsonl", "-o", "several.csv")
    assert code == 2
    assert "--out several.csv: 2 runs go into a Parquet file only; end the name in .parquet" in err
    assert not Path("several.csv").exists()


# --- doctor -----------------------------------------------------------------------------------------------------


def test_doctor_finds_nothing_in_a_sound_run(here, capsys):
    path = logfiles.verl_file(here, logfiles.verl_rows(40, 10))
    assert run(capsys, "doctor", path) == (0, "exp: nothing found\n", "")


def test_doctor_tells_of_lines_that_were_left_out(here, capsys):
    path = Path(logfiles.verl_file(here, logfiles.verl_rows(steps=40, every=10)))
    path.write_bytes(path.read_bytes() + b'{"step": 41, "da')
    code, out, _ = run(capsys, "doctor", path)
    assert code == 0
    assert "The last line of exp.jsonl was cut short (16 bytes) and was left out" in out
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:7], b"oops\n", *lines[7:-1]]))
    assert "1 of the lines of exp.jsonl are no objects of step and data" in run(capsys, "doctor", path)[1]


def test_doctor_tells_identical_files_apart_from_two_runs(here, capsys):
    path = logfiles.verl_file(here, logfiles.verl_rows(40, 10))
    shutil.copy(path, here / "copy.jsonl")
    code, out, _ = run(capsys, "doctor", path, "copy.jsonl", "--json")
    assert code == 3
    found = {one["run"]: one["findings"] for one in json.loads(out)["runs"]}
    assert found["exp"] == []
    (finding,) = found["copy"]
    assert finding["severity"] == "decide"
    assert finding["what"] == "its input is the same, byte for byte, as that of exp"
    assert "two seeds" in finding["remedy"]


@pytest.mark.parametrize(
    ("change", "what", "code"),
    [
        (lambda rows: rows[1:], "there is none before training", 0),
        (lambda rows: [*rows[:31], *rows[21:]], "steps go back or repeat: resumed 1; 10 training rows replayed", 0),
        (lambda rows: rows[21:], "begins at step 21", 3),
        (lambda rows: rows[:5] + rows[8:], "3 of 40 steps have no training row", 0),
        (lambda rows: [{**row, CUT: 0.3} for row in rows], "truncated completions: up to 30", 0),
        (lambda rows: [{**row, SCORE: 0} if SCORE in row else row for row in rows], "score is 0 in", 0),
        (lambda rows: [{k: v for k, v in row.items() if k != "perf/throughput"} for row in rows], "number of GPUs", 3),
        (lambda rows: [{k: v for k, v in row.items() if k in (SCORE, CUT)} for row in rows], "how long", 3),
    ],
)  # fmt: skip
def test_doctor_findings(here, capsys, change, what, code):
    path = logfiles.verl_file(here, change(logfiles.verl_rows(40, 10)))
    got, out, _ = run(capsys, "doctor", path)
    assert what in out
    assert "    -> " in out
    assert got == code


@pytest.mark.parametrize("n", [500, 1000, 10_000])
def test_doctor_suspects_sampled_histories(here, capsys, n):
    steps = np.sort(np.random.default_rng(0).choice(8 * n, n, replace=False))
    path = here / "history.csv"
    path.write_text("step,accuracy\n" + "".join(f"{step},{0.3 + i / 1e6}\n" for i, step in enumerate(steps)))
    code, out, _ = run(capsys, "doctor", path)
    assert code == 3
    assert f"decide: exactly {n:,} rows were read: a sampled history" in out


def test_doctor_takes_a_whole_log_of_500_rows_for_whole(here, capsys):
    """A logger's own file is read to its end, and rows at even distances have none between them."""
    rows = logfiles.verl_rows(499, 10)
    for row in rows:
        row |= {SCORE: 0.25 + (row[SCORE] - 0.25) / 2} if SCORE in row else {}
    even = here / "even.csv"
    even.write_text("step,accuracy\n" + "".join(f"{10 * i},{0.3 + i / 1e4}\n" for i in range(500)))
    hours = np.sort(np.random.default_rng(0).random(500))
    write_trace(Trace(hours, 0.3 + hours / 10), here / "own.jsonl")
    paths = [even, here / "own.jsonl"]
    for kind, write in logfiles.WRITERS.items():
        (here / kind).mkdir()
        paths.append(write(here / kind, rows))
    for path in paths:
        (record,) = json.loads(run(capsys, "ingest", path, "--json")[1])["runs"]
        assert record["receipt"]["rows_read"] == 500
        _, out, _ = run(capsys, "doctor", path)
        assert "sampled" not in out


def test_doctor_says_what_to_do_about_a_missing_beginning(here, capsys):
    path = logfiles.verl_file(here, logfiles.verl_rows(40, 10)[21:])
    _, out, _ = run(capsys, "doctor", path)
    assert "is unknown (a restart may have erased them)\n    -> give the earlier piece as well" in out


def test_doctor_on_smoothed_exports_and_the_training_reward(here, capsys):
    path = here / "chart.csv"
    path.write_text('"Step","a - eval/acc","a - eval/acc__MIN","a - eval/acc__MAX"\n0,0.3,0.2,0.4\n5,0.4,0.3,0.5\n')
    code, out, _ = run(capsys, "doctor", path)
    assert code == 3
    assert "In 2 rows __MIN and __MAX differ" in out
    path = logfiles.verl_file(here, logfiles.verl_rows(40, 10))
    code, out, _ = run(capsys, "doctor", path, "--metric", "critic/score/mean", "--scale", "pm1")
    assert code == 3
    assert "is the reward in training" in out


def test_doctor_on_a_wrong_gpu_count(here, capsys):
    path = logfiles.verl_file(here, logfiles.verl_rows(40, 10))
    code, out, _ = run(capsys, "doctor", path, "--n-gpus", 64)
    assert code == 3
    assert "64 GPUs were given, but the log's own rates give 256." in out


def test_mixed_evaluation_sizes():
    scores = np.array([301 / 1024, 331 / 1024, 361 / 1024, 67 / 200, 71 / 200, 399 / 1024])
    assert mixed_sizes(scores) == (1024, 200)
    assert mixed_sizes(np.array([0.31, 0.32, 0.345, 0.4])) is None
    assert mixed_sizes(np.random.default_rng(0).random(20)) is None
    (finding,) = examine(Trace(np.arange(6.0), scores))
    assert finding.what == "evaluations of different size: some scores are multiples of 1/1024, others of 1/200"


def test_readers_work_without_wandb_and_tensorboard(here):
    """The packages hidden: all kinds are still read, and nothing heavy is imported for them."""
    for kind, writer in logfiles.WRITERS.items():
        (here / kind.replace(" ", "-")).mkdir()
        writer(here / kind.replace(" ", "-"), logfiles.verl_rows(20, 10))
    script = (
        "import sys\n"
        "for name in ('wandb', 'tensorboard', 'mlflow', 'trackio', 'pandas', 'torch', 'google.protobuf'):\n"
        "    sys.modules[name] = None\n"
        "from rlscaling import read_traces\n"
        "assert 'pyarrow' not in sys.modules\n"
        "from pathlib import Path\n"
        "for folder in sorted(Path('.').iterdir()):\n"
        "    path = folder if folder.name.startswith(('Tensor', 'MLflow-f')) else next(folder.iterdir())\n"
        "    (trace,) = read_traces(path).values()\n"
        "    assert len(trace) == 3, path\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ingest_of_own_trace_round_trips(here, capsys):
    write_trace(Trace([0, 1], [0.3, 0.4], name="mine"), here / "mine.jsonl")
    assert run(capsys, "ingest", "mine.jsonl", "-o", "again.jsonl")[0] == 0
    (again,) = read_traces("again.jsonl").values()
    assert again.pass_rate.tolist() == [0.3, 0.4]
    assert again.metadata["receipt"]["files"][0]["name"] == "mine.jsonl"
    assert Path("again.jsonl").is_file()
