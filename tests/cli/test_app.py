"""The command itself: help, version, exit codes, pipes, interrupts."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rlscaling
from helpers.command_line import command, run_command
from rlscaling.cli.app import COMMANDS, CommandParser, build_parser


def test_version_and_help(run: Any) -> None:
    assert run("--version").out == f"rlscaling {rlscaling.__version__}\n"
    said = run("--help")
    assert said.code == 0
    for word in ("fit", "extrapolate", "demo", "exit codes"):
        assert word in said.out


@pytest.mark.parametrize("name", ["fit", "extrapolate", "demo"])
def test_every_option_has_help_with_its_default(name: str) -> None:
    sub = subparsers()[name]
    for action in sub._actions:
        if action.dest not in ("help", "paths") and action.help != argparse.SUPPRESS:
            assert action.help, action.option_strings
            assert "(default: " in action.help, action.option_strings


def subparsers() -> dict[str, CommandParser]:
    (group,) = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return {name: parser.complete() for name, parser in group.choices.items()}


@pytest.mark.parametrize("name", ["fit", "extrapolate", "demo"])
def test_examples_in_the_help_work(run: Any, name: str) -> None:
    epilog = subparsers()[name].epilog
    assert epilog is not None
    examples = re.findall(r"^  rlscaling (.+)$", epilog, flags=re.MULTILINE)
    assert len(examples) == 2
    Path("rlscaling-demo").mkdir()
    shutil.copy("scalerl.jsonl", "rlscaling-demo")
    for example in examples:
        assert run(*example.split()).code == 0, example


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from rlscaling.cli import main; main(['--help'])\n"
        "heavy = {'numpy', 'scipy', 'matplotlib', 'pandas', 'rich', 'joblib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"]])
def test_a_command_imports_its_own_module_alone(words: list[str]) -> None:
    script = (
        f"import sys; from rlscaling.cli import main; main({words!r})\n"
        "others = {'rlscaling.trainer', 'rlscaling.cli.train', 'rlscaling.cli.compare', 'matplotlib', 'torch'}\n"
        "assert not others & set(sys.modules), others & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_has_a_module_with_its_functions() -> None:
    for name, entry in COMMANDS.items():
        module = importlib.import_module(f"rlscaling.cli.{entry.module}")
        assert callable(getattr(module, entry.add_arguments)), name
        assert callable(getattr(module, entry.run)), name


def test_module_runs_as_a_command(here: Path) -> None:
    done = command("fit", "scalerl.jsonl", "--json", "--resamples", "50", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verdict"] == "approximate"


def test_closed_pipe_ends_in_silence(here: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = command("fit", "scalerl.jsonl", "--resamples", "50", stdout=writer, cwd=here)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_interrupt_is_one_line(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlscaling.cli.fit.find_runs", interrupt)
    said = run("fit", "scalerl.jsonl")
    assert (said.code, said.err) == (130, "rlscaling: error: interrupted\n")


def test_help_names_only_what_these_commands_do(working_folder, capsys):
    for name in ("ingest", "doctor"):
        code, out, _ = run_command(capsys, name, "--help")
        text = " ".join(out.split())
        assert code == 0
        assert "exit codes: 0 success 2 the command line is invalid" in text
        assert "doctor: something needs a decision" in text
        assert "--require-identified" not in text
        assert "(default: 3600, or 5 times the usual time if that is longer)" in text


@pytest.mark.parametrize("command", [["kernels"], ["train", "--out", "run"]])
def test_without_torch_the_command_says_how_to_get_it(command: list[str], tmp_path: Path) -> None:
    script = "import sys; sys.modules['torch'] = None; from rlscaling.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 3
    assert "the trainer needs torch, which is not installed: pip install 'rlscaling[trainer]'" in done.stderr
