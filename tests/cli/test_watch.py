"""``rlscaling watch``: one look, a file that grows, a database and its log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.command_line import SCALERL_RUN
from rlscaling import write_trace
from rlscaling.cli import main
from rlscaling.cli import watch as command


def test_watch_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(log), "--once", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "healthy"
    assert found["evaluations"] == len(SCALERL_RUN)
    short = log.with_name("short.jsonl")
    write_trace(SCALERL_RUN.up_to(2500.0), short)
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
