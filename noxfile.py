"""Every check by name: `nox -l` lists them, `nox` runs the quick ones. See CONTRIBUTING.md."""

from __future__ import annotations

import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
CONSTRAINTS = ("-c", "constraints.txt")

# What is printed is kept for the versions of constraints.txt: matplotlib, lmfit and pandas word and colour otherwise.
PINNED = "--ignore=tests/project/test_golden_outputs.py"

nox.options.sessions = ["tests", "lint", "docs", "notebooks"]
nox.options.error_on_missing_interpreters = True


def install(session: nox.Session, extra: str) -> None:
    session.install(*CONSTRAINTS, "-e", f".[{extra}]")


def constraints(session: nox.Session, lines: list[str]) -> Path:
    """Write a file of constraints: some lines, and the torch that is a CPU build."""
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    torch = next(line for line in pinned if line.startswith("torch=="))
    path = Path(session.create_tmp()) / "constraints.txt"
    path.write_text("\n".join([*lines, torch]) + "\n")
    return path


@nox.session
def tests(session: nox.Session) -> None:
    """The quick tests; arguments after `--` go to pytest."""
    install(session, "test")
    session.run("python", "-m", "pytest", "-q", "-n", "auto", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types and the arrows between modules."""
    install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation; a warning or a dead reference is an error."""
    install(session, "docs")
    session.run("sphinx-build", "-W", "-n", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session
def notebooks(session: nox.Session) -> None:
    """Run every notebook; each ends with an assert on the number it claims."""
    install(session, "test")
    names = [str(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    session.run(
        "python", "-m", "pytest", "-q", "-o", "filterwarnings=default", "--nbmake", "--nbmake-timeout=900", *names
    )


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks given after `--`, or all of them."""
    install(session, "test")
    on_a_cpu = sorted(
        str(path) for path in Path("benchmarks").glob("[!_]*.py") if path.name not in ("gpu_check.py", "soak.py")
    )
    for name in session.posargs or on_a_cpu:
        session.run("python", name)


@nox.session
def soak(session: nox.Session) -> None:
    """A generator and a trainer for three minutes, or for `-- --minutes N`: flat memory, no leak, a whole trace."""
    install(session, "test")
    session.run("python", "benchmarks/soak.py", *session.posargs)


@nox.session
def full(session: nox.Session) -> None:
    """Everything long: the slow tests, CUDA 12, then the tests on the lowest versions we promise and on the newest."""
    install(session, "test")
    session.run("python", "-m", "pytest", "-q", "-n", "auto", "-m", "not gpu")
    session.notify("soak", ["--minutes", "30"])
    session.notify("logs")
    session.notify("cluster")
    session.notify("cuda12")
    session.notify("lowest")
    session.notify("newest")


@nox.session
def logs(session: nox.Session) -> None:
    """Logs written by the real packages, and the Trainer's callback."""
    # mlflow asks for older packages than those that everything else is checked on: torch alone is pinned
    session.install("-c", str(constraints(session, [])), "-e", ".[test-without-trl,logs]")
    files = ("tests/project/test_real_logs.py", "tests/traces/test_trainer_callback.py")
    session.run("python", "-m", "pytest", "-q", "-m", "not trl", "-o", "filterwarnings=default", *files)


@nox.session
def cluster(session: nox.Session) -> None:
    """Ray's joblib backend, for real."""
    install(session, "test")
    session.install("ray")
    session.run("python", "-m", "pytest", "-q", "-m", "", "tests/project/test_ray.py")


@nox.session
def cuda12(session: nox.Session) -> None:
    """The way to a GPU with the bindings and compiler of CUDA 12."""
    install(session, "test")
    session.run("python", "-m", "pip", "uninstall", "-q", "-y", "cuda-bindings", "nvidia-cuda-nvrtc")
    session.install("cuda-bindings<13", "nvidia-cuda-nvrtc-cu12")
    session.run(
        "python", "-m", "pytest", "-q", *(f"tests/trainer/kernels/test_{name}.py" for name in ("cuda", "binary_cache"))
    )


@nox.session
def lowest(session: nox.Session) -> None:
    """The tests on the oldest dependencies `pyproject.toml` allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    floor = [requirement.replace(">=", "==") for requirement in project["dependencies"]]
    session.install("-c", str(constraints(session, floor)), "-e", ".[test-without-trl]")
    # Old releases warn about each other; that is theirs to mend.
    options = ("-o", "filterwarnings=default", "-m", "not slow and not gpu and not trl", PINNED)
    session.run("python", "-m", "pytest", "-q", "-n", "auto", *options)


@nox.session
def newest(session: nox.Session) -> None:
    """The tests on the newest dependencies there are today, whatever `constraints.txt` pins."""
    session.install("--upgrade", "-c", str(constraints(session, [])), "-e", ".[test]")
    # What a new release deprecates is for a change of its own; what it breaks shows here.
    session.run("python", "-m", "pytest", "-q", "-n", "auto", "-o", "filterwarnings=default", PINNED)
