"""From paths and options to runs: what is read, what is refused, what is not written over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers import log_files
from helpers.command_line import run_command
from rlscaling import datasets


def test_every_run_of_a_file_is_answered_on_its_own(run: Any) -> None:
    rows = ["run,compute,pass_rate"]
    trace = datasets.load_demo()["scalerl"]
    for name in ("good", "bad", "fine"):
        rows += [f"{name},{c},{y}" for c, y in zip(trace.compute, trace.pass_rate, strict=True)]
    rows.append("bad,17000,7.5")
    Path("runs.csv").write_text("\n".join(rows))
    said = run("fit", "runs.csv", "--json", "--resamples", 50)
    assert said.code == 3
    assert [record["run"] for record in said.json["runs"]] == ["runs:good", "runs:bad", "runs:fine"]
    assert ["error" in record for record in said.json["runs"]] == [False, True, False]
    assert run("fit", "runs.csv", "--run", "fine", "--json", "--resamples", 50).json["verdict"] == "approximate"


@pytest.mark.parametrize("kind", ["glob", "folder", "twice"])
def test_what_a_path_may_be(run: Any, kind: str) -> None:
    Path("a").mkdir()
    shutil.copy("scalerl.jsonl", "a/trace.jsonl")
    Path("a/trace.discarded.jsonl").write_text("thrown away\n")
    paths = {"glob": ["a/*.jsonl"], "folder": ["a"], "twice": ["a", "a/trace.jsonl"]}[kind]
    assert run("fit", *paths, "--json", "--resamples", 50).json["verdict"] == "approximate"


def test_reader_and_fit_options_arrive(run: Any) -> None:
    trace = datasets.load_demo()["scalerl"]
    rows = [f"{c * 1e6},{100 * y}" for c, y in zip(trace.compute, trace.pass_rate, strict=True)]
    Path("log.csv").write_text("\n".join(["x,y", *rows, "2e10,"]))
    record = run(
        "fit", "log.csv", "--compute-column", "x", "--pass-rate-column", "y", "--compute-unit", "tokens", "--scale",
        "percent", "--drop-missing", "--min-compute", 2e9, "--max-compute", 1.2e10, "--exclude", "3e9:4e9", "--exclude",
        "5e9:5.5e9", "--R0", 0.35, "--R0-se", 0.01, "--B-bounds", 1, 3, "--A-max", 0.9, "--json", "--confidence-level",
        0.9, "--scheme", "residual", "--resamples", 60, "--seed-sd", 0,
    ).json  # fmt: skip
    assert (record["compute_unit"], record["min_compute"], record["max_compute"]) == ("tokens", 2e9, 1.2e10)
    assert (record["R0_source"], record["confidence_level"], record["scheme"]) == ("anchored", 0.9, "residual")
    assert (record["n_resamples"], record["seed_sd"]) == (60, 0.0)
    assert record["ci_new_run"]["A"] == record["ci"]["A"]
    assert 0.55 < record["A"] < 0.65
    given = run("fit", "scalerl.jsonl", "--A", 0.61, "--B", 1.9, "--R0", 0.35, "--json").json
    assert (given["verdict"], given["A"], given["B"], given["R0"]) == ("ceiling-given", 0.61, 1.9, 0.35)
    paper = run("fit", "scalerl.jsonl", "--method", "paper-grid", "--json").json
    assert paper["R0_source"] == "fixed"
    assert round(paper["A"] / 0.005, 6) == round(paper["A"] / 0.005)
    assert run("fit", "scalerl.jsonl", "--R0", "free", "--json").json["R0_source"] == "free"


@pytest.mark.parametrize("option", ["--plot", "--save"])
def test_files_are_not_written_over(run: Any, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = {"--plot": "fit.png", "--save": "fit.json"}[option]
    Path(name).write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("rlscaling.cli.fit.analyse", lambda *args, **options: pytest.fail("it worked before it checked"))
        said = run("fit", "scalerl.jsonl", option, name, "--json")
    assert (said.code, said.out) == (2, "")
    assert f"{option} {name} exists and is not written over; choose another name, or add --overwrite" in said.err
    assert Path(name).read_text() == "mine"
    assert run("fit", "scalerl.jsonl", option, name, "--overwrite", "--resamples", 50).code == 0
    assert Path(name).read_bytes() != b"mine"


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["scaler.jsonl"], "did you mean 'scalerl.jsonl'?"),
        (["none/*.csv"], "no file matches 'none/*.csv'; check the pattern"),
        (["folder"], "is a folder without a trace or a log"),
        (["empty.csv"], "empty.csv is empty"),
        (["text.csv"], "row 2, column 'pass_rate': 'high' is not a number"),
        (["percent.csv"], "--scale percent"),
        (["short.csv"], "2 evaluations besides the one at compute 0"),
        (["small.csv"], "add min_compute=0 (--min-compute 0) to use them all"),
        (["tokens.csv"], "give min_compute= (--min-compute)"),
        (["x" * 300], "File name too long"),
    ],
)
def test_refused_data(run: Any, paths: list[str], message: str) -> None:
    Path("folder").mkdir()
    Path("empty.csv").write_text("")
    Path("text.csv").write_text("compute,pass_rate\n1,high\n")
    Path("percent.csv").write_text("compute,pass_rate\n" + "\n".join(f"{1000 * i},{30 + i}" for i in range(20)))
    Path("short.csv").write_text("compute,pass_rate\n0,0.1\n2000,0.2\n3000,0.3\n")
    Path("small.csv").write_text("compute,pass_rate\n" + "\n".join(f"{i},{0.3 + i / 100}" for i in range(20)))
    Path("tokens.csv").write_text("tokens,pass_rate\n" + "\n".join(f"{i}e6,{0.3 + i / 100}" for i in range(20)))
    said = run("fit", *paths)
    assert said.code == 3
    assert said.err.startswith(("rlscaling: error: ", "rlscaling: tokens: "))
    assert message in said.err
    assert message in run("fit", *paths, "--json").json["error"]


def test_unreadable_file_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    said = run("fit", "scalerl.jsonl")
    assert said.code == 3
    assert "cannot read scalerl.jsonl: Permission denied; check its permissions" in said.err


def test_every_command_takes_logs(working_folder, capsys):
    rows = log_files.verl_rows(200, 10)
    for i, row in enumerate(rows):
        if log_files.SCORE in row:
            hours = i * 256 * 300 / 3600
            row[log_files.SCORE] = 0.25 + (0.36 / (1 + (1500 / hours) ** 2) if hours else 0.0)
    one, two = log_files.wandb_file(working_folder, rows), log_files.tensorboard(working_folder, rows)
    for words in (("fit", one, "--min-compute", 0), ("extrapolate", one, two, "--min-compute", 0, "--compute", 5000)):
        code, out, err = run_command(capsys, *words, "--resamples", 50, "--json")
        assert code == 0, err
        assert '"verdict"' in out
        assert "Read as verl" in err
    code, out, _ = run_command(
        capsys, "compare", one, two, "--compute", 5000, "--min-compute", 0, "--resamples", 100, "--json"
    )
    assert code == 0
    assert {recipe["recipe"] for recipe in json.loads(out)["recipes"]} == {"run-a", "tb"}
