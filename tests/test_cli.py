"""The command line: what it prints, its JSON, its exit codes, and that it never shows a traceback."""

from __future__ import annotations

import argparse
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
from rlscaling import bootstrap, datasets, extrapolate, fit_trace, read_trace, write_trace
from rlscaling.bootstrapping import POSTERIOR
from rlscaling.cli import main, parser
from rlscaling.readers import ReadOptions
from rlscaling.resample import SCHEMES
from rlscaling.schema import COMPUTE_UNITS
from rlscaling.schema import SCALES as READER_SCALES
from rlscaling.selection import METHODS

KEYS = {
    "run", "verdict", "reason", "R0", "R0_source", "A", "B", "C_mid", "ci", "ci_new_run", "standard_error",
    "confidence_level", "n_points", "compute_range", "compute_unit", "min_compute", "max_compute", "ssr", "at_bound",
    "compute_needed", "at_twice", "extrapolation", "reach", "notes", "scheme", "n_resamples", "seed_sd",
}  # fmt: skip
HEAD = {"schema_version", "version", "seed"}
ANSI = "\x1b["


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


class Said:
    """What one call of the command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        value = json.loads(self.out, parse_constant=refuse)
        assert isinstance(value, dict)
        return value


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


SOURCE = str(Path(rlscaling.__file__).resolve().parents[1])


def command(*argv: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    options.setdefault("stdout", subprocess.PIPE)
    options["env"] = {**os.environ, "PYTHONPATH": SOURCE, **(env or {})}
    words = [sys.executable, "-W", "error", "-m", "rlscaling", *argv]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **options)


# --- help and the command itself ------------------------------------------------------------------------------


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
        if action.dest not in ("help", "paths"):
            assert action.help, action.option_strings
            assert "(default: " in action.help, action.option_strings


def subparsers() -> dict[str, argparse.ArgumentParser]:
    (group,) = [a for a in parser.build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(group.choices)


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


def test_choices_are_those_of_the_library() -> None:
    assert set(parser.UNITS) == set(COMPUTE_UNITS)
    assert set(parser.SCALES) == {*READER_SCALES, "auto"}
    assert tuple(parser.SCHEMES) == (*SCHEMES, POSTERIOR)
    assert parser.METHODS == METHODS
    assert ReadOptions(scale="auto").scale == "auto"


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from rlscaling.cli import main; main(['--help'])\n"
        "heavy = {'numpy', 'scipy', 'matplotlib', 'pandas', 'rich', 'joblib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_module_runs_as_a_command(here: Path) -> None:
    done = command("fit", "scalerl.jsonl", "--json", "--resamples", "50", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verdict"] == "identified"


def test_closed_pipe_ends_in_silence(here: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = command("fit", "scalerl.jsonl", "--resamples", "50", stdout=writer, cwd=here)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_interrupt_is_one_line(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlscaling.cli.commands.find_runs", interrupt)
    said = run("fit", "scalerl.jsonl")
    assert (said.code, said.err) == (130, "rlscaling: error: interrupted\n")


def test_stream_that_cannot_write_plus_minus(here: Path) -> None:
    done = command("fit", "scalerl.jsonl", "--resamples", "50", cwd=here, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "A is known to within ?0.02 (95 %)" in done.stdout


# --- text -----------------------------------------------------------------------------------------------------


def test_text_says_verdict_parameters_and_seed(run: Any) -> None:
    said = run("fit", "scalerl.jsonl")
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert lines[0] == "identified [scalerl]: A is known to within ±0.02 (95 %)"
    assert lines[1].split() == ["estimate", "95", "%", "this", "run", "95", "%", "new", "run"]
    assert [line.split()[0] for line in lines[2:6]] == ["A", "B", "C_mid", "R0"]
    assert re.fullmatch(r" +A +0\.6\d+ ± 0\.00\d+ +\[0\.\d+, 0\.\d+\] +\[0\.\d+, 0\.\d+\]", lines[2])
    assert "1,000 replicates (ar1, seed 0); 68 points, 1,513 to 16,000 GPU-hours, 6 left out" in lines[6]


def test_text_is_that_of_the_library(run: Any) -> None:
    boot = bootstrap(fit_trace(read_trace("scalerl-8k.jsonl")), rng=3)
    table = str(boot).splitlines()[:6]
    assert run("fit", "scalerl-8k.jsonl", "--seed", "3").out.splitlines()[:6] == table
    forecast = str(extrapolate(boot.fit, [16000, 1e5], bootstrap=boot)).splitlines()
    said = run("extrapolate", "scalerl-8k.jsonl", "--seed", 3, "--to", 16000, 100000).out.splitlines()
    assert said[: len(forecast)] == forecast, "extrapolate prints the forecast first"


def test_extrapolate_has_a_default_budget(run: Any) -> None:
    assert "\n  100,000  " in run("extrapolate", "scalerl.jsonl").out
    assert run("extrapolate", "scalerl.jsonl", "--json").json["extrapolation"][0]["compute"] == 100_000


def test_no_bare_ceiling_when_it_is_not_identified(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "--max-compute", 3000, "--extrapolate", 5000, 100000)
    assert said.out.startswith("ceiling-not-identified [scalerl]: these data cannot tell A; run to about ")
    assert re.search(
        r"^  A +not identified +\[0\.\d+, 1\.00\] +\[0\.\d+, 1\.00\] +at least 0\.5\d$", said.out, re.MULTILINE
    )
    twice = r"^  R at 5,621 GPU-hours \(twice the data\): 0\.5\d+ ± 0\.\d+  \[0\.\d+, 0\.\d+\]$"
    assert re.search(twice, said.out, re.MULTILINE)
    assert re.search(r"100,000 +35\.\dx +not identified +\[0\.\d+, ", said.out)
    assert "note: beyond twice the data only the interval is given" in said.out


def test_reach_and_cutoffs(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "--reach", 0.55, 0.9, "--cutoffs")
    assert re.search(r"pass rate 0\.55 at 4,\d{3} GPU-hours \(95 %: 4,\d+ to \d,\d+", said.out)
    assert "pass rate 0.9 is never reached by the curve (by 0 % of the draws; 95 %: from inf GPU-hours)" in said.out
    assert "A by cutoff (GPU-hours)" in said.out
    record = run("fit", "scalerl.jsonl", "--reach", 0.55, 0.9, "--cutoffs", "--json").json
    assert [row["min_compute"] for row in record["cutoffs"]["rows"]] == [0, 500, 1000, 1500, 2000, 3000]
    near, far = record["reach"]
    assert near["ci"][0] < near["compute"] < near["ci"][1]
    assert far == {"pass_rate": 0.9, "compute": None, "ci": [None, None], "probability": 0.0}


def test_too_few_points_for_an_interval(run: Any) -> None:
    argv = ("fit", "scalerl.jsonl", "--max-compute", 2400, "--extrapolate", 3000, "--reach", 0.45)
    said = run(*argv)
    assert said.code == 0
    assert "ceiling-not-identified [scalerl]: 5 points are too few for an interval" in said.out
    assert re.search(r"3,000 +1\.\d+x +not identified", said.out)
    assert re.search(r"pass rate 0\.45 at 1,9\d\d GPU-hours, no interval", said.out)
    record = run(*argv, "--json").json
    assert record["ci"] is None
    assert record["ci_new_run"] is None
    assert record["n_resamples"] == 0
    assert record["extrapolation"][0] | {"pass_rate": 0} == {
        "compute": 3000.0, "pass_rate": 0, "ci": None, "ci_new_run": None, "beyond": pytest.approx(1.26, abs=0.01),
        "supported": False, "prediction": None,
    }  # fmt: skip
    assert record["reach"][0]["ci"] is None
    assert record["at_twice"] is None


def test_what_a_reader_guessed_goes_to_stderr(run: Any) -> None:
    lines = Path("scalerl.jsonl").read_text().splitlines()[1:]
    rows = [json.loads(line) for line in lines]
    table = "\n".join(f"{row['compute_gpu_hours']},{row['pass_rate']}" for row in rows)
    Path("log.csv").write_text("H100 hours,accuracy\n" + table + "\n")
    said = run("fit", "log.csv", "--json")
    assert said.code == 0
    assert "rlscaling: log: Took column 'accuracy' as the pass rate" in said.err
    assert any("Took column 'accuracy'" in note for note in said.json["notes"])
    assert "Took column" not in run("fit", "log.csv").out


def test_batch_ends_with_an_overview(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "nope.jsonl", "batch-512.jsonl")
    assert said.code == 3
    overview = said.out.partition("\nOverview\n")[2].splitlines()
    assert overview[0].split() == ["run", "verdict", "A", "95", "%", "this", "run", "points"]
    assert overview[1].split()[:2] == ["scalerl", "identified"]
    assert overview[2].split() == ["nope.jsonl", "refused"]
    assert overview[3].split()[:2] == ["batch-512", "identified"]
    assert "rlscaling: error: no such file: nope.jsonl" in said.err


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def test_terminal_has_colours_and_a_progress_bar(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), Terminal()
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    argv = ["fit", "scalerl.jsonl", "scalerl-8k.jsonl", "--cutoffs", "--extrapolate", "1e5", "--resamples", "100"]
    assert main(argv) == 0
    assert "\x1b[1;32midentified" in out.text
    assert "[0.6" in out.text, "intervals are not taken for markup"
    assert "runs" in err.text
    assert ANSI in err.text


# --- JSON -----------------------------------------------------------------------------------------------------


def test_json_of_one_run(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "--extrapolate", 100000, "--json", "--seed", 7)
    record = said.json
    assert (said.code, said.err) == (0, "")
    assert set(record) == KEYS | HEAD
    assert next(iter(record)) == "verdict"
    assert (record["schema_version"], record["version"], record["seed"]) == (1, rlscaling.__version__, 7)
    fit = fit_trace(read_trace("scalerl.jsonl"))
    boot = bootstrap(fit, rng=7)
    assert {name: record[name] for name in ("A", "B", "C_mid", "R0")} == vars(fit.params)
    assert record["ci"] == {name: list(ci) for name, ci in boot.confidence_interval.items()}
    assert record["ci_new_run"] == {"A": list(boot.confidence_interval_new_run["A"])}
    assert (record["n_points"], record["min_compute"], record["max_compute"]) == (68, 1500.0, None)
    assert record["compute_range"] == list(fit.compute_range)
    assert (record["R0_source"], record["compute_needed"], record["reach"]) == ("anchored", None, [])
    assert record["at_twice"] == {"pass_rate": fit.at_twice[0], "ci": list(fit.at_twice[1:])}
    assert record["extrapolation"] == extrapolate(fit, 1e5, bootstrap=boot).to_dict()
    assert set(record["extrapolation"][0]) == {
        "compute",
        "pass_rate",
        "ci",
        "ci_new_run",
        "beyond",
        "supported",
        "prediction",
    }


def test_json_keeps_the_best_estimate_when_the_ceiling_is_not_identified(run: Any) -> None:
    record = run("fit", "scalerl.jsonl", "--max-compute", 3000, "--extrapolate", 1e5, "--json").json
    assert record["verdict"] == "ceiling-not-identified"
    assert 0.5 < record["A"] < 1
    assert record["extrapolation"][0]["supported"] is False
    assert set(record["compute_needed"]) == {"half_width", "median", "low", "high"}


def test_json_of_a_batch(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "nope.jsonl", "batch-512.jsonl", "--json", "--resamples", 50)
    assert said.code == 3
    assert set(said.json) == HEAD | {"runs"}
    first, refused, last = said.json["runs"]
    assert set(first) == set(last) == KEYS
    assert refused == {"run": "nope.jsonl", "error": refused["error"]}
    assert refused["error"].startswith("no such file: nope.jsonl")


def test_json_of_one_refused_run(run: Any) -> None:
    said = run("fit", "nope.jsonl", "--json")
    assert said.code == 3
    assert set(said.json) == HEAD | {"run", "error"}


def test_every_run_of_a_file_is_answered_on_its_own(run: Any) -> None:
    rows = ["run,compute,pass_rate"]
    trace = datasets.load_demo()["scalerl"]
    for name in ("good", "bad", "fine"):
        rows += [f"{name},{c},{y}" for c, y in zip(trace.compute, trace.pass_rate, strict=True)]
    rows.append("bad,17000,7.5")
    Path("runs.csv").write_text("\n".join(rows))
    said = run("fit", "runs.csv", "--json", "--resamples", 50)
    assert said.code == 3
    assert [record["run"] for record in said.json["runs"]] == ["runs:good", "runs:bad", "runs:fine"]
    assert ["error" in record for record in said.json["runs"]] == [False, True, False]
    assert run("fit", "runs.csv", "--run", "fine", "--json", "--resamples", 50).json["verdict"] == "identified"


@pytest.mark.parametrize("kind", ["glob", "folder", "twice"])
def test_what_a_path_may_be(run: Any, kind: str) -> None:
    Path("a").mkdir()
    shutil.copy("scalerl.jsonl", "a/trace.jsonl")
    Path("a/trace.discarded.jsonl").write_text("thrown away\n")
    paths = {"glob": ["a/*.jsonl"], "folder": ["a"], "twice": ["a", "a/trace.jsonl"]}[kind]
    assert run("fit", *paths, "--json", "--resamples", 50).json["verdict"] == "identified"


def test_reader_and_fit_options_arrive(run: Any) -> None:
    trace = datasets.load_demo()["scalerl"]
    rows = [f"{c * 1e6},{100 * y}" for c, y in zip(trace.compute, trace.pass_rate, strict=True)]
    Path("log.csv").write_text("\n".join(["x,y", *rows, "2e10,"]))
    record = run(
        "fit", "log.csv", "--compute-column", "x", "--pass-rate-column", "y", "--compute-unit", "tokens", "--scale",
        "percent", "--drop-missing", "--min-compute", 2e9, "--max-compute", 1.2e10, "--exclude", "3e9:4e9", "--exclude",
        "5e9:5.5e9", "--R0", 0.35, "--R0-se", 0.01, "--B-bounds", 1, 3, "--A-max", 0.9, "--json", "--confidence-level",
        0.9, "--scheme", "residual", "--resamples", 60, "--seed-sd", 0,
    ).json  # fmt: skip
    assert (record["compute_unit"], record["min_compute"], record["max_compute"]) == ("tokens", 2e9, 1.2e10)
    assert (record["R0_source"], record["confidence_level"], record["scheme"]) == ("anchored", 0.9, "residual")
    assert (record["n_resamples"], record["seed_sd"]) == (60, 0.0)
    assert record["ci_new_run"]["A"] == record["ci"]["A"]
    assert 0.55 < record["A"] < 0.65
    given = run("fit", "scalerl.jsonl", "--A", 0.61, "--B", 1.9, "--R0", 0.35, "--json").json
    assert (given["verdict"], given["A"], given["B"], given["R0"]) == ("ceiling-given", 0.61, 1.9, 0.35)
    paper = run("fit", "scalerl.jsonl", "--method", "paper-grid", "--json").json
    assert paper["R0_source"] == "fixed"
    assert round(paper["A"] / 0.005, 6) == round(paper["A"] / 0.005)
    assert run("fit", "scalerl.jsonl", "--R0", "free", "--json").json["R0_source"] == "free"


# --- determinism ----------------------------------------------------------------------------------------------


def test_numbers_depend_on_the_seed_alone(run: Any) -> None:
    alone = run("fit", "scalerl.jsonl", "--extrapolate", 1e5, "--json", "--seed", 5).json
    batch = run("fit", "batch-512.jsonl", "scalerl.jsonl", "--extrapolate", 1e5, "--json", "--seed", 5).json["runs"][1]
    assert {key: value for key, value in alone.items() if key not in HEAD} == batch
    assert run("fit", "scalerl.jsonl", "--json", "--seed", 6).json["ci"] != alone["ci"]


def test_numbers_do_not_depend_on_the_workers(here: Path) -> None:
    # in processes of their own: workers that outlive a test would be reported as leaked
    argv = ["fit", "scalerl.jsonl", "--json", "--resamples", "500"]
    one, two = (command(*argv, "--jobs", jobs, cwd=here) for jobs in ("1", "2"))
    assert one.returncode == two.returncode == 0, two.stderr
    assert one.stdout == two.stdout


# --- saved fits and pictures ----------------------------------------------------------------------------------


def test_saved_fit_gives_the_same_numbers(run: Any) -> None:
    options = ("--extrapolate", 1e5, "--reach", 0.58, "--json")
    said = run("fit", "scalerl.jsonl", *options, "--save", "fit.json")
    assert said.err == "rlscaling: saved fit.json\n"
    assert run("fit", "fit.json", *options).json == said.json
    assert run("extrapolate", "fit.json", *options).json == said.json


def test_saved_fit_is_fitted_again_with_new_options(run: Any) -> None:
    run("fit", "scalerl.jsonl", "--save", "fit.json")
    changed = run("fit", "fit.json", "--min-compute", 3000, "--json").json
    direct = run("fit", "scalerl.jsonl", "--min-compute", 3000, "--json").json
    assert changed == direct
    assert changed["n_points"] == 61
    assert "a saved fit; --scale has no effect on it" in run("fit", "fit.json", "--scale", "percent").err


def test_saved_fit_beside_the_run_it_came_from(run: Any) -> None:
    run("fit", "scalerl.jsonl", "--save", "fit.json")
    names = [
        record["run"] for record in run("fit", "scalerl.jsonl", "fit.json", "--json", "--resamples", 50).json["runs"]
    ]
    assert names == ["scalerl", "scalerl (2)"]


def test_damaged_saved_fit_is_refused(run: Any) -> None:
    Path("bad.json").write_text('{"kind": "sigmoid-fit", "schema_version": 1}')
    assert "the saved fit is damaged" in run("fit", "bad.json").err
    Path("new.json").write_text('{"kind": "sigmoid-fit", "schema_version": 99}')
    said = run("fit", "new.json")
    assert said.code == 3
    assert "schema_version 99" in said.err


def test_saving_several_fits_needs_a_folder(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "batch-512.jsonl", "--save", "fit.json")
    assert said.code == 2
    assert "2 fits do not go into one file; give one run, or a folder, e.g. --save fits/" in said.err
    assert run("fit", "scalerl.jsonl", "batch-512.jsonl", "--resamples", 50, "--save", "fits/").code == 0
    assert sorted(file.name for file in Path("fits").iterdir()) == ["batch-512.json", "scalerl.json"]
    assert run("fit", "fits/*.json", "--resamples", 50, "--json").code == 0


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_plot_writes_each_format(run: Any, suffix: str) -> None:
    said = run("extrapolate", "scalerl.jsonl", "--resamples", 50, "--plot", f"fit.{suffix}", "--json")
    assert said.err == f"rlscaling: drew fit.{suffix}\n"
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert Path(f"fit.{suffix}").read_bytes().startswith(start)


def test_plot_of_several_runs_and_of_none(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "nope.csv", "scalerl-8k.jsonl", "--resamples", 50, "--plot", "all.svg")
    assert said.code == 3
    assert Path("all.svg").stat().st_size > 10_000
    said = run("fit", "nope.csv", "--plot", "none.png")
    assert "none.png was not drawn: no run was answered" in said.err
    assert not Path("none.png").exists()


@pytest.mark.parametrize("option", ["--plot", "--save"])
def test_files_are_not_written_over(run: Any, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = {"--plot": "fit.png", "--save": "fit.json"}[option]
    Path(name).write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("rlscaling.cli.commands.answer", lambda *args: pytest.fail("it worked before it checked"))
        said = run("fit", "scalerl.jsonl", option, name, "--json")
    assert (said.code, said.out) == (2, "")
    assert f"{option} {name} exists and is not written over; choose another name, or add --overwrite" in said.err
    assert Path(name).read_text() == "mine"
    assert run("fit", "scalerl.jsonl", option, name, "--overwrite", "--resamples", 50).code == 0
    assert Path(name).read_bytes() != b"mine"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--plot", "fit.gif"), "--plot fit.gif: the suffix says the format; choose one of .png, .svg, .pdf"),
        (("--plot", "no/fit.png"), "there is no folder no; make it first"),
        (("--save", "fit.txt"), "a fit is saved as JSON; end the name in .json"),
        (("--save", "no/fit.json"), "there is no folder no; make it first"),
        (("--A-max", "2"), "A_max=2: a pass rate has a bound in (0, 1]"),
        (("--min-compute", "5", "--max-compute", "4"), "leave no range"),
        (("--method", "paper-grid", "--A", "0.6"), "drop A= and B="),
        (("--seed", "-1"), "'-1' is not a whole number of 0 or more"),
        (("--resamples", "1"), "'1' is not a whole number of 2 or more"),
        (("--jobs", "0"), "'0' is not a whole number of 1 or more"),
        (("--confidence-level", "95"), "95 is not between 0 and 1; for 95 % give 0.95"),
        (("--exclude", "3000"), "'3000' is not LOW:HIGH, e.g. 3000:3500"),
        (("--extrapolate", "0"), "0 is not a positive, finite number"),
        (("--extrapolate", "batch-512.jsonl"), "is not a number; files go before this option"),
        (("--R0", "nan"), "'nan' is not a number"),
        (("--seed-sd", "-1"), "-1 is not a finite number of 0 or more"),
        (("--scale", "ten"), "invalid choice: 'ten'"),
        (("--frobnicate",), "unrecognized arguments: --frobnicate"),
    ],
)
def test_usage_errors(run: Any, argv: tuple[str, ...], message: str) -> None:
    said = run("fit", "scalerl.jsonl", *argv)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("rlscaling: error: ")
    assert message in said.err


# --- refused data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["scaler.jsonl"], "did you mean 'scalerl.jsonl'?"),
        (["none/*.csv"], "no file matches 'none/*.csv'; check the pattern"),
        (["."], "is a folder without trace.jsonl"),
        (["empty.csv"], "empty.csv is empty"),
        (["text.csv"], "row 2, column 'pass_rate': 'high' is not a number"),
        (["percent.csv"], "--scale percent"),
        (["short.csv"], "2 evaluations besides the one at compute 0"),
        (["small.csv"], "add min_compute=0 (--min-compute 0) to use them all"),
        (["tokens.csv"], "give min_compute= (--min-compute)"),
        (["x" * 300], "File name too long"),
    ],
)
def test_refused_data(run: Any, paths: list[str], message: str) -> None:
    Path("empty.csv").write_text("")
    Path("text.csv").write_text("compute,pass_rate\n1,high\n")
    Path("percent.csv").write_text("compute,pass_rate\n" + "\n".join(f"{1000 * i},{30 + i}" for i in range(20)))
    Path("short.csv").write_text("compute,pass_rate\n0,0.1\n2000,0.2\n3000,0.3\n")
    Path("small.csv").write_text("compute,pass_rate\n" + "\n".join(f"{i},{0.3 + i / 100}" for i in range(20)))
    Path("tokens.csv").write_text("tokens,pass_rate\n" + "\n".join(f"{i}e6,{0.3 + i / 100}" for i in range(20)))
    said = run("fit", *paths)
    assert said.code == 3
    assert said.err.startswith(("rlscaling: error: ", "rlscaling: tokens: "))
    assert message in said.err
    assert message in run("fit", *paths, "--json").json["error"]


def test_unreadable_file_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    said = run("fit", "scalerl.jsonl")
    assert said.code == 3
    assert "cannot read scalerl.jsonl: Permission denied; check its permissions" in said.err


def test_no_default_budget_outside_gpu_hours(run: Any) -> None:
    said = run("extrapolate", "scalerl.jsonl", "--compute-unit", "tokens", "--min-compute", 1500)
    assert said.code == 3
    assert "compute is in tokens, for which there is no default budget; give one with --to, e.g. --to 2e+05" in said.err
    assert run("extrapolate", "scalerl.jsonl", "--compute-unit", "tokens", "--min-compute", 0, "--to", 1e6).code == 0


def test_write_error_is_said_and_the_answer_too(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device", "fit.png")

    monkeypatch.setattr("rlscaling.cli.commands.save_picture", full)
    said = run("fit", "scalerl.jsonl", "--plot", "fit.png", "--json", "--resamples", 50)
    assert said.code == 3
    assert said.err == "rlscaling: error: fit.png: No space left on device\n"
    assert said.json["verdict"] == "identified"


def test_require_identified(run: Any) -> None:
    assert run("fit", "scalerl.jsonl", "scalerl-8k.jsonl", "--require-identified", "--resamples", 200).code == 0
    late = ("--max-compute", 3000, "--require-identified", "--resamples", 50)
    assert run("fit", "scalerl.jsonl", *late).code == 4
    assert run("fit", "scalerl.jsonl", "nope.csv", *late).code == 3, "refused data count more"
    assert run("fit", "scalerl.jsonl", "--max-compute", 3000).code == 0


# --- demo -----------------------------------------------------------------------------------------------------


def test_demo_tells_compares_and_writes(run: Any, here: Path) -> None:
    out = here / "rlscaling-demo"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "demo.png").write_text("old")
    said = run("demo")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("These runs are simulated, not real training: curves from Table 1 of arXiv 2510.13786")
    for text in (
        "\napproximate [scalerl-8k]: A is known to within ±0.05 (95 %); run to about ",
        "\nidentified [scalerl]: A is known to within ±0.02 (95 %)\n",
        "\nidentified [batch-2048]: A is known to within ±0.02 (95 %)\n",
        ": inside the interval.\n",
        "\nBet on batch-2048: at 100,000 GPU-hours it is ahead of scalerl by 0.0",
        "although scalerl leads up to about 3",
        "\n  rlscaling fit rlscaling-demo/scalerl.jsonl --extrapolate 100000",
    ):
        assert text in said.out, text
    assert sorted(file.name for file in out.iterdir()) == [
        "demo.json",
        "demo.png",
        "notes.txt",
        "report.html",
        "scalerl.jsonl",
    ]
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    (next_command,) = re.findall(r"^  rlscaling (fit .*scalerl.jsonl --extrapolate .*)$", said.out, flags=re.MULTILINE)
    assert run(*next_command.split()).code == 0


def test_demo_json_holds_the_numbers(run: Any) -> None:
    said = run("demo", "--json", "--out", "there", "--seed", 1)
    value = said.json
    assert json.loads(Path("there/demo.json").read_text()) == value
    assert value["seed"] == 1
    assert [record["run"] for record in value["runs"]] == ["scalerl-8k", "scalerl", "batch-2048"]
    assert all(set(record) == KEYS for record in value["runs"])
    early, (first, second) = value["early_forecast"], value["runs"][1:]
    assert early["ci"][0] < early["came"] < early["ci"][1]
    comparison = value["comparison"]
    at = [record["extrapolation"][0]["pass_rate"] for record in (first, second)]
    assert comparison["difference"] == pytest.approx(at[1] - at[0])
    assert comparison["ci"][0] < comparison["difference"] < comparison["ci"][1]
    assert 0.5 < comparison["probability_second_ahead_new_run"] < comparison["probability_second_ahead"] <= 1
    assert "Try next" in said.err


def test_demo_needs_a_folder(run: Any) -> None:
    Path("taken").write_text("")
    said = run("demo", "--out", "taken")
    assert said.code == 2
    assert "--out taken is a file; name a folder" in said.err


def test_demo_says_when_it_is_undecided() -> None:
    from rlscaling.cli.demo import _conclusion

    said = _conclusion("a", "b", -0.002, (-0.01, 0.006), [0.3, 0.4], None, 1e5)
    assert said == "Undecided: at 100,000 GPU-hours a is ahead of b in 70 % of the draws only."
    said = _conclusion("a", "b", -0.02, (-0.03, -0.01), [0.0, 0.2], None, 1e5)
    assert said.startswith("Bet on a: at 100,000 GPU-hours it is ahead of b by 0.020 (95 %: 0.010 to 0.030); between")


# --- real curves ----------------------------------------------------------------------------------------------


def test_every_shared_trace_gets_a_verdict(run: Any, shared_data: Path) -> None:
    traces = sorted((shared_data / "traces").glob("*.csv"))
    said = run("fit", shared_data / "traces" / "*.csv", "--min-compute", 0, "--json", "--resamples", 50)
    records = said.json["runs"]
    assert said.code == 0
    assert len(records) == len(traces) >= 60
    assert not [record for record in records if "error" in record]
    assert {record["verdict"] for record in records} <= {str(verdict) for verdict in rlscaling.Verdict}
