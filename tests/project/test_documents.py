"""README, guides, interface and notebooks: their examples run, and what they name is there."""

from __future__ import annotations

import importlib.metadata
import json
import re
import textwrap
import tomllib
from pathlib import Path
from types import ModuleType

import jupytext
import pytest

import rlscaling
from helpers.project_files import PROJECT, run_python


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


def test_every_public_name_exists_and_is_documented() -> None:
    documented = (PROJECT / "docs" / "api.md").read_text(encoding="utf-8").split()
    for name in rlscaling.__all__:
        value = getattr(rlscaling, name)
        if name.startswith("__") or isinstance(value, ModuleType):
            continue
        assert value.__doc__, f"{name} has no docstring"
        assert name in documented, f"docs/api.md does not list {name}"


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
