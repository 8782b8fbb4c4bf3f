"""The folders of the project, its modules, and Python in a process of its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
PACKAGE = PROJECT / "src" / "rlscaling"


def relative(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def run_python(script: str, folder: Path = PROJECT) -> str:
    """What `script` prints in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
