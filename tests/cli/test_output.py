"""Text, colours, the progress bar, and what goes to stderr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import ANSI, command
from rlscaling.cli import main


def test_stream_that_cannot_write_plus_minus(here: Path) -> None:
    done = command("fit", "scalerl.jsonl", "--resamples", "50", cwd=here, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "A is known to within ?0.05 (95 %)" in done.stdout


def test_what_a_reader_guessed_goes_to_stderr(run: Any) -> None:
    lines = Path("scalerl.jsonl").read_text().splitlines()[1:]
    rows = [json.loads(line) for line in lines]
    table = "\n".join(f"{row['compute_gpu_hours']},{row['pass_rate']}" for row in rows)
    Path("log.csv").write_text("H100 hours,accuracy\n" + table + "\n")
    said = run("fit", "log.csv", "--json")
    assert said.code == 0
    assert "rlscaling: log: Took column 'accuracy' as the pass rate" in said.err
    assert any("Took column 'accuracy'" in note for note in said.json["notes"])
    assert "Took column" not in run("fit", "log.csv").out


def test_batch_ends_with_an_overview(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "nope.jsonl", "batch-512.jsonl")
    assert said.code == 3
    overview = said.out.partition("\nOverview\n")[2].splitlines()
    assert overview[0].split() == ["run", "verdict", "A", "95", "%", "this", "run", "points"]
    assert overview[1].split()[:2] == ["scalerl", "approximate"]
    assert overview[2].split() == ["nope.jsonl", "refused"]
    assert overview[3].split()[:2] == ["batch-512", "approximate"]
    assert "rlscaling: error: no such file: nope.jsonl" in said.err


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def test_terminal_has_colours_and_a_progress_bar(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), Terminal()
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    argv = ["fit", "scalerl.jsonl", "scalerl-8k.jsonl", "--cutoffs", "--compute", "1e5", "--resamples", "100"]
    assert main(argv) == 0
    assert "\x1b[1;36mapproximate" in out.text
    assert "[0.6" in out.text, "intervals are not taken for markup"
    assert "runs" in err.text
    assert ANSI in err.text
