"""The house itself: what the README promises, the size of the pieces, the cost of imports, no stray paths."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from types import ModuleType

import jupytext
import pytest

import rlscaling

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = PROJECT / "src" / "rlscaling"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50

# Everything but the command line, the readers, the trainer and the report: cheap to import.
CORE_FILES = [path for path in sorted(PACKAGE.glob("*.py")) if path.stem not in {"__init__", "__main__", "report"}]
LIGHT = {*sys.stdlib_module_names, "numpy", "scipy", "rlscaling"}
HEAVY = ["jinja2", "joblib", "lmfit", "matplotlib", "pandas", "pyarrow", "rich", "scipy.stats", "torch"]


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


# --- README ---------------------------------------------------------------------------------------------


def readme_sections() -> dict[str, str]:
    """The README's level-two sections in order: heading to text."""
    parts = re.split(r"^## (.+)$", (PROJECT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_readme_starts_with_the_two_commands() -> None:
    sections = readme_sections()
    assert list(sections)[:2] == ["Quick start", "Run the tests"]
    for heading in ("Quick start", "Run the tests"):
        assert len(blocks(sections[heading], "bash")) == 1, heading


def test_readme_quick_start_needs_no_test_tools() -> None:
    (commands,) = blocks(readme_sections()["Quick start"], "bash")
    assert "rlscaling demo" in commands
    assert "[" not in commands, "the quick start installs no extras"


def test_readme_python_examples_run(tmp_path: Path) -> None:
    examples = blocks((PROJECT / "README.md").read_text(encoding="utf-8"), "python")
    assert examples, "the README shows no Python example"
    run_python("\n".join(["import matplotlib", "matplotlib.use('Agg')", *examples]), tmp_path)


@pytest.mark.parametrize("page", ["comparing", "logs", "planning", "real-models", "scale"])
def test_python_examples_of_a_guide_run(page: str, tmp_path: Path) -> None:
    text = (PROJECT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    examples = blocks(re.sub(r"^ +(?=```)", "", text, flags=re.MULTILINE), "python")  # those in lists too
    assert examples
    run_python("\n".join(["import matplotlib", "matplotlib.use('Agg')", *map(textwrap.dedent, examples)]), tmp_path)


# --- size -----------------------------------------------------------------------------------------------


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


# --- imports --------------------------------------------------------------------------------------------


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports_at_module_level(body: list[ast.stmt]) -> list[str]:
    """Names of the modules imported when the file is: not those inside functions or `if TYPE_CHECKING`."""
    names: list[str] = []
    for node in body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif is_type_checking(node):
            assert isinstance(node, ast.If)
            names += imports_at_module_level(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ("body", "orelse", "finalbody"):
                names += imports_at_module_level(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                names += imports_at_module_level(handler.body)
    return names


@pytest.mark.parametrize("path", CORE_FILES, ids=relative)
def test_core_module_imports_only_numpy_and_scipy(path: Path) -> None:
    names = imports_at_module_level(parse(path).body)
    heavy = [name for name in names if name.split(".")[0] not in LIGHT or name.startswith("scipy.stats")]
    assert not heavy, f"{relative(path)} imports {heavy} at module level; import them where they are used"


def test_package_itself_imports_nothing_third_party() -> None:
    names = imports_at_module_level(parse(PACKAGE / "__init__.py").body)
    assert [name for name in names if name.split(".")[0] not in {*sys.stdlib_module_names, "rlscaling"}] == []


@pytest.mark.parametrize(
    "statement",
    [
        "from rlscaling import fit_sigmoid",
        *[f"import rlscaling.{path.stem}" for path in CORE_FILES],
    ],
)
def test_import_is_cheap(statement: str) -> None:
    check = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    assert run_python(check).split() == []


def test_public_names_survive_the_import_of_every_module() -> None:
    """`bootstrap`, `compare` and `plan` are functions and files: the function must win, in every order.

    `datasets` is a module and meant to be one.
    """
    check = (
        "import importlib, types, rlscaling\n"
        f"for name in {[path.stem for path in CORE_FILES]!r}:\n"
        "    importlib.import_module('rlscaling.' + name)\n"
        "print(*[n for n in rlscaling.__all__ if isinstance(getattr(rlscaling, n), types.ModuleType)])"
    )
    assert run_python(check).split() == ["datasets"]


def test_every_public_name_exists_and_is_documented() -> None:
    documented = (PROJECT / "docs" / "api.md").read_text(encoding="utf-8").split()
    for name in rlscaling.__all__:
        value = getattr(rlscaling, name)
        if name.startswith("__") or isinstance(value, ModuleType):
            continue
        assert value.__doc__, f"{name} has no docstring"
        assert name in documented, f"docs/api.md does not list {name}"


# --- documents and version ------------------------------------------------------------------------------


def toctree_pages() -> list[str]:
    index = (PROJECT / "docs" / "index.md").read_text(encoding="utf-8")
    lines = [line for block in blocks(index, r"\{toctree\}") for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(":") and "*" not in line]


@pytest.mark.parametrize("page", toctree_pages())
def test_docs_page_exists(page: str) -> None:
    assert (PROJECT / "docs" / f"{page}.md").is_file()


def test_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert rlscaling.__version__ == version
    assert importlib.metadata.version("rlscaling") == version
    assert f"## [{version}]" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")


# --- nothing of one machine -----------------------------------------------------------------------------

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


# --- notebooks: each is a pair, the one to read and run, the other to edit and compare --------------------------

NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.py"))


def test_every_notebook_is_a_pair():
    assert [path.stem for path in NOTEBOOKS] == sorted(path.stem for path in (PROJECT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_two_files_of_a_notebook_say_the_same(path):
    text, notebook = jupytext.read(path), json.loads(path.with_suffix(".ipynb").read_text())
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert cells == [(cell["cell_type"], cell["source"]) for cell in text.cells]
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    assert any("assert " in source for kind, source in cells[-1:] if kind == "code")
