"""The command in a folder of its own, with the bundled traces or one growing run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import ANSI, SCALERL_RUN, Said
from rlscaling import datasets, write_trace
from rlscaling.cli import main


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundled")
    for name, trace in datasets.load_demo().items():
        write_trace(trace, folder / f"{name}.jsonl")
    return folder


@pytest.fixture
def here(bundled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, which is the current one, with the bundled traces."""
    for file in bundled.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(here: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*argv: object) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in argv])
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        assert ANSI not in said.out + said.err, "no colours without a terminal"
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    write_trace(SCALERL_RUN, path)
    return path
