"""The cost of imports: the core needs NumPy and SciPy, the rest only what is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import log_files
from helpers.project_files import PACKAGE, parse, relative, run_python


def test_importing_the_trace_loads_no_heavy_library():
    heavy = {"pandas", "pyarrow", "polars", "torch", "matplotlib", "lmfit"}
    found = f"{{m.split('.')[0] for m in sys.modules}} & {heavy}"
    code = f"import sys, rlscaling.readers.read; print(sorted({found}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_readers_work_without_wandb_and_tensorboard(working_folder):
    """The packages hidden: all kinds are still read, and nothing heavy is imported for them."""
    for kind, writer in log_files.WRITERS.items():
        (working_folder / kind.replace(" ", "-")).mkdir()
        writer(working_folder / kind.replace(" ", "-"), log_files.verl_rows(20, 10))
    script = (
        "import sys\n"
        "for name in ('wandb', 'tensorboard', 'mlflow', 'trackio', 'pandas', 'torch', 'google.protobuf'):\n"
        "    sys.modules[name] = None\n"
        "from rlscaling import read_traces\n"
        "assert 'pyarrow' not in sys.modules\n"
        "from pathlib import Path\n"
        "for folder in sorted(Path('.').iterdir()):\n"
        "    path = folder if folder.name.startswith(('Tensor', 'MLflow-f')) else next(folder.iterdir())\n"
        "    (trace,) = read_traces(path).values()\n"
        "    assert len(trace) == 3, path\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=working_folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


NOT_CORE = {"cli", "plotting", "readers", "report", "trainer"}  # what these import besides is their own affair
CORE_FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.stem not in {"__init__", "__main__", "lmfit_model"} and path.relative_to(PACKAGE).parts[0] not in NOT_CORE
]
LIGHT = {*sys.stdlib_module_names, "numpy", "scipy", "rlscaling"}
HEAVY = ["jinja2", "joblib", "lmfit", "matplotlib", "pandas", "pyarrow", "rich", "scipy.stats", "torch"]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


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
        *[f"import {module_name(path)}" for path in CORE_FILES],
    ],
)
def test_import_is_cheap(statement: str) -> None:
    check = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    assert run_python(check).split() == []


def test_public_names_survive_the_import_of_every_module() -> None:
    """No package or module at the root may take the place of a public function; `datasets` is meant to be a module."""
    check = (
        "import importlib, types, rlscaling\n"
        f"for name in {[module_name(path) for path in CORE_FILES]!r}:\n"
        "    importlib.import_module(name)\n"
        "print(*[n for n in rlscaling.__all__ if isinstance(getattr(rlscaling, n), types.ModuleType)])"
    )
    assert run_python(check).split() == ["datasets"]


def test_importing_the_trainer_imports_no_torch() -> None:
    script = "import sys, rlscaling.trainer as t; t.make_config('dapo'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
