"""The size of the pieces, and no path of one machine."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from helpers.project_files import PACKAGE, PROJECT, parse, relative

MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50


def docstring_lines(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """How many lines of `node` are docstrings, its own and those of what it defines."""
    total = 0
    for inner in ast.walk(node):
        if isinstance(inner, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (
            ast.get_docstring(inner, clean=False) is not None
        ):
            text = inner.body[0]
            total += (text.end_lineno or text.lineno) - text.lineno + 1
    return total


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_module_is_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines < MAX_MODULE_LINES, f"{relative(path)} has {lines} lines"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_functions_are_short(path: Path) -> None:
    long = []
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
            if lines >= MAX_FUNCTION_LINES:
                long.append(f"{node.name} ({lines} lines without docstrings)")
    assert not long, f"{relative(path)}: {', '.join(long)}"


MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|farm|root|tmp|home|Users)/")
OUR_FOLDERS = (".ci", "benchmarks", "docs", "examples", "notebooks", "src", "tests", "tools")
BUILT = {"__pycache__", "_build", "generated", ".ipynb_checkpoints"}


def our_files() -> list[Path]:
    inside = [path for folder in OUR_FOLDERS for path in (PROJECT / folder).rglob("*")]
    files = [path for path in [*PROJECT.iterdir(), *inside] if path.is_file()]
    return [path for path in files if not BUILT & set(path.parts)]


def test_no_file_holds_a_path_of_one_machine() -> None:
    found = []
    for path in our_files():
        for line in path.read_text(encoding="utf-8", errors="ignore").splitlines():
            if MACHINE_PATH.search(line):
                found.append(f"{relative(path)}: {line.strip()[:120]}")
    assert not found, "\n".join(found)
