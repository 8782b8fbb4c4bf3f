"""``rlscaling backtest``, ``plan`` and ``watch``: output, JSON, exit codes, a file that grows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlscaling import datasets, save_fit, write_trace
from rlscaling.cli import main
from rlscaling.cli import watch as command
from rlscaling.fit import fit_trace

RUN = datasets.load_demo()["scalerl"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    write_trace(RUN, path)
    return path


def test_backtest_prints_draws_and_writes_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = log.with_name("b.png")
    assert main(["backtest", str(log), "--cutoffs", "8000", "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("[run] on this run a forecast to 2x (auto) has been off by")
    assert picture.stat().st_size > 10_000
    assert main(["backtest", str(log), "--cutoffs", "8000", "--models", "sigmoid", "last_value", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 1
    assert {score["model"] for score in found["scores"]} == {"sigmoid", "last_value"}


def test_plan_of_a_batch_answers_the_others(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = log.with_name("short.jsonl")
    write_trace(RUN.up_to(2500.0), short)
    saved = save_fit(fit_trace(RUN, max_compute=5000), log.with_name("fit.json"))
    assert main(["plan", str(log), str(short), str(saved), "--json"]) == 3
    out = capsys.readouterr()
    first, second, third = json.loads(out.out)["runs"]
    assert first["reached"] is True
    assert "too few for a plan" in second["error"]
    assert third["ways"][0]["median"] > 5000
    assert "too few for a plan" in out.err


def test_plan_splits_a_budget_over_the_runs(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = log.with_name("other.jsonl")
    write_trace(datasets.load_demo()["batch-2048"].up_to(16_000), other)
    assert main(["plan", str(log), str(other), "--split", "10000", "--json"]) == 0
    split = json.loads(capsys.readouterr().out)["split"]
    assert split["at"] == 100_000
    assert sum(share["compute"] for share in split["shares"]) == pytest.approx(10_000)
    assert {share["recipe"] for share in split["shares"]} == {"run", "other"}
    assert main(["plan", str(log), str(other), "--split", "10000", "--at", "20000"]) == 0
    assert capsys.readouterr().out.startswith("extend ")
    assert main(["plan", str(log), "--split", "10000"]) == 3
    assert "1 of 1 runs could be planned" in capsys.readouterr().err


def test_backtest_refuses_a_saved_fit(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = save_fit(fit_trace(RUN), log.with_name("fit.json"))
    assert main(["backtest", str(saved)]) == 3
    assert "a saved fit holds no trace" in capsys.readouterr().err


def test_forecast_auto_on_the_command_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["extrapolate", str(log), "--to", "32000", "--resamples", "50", "--json"]
    assert main([*arguments, "--forecast", "auto"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert any(note.startswith("average over curves") for note in found["notes"])
    (low, high), (wide_low, wide_high) = found["extrapolation"][0]["ci"], found["extrapolation"][0]["prediction"]
    assert wide_low < low < high < wide_high


def test_watch_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(log), "--once", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "healthy"
    assert found["evaluations"] == len(RUN)
    short = log.with_name("short.jsonl")
    write_trace(RUN.up_to(2500.0), short)
    assert main(["watch", str(short), "--once"]) == 0
    assert capsys.readouterr().out.startswith("short: waiting:")
    assert main(["watch", str(log.with_name("none.jsonl")), "--once"]) == 3


def test_watch_reads_again_only_what_has_changed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, naps, look = [], [], command.look

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            with log.open("a") as file:
                file.write("\n")
        if len(naps) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", nap)
    monkeypatch.setattr(command, "look", lambda *given: looks.append(given) or look(*given))
    assert main(["watch", str(log), "--interval", "0.1"]) == 0
    assert len(looks) == 2


def test_watch_sees_files_of_a_glob_and_the_log_of_a_database(log: Path) -> None:
    assert list(command._state(str(log.parent / "*.jsonl"))) == [log]
    database, grown = log.with_name("run.db"), log.with_name("run.db-wal")
    database.write_bytes(b"x")
    before = command._state(str(database))
    grown.write_bytes(b"y")
    assert set(command._state(str(database))) - set(before) == {grown}


def test_watch_follows_a_growing_file_until_interrupted(log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    growing = log.with_name("growing.jsonl")
    growing.write_text("".join(lines[:40]))
    line = [sys.executable, "-m", "rlscaling", "watch", str(growing), "--json", "--interval", "0.1"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["evaluations"] == 39
        with growing.open("a") as file:
            file.write("".join(lines[40:60]))
        assert json.loads(process.stdout.readline())["evaluations"] == 59
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest, errors) == (0, "", "")
