"""The shape of the house: rooms, floors, circles, the size of the pieces; and no path of one machine."""

from __future__ import annotations

import ast
import graphlib
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


ROOMS = sorted(path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")
PUBLIC_DOORS = {"cli", "datasets", "trainer"}  # packages from which people import


def test_the_root_holds_fifteen_packages_and_eight_modules() -> None:
    modules = [path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")]
    assert len(ROOMS) <= 15, [path.name for path in ROOMS]
    assert len(modules) <= 8, modules


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*/__init__.py")), ids=relative)
def test_a_subpackage_says_what_it_is(path: Path) -> None:
    """One to four sentences and no other statement, so that imports name the file that they mean."""
    tree = parse(path)
    text = ast.get_docstring(tree)
    assert text, f"{relative(path)} has no docstring"
    assert len(re.findall(r"[.!?](?=\s|$)", text)) <= 4, text
    if path.parent.name not in PUBLIC_DOORS:
        statements = [node for node in tree.body[1:] if not ast.unparse(node).startswith("from __future__")]
        assert not statements, ast.unparse(statements[0])


@pytest.mark.parametrize("folder", [PACKAGE, *(path.parent for path in PACKAGE.rglob("*/__init__.py"))], ids=relative)
def test_no_class_name_twice_beside_each_other(folder: Path) -> None:
    homes: dict[str, str] = {}
    for path in sorted(folder.glob("*.py")):
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                assert node.name not in homes, f"{node.name} is in {homes[node.name]} and in {path.name}"
                homes[node.name] = path.name


TESTS = sorted((PROJECT / "tests").rglob("test_*.py"))
OF_THE_WHOLE = ("project", "browser")


@pytest.mark.parametrize("path", TESTS, ids=relative)
def test_tests_mirror_the_source(path: Path) -> None:
    if any(name in path.parts for name in OF_THE_WHOLE):
        return
    source = PACKAGE / path.relative_to(PROJECT / "tests").with_name(path.name.removeprefix("test_"))
    assert source.is_file(), f"{relative(path)} tests no module: {relative(source)} is not there"


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Modules of the package that a file imports, at module level, in functions and for its types alike."""
    names = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)} line {node.lineno}: imports name the whole path"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return {name for name in names if name in modules}


def test_no_circles_at_any_depth() -> None:
    """Beside each other, no two modules or packages need one another: in every folder, type imports counted."""
    files = {module_of(path): path for path in MODULES}
    edges = {module: imports_of(path, set(files)) - {module} for module, path in files.items()}
    for folder in {module.rpartition(".")[0] for module in files} - {""}:
        graph: dict[str, set[str]] = {}
        inside = folder + "."
        for module, imported in edges.items():
            if module.startswith(inside):
                child = module[len(inside) :].split(".")[0]
                children = {name[len(inside) :].split(".")[0] for name in imported if name.startswith(inside)}
                graph.setdefault(child, set()).update(children - {child})
        try:
            tuple(graphlib.TopologicalSorter(graph).static_order())
        except graphlib.CycleError as error:
            pytest.fail(f"a circle in {folder}: {' -> '.join(error.args[1])}")


MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|farm|root|tmp|home|Users)/")
OUR_FOLDERS = (".ci", "benchmarks", "docs", "examples", "notebooks", "src", "tests", "tools")
BUILT = {"__pycache__", "_build", "generated", ".ipynb_checkpoints"}


def our_files() -> list[Path]:
    inside = [path for folder in OUR_FOLDERS for path in (PROJECT / folder).rglob("*")]
    files = [path for path in [*PROJECT.iterdir(), *inside] if path.is_file() and path.name != ".git"]
    return [path for path in files if not BUILT & set(path.parts)]


def test_no_file_holds_a_path_of_one_machine() -> None:
    found = []
    for path in our_files():
        for line in path.read_text(encoding="utf-8", errors="ignore").splitlines():
            if MACHINE_PATH.search(line):
                found.append(f"{relative(path)}: {line.strip()[:120]}")
    assert not found, "\n".join(found)
