"""README, guides, interface and notebooks: their examples run, and what they name is there."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shlex
import textwrap
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
import pytest

import rlscaling
from helpers.command_line import run_command
from helpers.project_files import PROJECT, relative, run_python
from rlscaling.fitting.verdict import THRESHOLDS


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


@pytest.fixture
def demo_folder(tmp_path, monkeypatch):
    """A working directory with the traces that `rlscaling demo` leaves in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rlscaling-demo").mkdir()
    for trace in (rlscaling.datasets.load_demo()["scalerl"], *rlscaling.datasets.figure1().values()):
        rlscaling.write_trace(trace, tmp_path / "rlscaling-demo" / f"{trace.name}.jsonl")


PAGES = ["README.md", *(path.relative_to(PROJECT).as_posix() for path in sorted((PROJECT / "docs").glob("*.md")))]
SHOWN = [
    pytest.param(block, id=page)
    for page in PAGES
    for block in blocks((PROJECT / page).read_text(encoding="utf-8"), "text")
    if block.startswith("$ ")
]


def test_the_readme_shows_two_commands_with_their_output() -> None:
    assert [shown.id for shown in SHOWN].count("README.md") == 2


@pytest.mark.usefixtures("demo_folder")
@pytest.mark.parametrize("block", SHOWN)
def test_a_page_shows_what_the_command_prints(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    call, printed = block.split("\n", maxsplit=1)
    command, _, head = call.removeprefix("$ rlscaling ").partition(" | head -")
    code, out, err = run_command(capsys, *shlex.split(command))
    assert (code, err) == (0, "")
    assert printed == "".join(out.splitlines(keepends=True)[: int(head) if head else None])


GUIDES = ["batch", "comparing", "concepts", "faq", "forecasting", "quickstart", "readers", "trainer/real-models"]
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
END = "-- end of a block --\n"


def guide_examples(page: str) -> list[tuple[str, str]]:
    """The Python blocks of a page, each with the output that is shown right below it."""
    text = (PROJECT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    text = re.sub(r"^ +(?=```)", "", text, flags=re.MULTILINE)  # those in lists too
    return [(textwrap.dedent(code), shown) for code, shown in EXAMPLE.findall(text)]


@pytest.mark.parametrize("page", GUIDES)
def test_python_examples_of_a_guide_run_and_print_what_it_shows(page: str, tmp_path: Path) -> None:
    """A page may show only the beginning of an output."""
    examples = guide_examples(page)
    assert examples
    codes = [f"{code}\nprint({END!r}, end='')" for code, _ in examples]
    printed = run_python("\n".join(["import matplotlib", "matplotlib.use('Agg')", *codes]), tmp_path).split(END)[:-1]
    for (_, shown), out in zip(examples, printed, strict=True):
        assert out[: len(shown)] == shown


def script_beside_the_pages(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PROJECT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gallery_shows_every_figure(tmp_path: Path) -> None:
    """Its code draws each figure, and the image below the code is in the repository and small."""
    examples = guide_examples("gallery")
    written = script_beside_the_pages("gallery_figures").draw_figures(folder=tmp_path)
    plots = [re.findall(r"^plot_\w+(?=\()", code, flags=re.MULTILINE) for code, _ in examples]
    assert [len(names) for names in plots] == [0, *[1] * len(written)], "each block but the first draws one figure"
    assert {name for (name,) in plots[1:]} == {name for name in rlscaling.__all__ if name.startswith("plot_")}
    images = [PROJECT / "docs" / path.relative_to(tmp_path) for path in written]
    missing = [relative(path) for path in images if not path.is_file()]
    assert not missing, "run `python docs/gallery_figures.py`"
    assert sorted(images) == sorted((PROJECT / "docs" / "images" / "gallery").iterdir())
    assert max(path.stat().st_size for path in (*images, *written)) < 60_000


VERDICT = "|".join(THRESHOLDS)
WIDTH = re.compile(rf"±(0\.\d+)|(0\.\d+) for `(?:{VERDICT})`")
LIMITS = {verdict: f"{half_width:.2f}" for verdict, half_width in THRESHOLDS.items()}


def test_thresholds_on_the_pages_are_those_of_the_source() -> None:
    """Half-widths on a line that names verdicts, in their order; and wherever a ceiling is `known to` one."""
    n_compared = 0
    for page in PAGES:
        for line in (PROJECT / page).read_text(encoding="utf-8").splitlines():
            verdicts = re.findall(f"`({VERDICT})`", line)
            widths = [before or after for before, after in WIDTH.findall(line)]
            if verdicts and widths:
                assert widths == [LIMITS[verdict] for verdict in verdicts], f"{page}: {line}"
                n_compared += len(widths)
            assert set(re.findall(r"known to (?:within )?±(0\.\d+)", line)) <= set(LIMITS.values()), f"{page}: {line}"
            for wider in re.findall(r"wider than ±(0\.\d+)", line):
                assert wider == LIMITS["weak"], f"{page}: {line}"
    assert n_compared >= 13


def test_every_package_stands_in_the_architecture() -> None:
    """Its floors are those of the contract, and it names every package."""
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [set(re.findall(r"\w+", layer)) for layer in contracts[0]["layers"]][1:]  # without __main__
    floors = [set(re.findall(r"`(\w+)`", row)) for row in re.findall(r"^\| \d \| (.+) \|$", page, flags=re.MULTILINE)]
    assert floors == layers
    sentences = re.findall(r"^\| `(\w+)` \| ", page, flags=re.MULTILINE)
    packages = {path.parent.name for path in (PROJECT / "src" / "rlscaling").glob("*/__init__.py")}
    assert sorted(sentences) == sorted(packages)


def test_files_named_in_the_architecture_exist() -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("## To change X, open Y")[1]
    named = {name for name in re.findall(r"`([\w/]+\.py)`", table) if "NAME" not in name}
    assert named
    missing = sorted(name for name in named if not (PROJECT / "src" / "rlscaling" / name).is_file())
    assert not missing


def test_every_public_name_exists_and_is_documented() -> None:
    documented = (PROJECT / "docs" / "api.md").read_text(encoding="utf-8").split()
    for name in rlscaling.__all__:
        value = getattr(rlscaling, name)
        if name.startswith("__") or isinstance(value, ModuleType):
            continue
        assert value.__doc__, f"{name} has no docstring"
        assert name in documented, f"docs/api.md does not list {name}"


def words_of_golden_json() -> set[str]:
    """Keys, and words of the values, in everything that `--json` prints in the golden outputs."""
    words: set[str] = set()

    def add(value: Any) -> None:
        if isinstance(value, dict):
            words.update(value)
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                add(item)
        elif isinstance(value, str):
            words.update(re.findall(r"[\w-]+", value))

    for path in sorted((PROJECT / "tests" / "project" / "golden").glob("cli-*.json")):
        add(json.loads(path.read_text(encoding="utf-8"))["stdout"])
    return words


def test_json_keys_that_are_described_exist() -> None:
    """Every word set as code in the section on JSON is printed by some command."""
    page = (PROJECT / "docs" / "command-line.md").read_text(encoding="utf-8")
    section = page.split("\n## JSON\n")[1].split("\n## Exit codes\n")[0]
    spans = [span for span in re.findall(r"`([^`]+)`", section) if not re.match(r"rlscaling|--|\.", span)]
    described = {word for span in spans for word in re.findall(r"[A-Za-z][\w-]*", span)}
    commands = {"compare", "extrapolate", "train", "recipes", "kernels"}
    assert len(described) > 100
    assert sorted(described - words_of_golden_json() - commands - {"null", "low", "high"}) == []


def test_tables_of_options_are_up_to_date() -> None:
    page = (PROJECT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert script_beside_the_pages("option_tables").with_tables(page) == page, "run `python docs/option_tables.py`"


@pytest.mark.parametrize(("table", "command"), [("fit", "fit"), ("analysis", "fit"), ("read", "ingest")])
def test_tables_of_options_are_those_of_the_help(table: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of `fit` and `ingest` has the same flags and defaults."""
    text = "".join(run_command(capsys, command, "--help")[1].split())  # lines break at hyphens too
    for row in script_beside_the_pages("option_tables").tables()[table].splitlines()[2:]:
        flag, _, default = re.split(r" (?<!\\)\| ", row.strip("| "))
        assert flag.split("`")[1].split()[0] in text, row
        assert f"(default:{''.join(default.split())})" in text, row


def toctree_pages() -> list[str]:
    index = (PROJECT / "docs" / "index.md").read_text(encoding="utf-8")
    lines = [line for block in blocks(index, r"\{toctree\}") for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(":") and "*" not in line]


@pytest.mark.parametrize("page", toctree_pages())
def test_docs_page_exists(page: str) -> None:
    assert (PROJECT / "docs" / f"{page}.md").is_file()


def test_every_page_is_in_a_toctree() -> None:
    pages = {path.relative_to(PROJECT / "docs").with_suffix("").as_posix() for path in (PROJECT / "docs").rglob("*.md")}
    pages = {page for page in pages if page.split("/")[0] not in ("_build", "generated", "notebooks")}
    assert pages == {*toctree_pages(), "index"}


LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"])
def test_links_outside_the_built_pages_lead_somewhere(page: str) -> None:
    text = (PROJECT / page).read_text(encoding="utf-8")
    missing = [link for link in LINK.findall(text) if not ((PROJECT / page).parent / link).exists()]
    assert not missing


def test_files_named_in_the_documents_exist() -> None:
    """Benchmarks, examples, tests and modules of the trainer that a page or the README names by path."""
    pages = [
        PROJECT / "README.md",
        PROJECT / "CONTRIBUTING.md",
        *(PROJECT / f"docs/{page}.md" for page in toctree_pages()),
    ]
    missing = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        missing += [
            name
            for name in re.findall(r"\b((?:benchmarks|examples|tests)/[a-z_/]+\.py)", text)
            if not (PROJECT / name).is_file()
        ]
        if page.parent.name == "trainer":
            names = [
                name
                for name in re.findall(r"`([a-z_]+/\w+\.py)`", text)
                if not name.startswith(("benchmarks/", "examples/"))
            ]
            missing += [name for name in names if not (PROJECT / "src/rlscaling/trainer" / name).is_file()]
    assert not missing


def test_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert rlscaling.__version__ == version
    assert importlib.metadata.version("rlscaling") == version
    assert f"## [{version}]" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in (PROJECT / "CITATION.cff").read_text(encoding="utf-8")


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
