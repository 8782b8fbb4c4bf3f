"""``rlscaling fit`` and ``rlscaling extrapolate``: text, JSON, saved fits, determinism."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import rlscaling
from helpers.command_line import HEAD, KEYS, command
from helpers.fit_tables import FEW, SMALL, journalled
from helpers.worker_jobs import N_RUNS, some_runs
from rlscaling import WorkersError, bootstrap, extrapolate, fit_many, fit_trace, read_trace
from rlscaling.batch.fit_table_writer import journal_of
from rlscaling.cli import main
from rlscaling.traces.trace_files import write_trace


def test_text_says_verdict_parameters_and_seed(run: Any) -> None:
    said = run("fit", "scalerl.jsonl")
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert lines[0].startswith("approximate [scalerl]: A is known to within ±0.05 (95 %); ")
    assert lines[1].split() == ["estimate", "95", "%", "this", "run", "95", "%", "new", "run"]
    assert [line.split()[0] for line in lines[2:6]] == ["A", "B", "C_mid", "R0"]
    assert re.fullmatch(r" +A +0\.6\d+ ± 0\.00\d+ +\[0\.\d+, 0\.\d+\] +\[0\.\d+, 0\.\d+\]", lines[2])
    assert "1,000 replicates (departures, seed 0); 97 points, 1,500 to 15,900 GPU-hours, 9 left out" in lines[6]


def test_text_is_that_of_the_library(run: Any) -> None:
    boot = bootstrap(fit_trace(read_trace("scalerl-8k.jsonl")), rng=3)
    table = str(boot).splitlines()[:6]
    assert run("fit", "scalerl-8k.jsonl", "--seed", "3").out.splitlines()[:6] == table
    forecast = str(extrapolate(boot.fit, [16000, 1e5], bootstrap=boot)).splitlines()
    said = run("extrapolate", "scalerl-8k.jsonl", "--seed", 3, "--compute", 16000, 100000).out.splitlines()
    assert said[: len(forecast)] == forecast, "extrapolate prints the forecast first"


def test_extrapolate_has_a_default_budget(run: Any) -> None:
    assert "\n  100,000  " in run("extrapolate", "scalerl.jsonl").out
    assert run("extrapolate", "scalerl.jsonl", "--json").json["extrapolation"][0]["compute"] == 100_000


def test_no_bare_ceiling_when_it_is_not_identified(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "--max-compute", 3000, "--compute", 5000, 100000)
    assert said.out.startswith("ceiling-not-identified [scalerl]: these data cannot tell A; run to about ")
    assert re.search(
        r"^  A +not identified +\[0\.\d+, 1\.00\] +\[0\.\d+, 1\.00\] +at least 0\.[45]\d$", said.out, re.MULTILINE
    )
    twice = r"^  R at 6,000 GPU-hours \(twice the data\): 0\.5\d+ ± 0\.\d+  \[0\.\d+, 0\.\d+\]$"
    assert re.search(twice, said.out, re.MULTILINE)
    assert re.search(r"100,000 +33\.\dx +not identified +\[0\.\d+, ", said.out)
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
    argv = ("fit", "scalerl.jsonl", "--max-compute", 2200, "--compute", 3000, "--reach", 0.45)
    said = run(*argv)
    assert said.code == 0
    assert "ceiling-not-identified [scalerl]: 5 points are too few for an interval" in said.out
    assert re.search(r"3,000 +1\.\d+x +not identified", said.out)
    assert re.search(r"pass rate 0\.45 at 2,0\d\d GPU-hours, no interval", said.out)
    record = run(*argv, "--json").json
    assert record["ci"] is None
    assert record["ci_new_run"] is None
    assert record["n_resamples"] == 0
    assert record["extrapolation"][0] | {"pass_rate": 0} == {
        "compute": 3000.0, "pass_rate": 0, "ci": None, "ci_new_run": None, "beyond": pytest.approx(3000 / 2100),
        "supported": False, "prediction": None,
    }  # fmt: skip
    assert record["reach"][0]["ci"] is None
    assert record["at_twice"] is None


def test_json_of_one_run(run: Any) -> None:
    said = run("fit", "scalerl.jsonl", "--compute", 100000, "--json", "--seed", 7)
    record = said.json
    assert (said.code, said.err) == (0, "")
    assert set(record) == KEYS | HEAD | {"forecast_method", "past_forecast"}
    assert next(iter(record)) == "verdict"
    assert (record["schema_version"], record["version"], record["seed"]) == (2, rlscaling.__version__, 7)
    fit = fit_trace(read_trace("scalerl.jsonl"))
    boot = bootstrap(fit, rng=7)
    assert {name: record[name] for name in ("A", "B", "C_mid", "R0")} == vars(fit.params)
    assert record["ci"] == {name: list(ci) for name, ci in boot.confidence_interval.items()}
    assert record["ci_new_run"] == {"A": list(boot.confidence_interval_new_run["A"])}
    assert (record["n_points"], record["min_compute"], record["max_compute"]) == (97, 1500.0, None)
    assert record["compute_range"] == list(fit.compute_range)
    assert (record["R0_source"], record["reach"]) == ("anchored", [])
    needed = record["compute_needed"]
    assert needed["half_width"] == 0.02
    assert fit.compute_range[1] < needed["low"] < needed["median"] < needed["high"] < 2.0 * fit.compute_range[1]
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
    record = run("fit", "scalerl.jsonl", "--max-compute", 3000, "--compute", 1e5, "--json").json
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


def test_numbers_depend_on_the_seed_alone(run: Any) -> None:
    alone = run("fit", "scalerl.jsonl", "--compute", 1e5, "--json", "--seed", 5).json
    batch = run("fit", "batch-512.jsonl", "scalerl.jsonl", "--compute", 1e5, "--json", "--seed", 5).json["runs"][1]
    assert {key: value for key, value in alone.items() if key not in HEAD} == batch
    assert run("fit", "scalerl.jsonl", "--json", "--seed", 6).json["ci"] != alone["ci"]


def test_numbers_do_not_depend_on_the_workers(here: Path) -> None:
    # in processes of their own: workers that outlive a test would be reported as leaked
    argv = ["fit", "scalerl.jsonl", "--json", "--resamples", "500"]
    one, two = (command(*argv, "--jobs", jobs, cwd=here) for jobs in ("1", "2"))
    assert one.returncode == two.returncode == 0, two.stderr
    assert one.stdout == two.stdout


def test_saved_fit_gives_the_same_numbers(run: Any) -> None:
    options = ("--compute", 1e5, "--reach", 0.58, "--json")
    said = run("fit", "scalerl.jsonl", *options, "--save", "fit.json")
    assert said.err == "rlscaling: saved fit.json\n"
    assert run("fit", "fit.json", *options).json == said.json
    assert run("extrapolate", "fit.json", *options).json == said.json


def test_saved_fit_is_fitted_again_with_new_options(run: Any) -> None:
    run("fit", "scalerl.jsonl", "--save", "fit.json")
    changed = run("fit", "fit.json", "--min-compute", 3000, "--json").json
    direct = run("fit", "scalerl.jsonl", "--min-compute", 3000, "--json").json
    assert changed == direct
    assert changed["n_points"] == 87
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


def test_no_default_budget_outside_gpu_hours(run: Any) -> None:
    said = run("extrapolate", "scalerl.jsonl", "--compute-unit", "tokens", "--min-compute", 1500)
    assert said.code == 3
    assert (
        "compute is in tokens, for which there is no default budget; give one with --compute, e.g. --compute 2e+05"
        in said.err
    )
    assert (
        run("extrapolate", "scalerl.jsonl", "--compute-unit", "tokens", "--min-compute", 0, "--compute", 1e6).code == 0
    )


def test_write_error_is_said_and_the_answer_too(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device", "fit.png")

    monkeypatch.setattr("rlscaling.cli.fit.save_figure", full)
    said = run("fit", "scalerl.jsonl", "--plot", "fit.png", "--json", "--resamples", 50)
    assert said.code == 3
    assert said.err == "rlscaling: error: fit.png: No space left on device\n"
    assert said.json["verdict"] == "approximate"


def test_require_identified(run: Any) -> None:
    assert run("fit", "scalerl.jsonl", "scalerl-8k.jsonl", "--require-identified", "--resamples", 200).code == 0
    late = ("--max-compute", 3000, "--require-identified", "--resamples", 50)
    assert run("fit", "scalerl.jsonl", *late).code == 4
    assert run("fit", "scalerl.jsonl", "nope.csv", *late).code == 3, "refused data count more"
    assert run("fit", "scalerl.jsonl", "--max-compute", 3000).code == 0


def test_every_shared_trace_gets_a_verdict(run: Any, shared_data: Path) -> None:
    traces = sorted((shared_data / "traces").glob("*.csv"))
    said = run("fit", shared_data / "traces" / "*.csv", "--min-compute", 0, "--json", "--resamples", 50)
    records = said.json["runs"]
    assert said.code == 0
    assert len(records) == len(traces) >= 60
    assert not [record for record in records if "error" in record]
    assert {record["verdict"] for record in records} <= {str(verdict) for verdict in rlscaling.Verdict}


def write_runs(folder: Path) -> None:
    folder.mkdir()
    for name, trace in some_runs().items():
        write_trace(trace, folder / f"{name}.jsonl")


def test_a_killed_command_goes_on_where_it_was(tmp_path: Path):
    write_runs(tmp_path / "runs")
    command = [sys.executable, "-m", "rlscaling", "fit", "runs/*", "--resamples", "100", "--out"]
    whole = subprocess.run([*command, "whole.parquet"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert whole.returncode == 3, whole.stderr
    out = tmp_path / "fits.parquet"
    with subprocess.Popen([*command, out.name], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (journal_of(out).exists() and len(journalled(out)) >= 5):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    kept = journalled(out)
    assert 5 <= len(kept) < N_RUNS
    with journal_of(out).open("ab") as journal:
        journal.write(b'{"kind": "fits", "rows": [{"run": "run2')  # as a kill in the middle of a write leaves it
    again = subprocess.run([*command, out.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "fits.parquet was begun and not finished" in again.stderr
    more = subprocess.run([*command, out.name, "--continue"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert more.returncode == 3, more.stderr
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fits.parquet", "runs", "whole.parquet"]


@pytest.fixture
def runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, trace in FEW.items():
        write_trace(trace, tmp_path / f"{name}.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_writes_the_table_of_fit_many(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["fit", "*.jsonl", "--resamples", "20", "--compute", "100000", "--seed", "3", "--out", "fits.parquet"]
    assert main([*argv, "--json"]) == 3  # one run is too short
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "schema_version": 2, "version": rlscaling.__version__, "seed": 3, "out": "fits.parquet", "n_runs": 4,
        "verdicts": {"identified": 3, "refused": 1},
        "refused": [{"run": "run01", "error": fit_many(FEW, **SMALL).refused["run01"]}],
    }  # fmt: skip
    assert "rlscaling: error: run01: " in said.err
    found = pq.read_table("fits.parquet").to_pylist()
    expected = fit_many("*.jsonl", compute=100_000, rng=3, read={"scale": "auto"}, **SMALL).rows
    assert found == list(expected)
    assert main([*argv, "--continue"]) == 3
    assert "wrote fits.parquet: 4 runs" in capsys.readouterr().out


def test_the_table_among_its_inputs_is_no_run(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["fit", "**", "--resamples", "20", "--out", "fits.parquet"]) == 3
    Path("fits.parquet.journal.torn").write_text("half a line")
    assert main(["fit", "**", "--resamples", "20", "--out", "fits.parquet", "--continue"]) == 3
    assert pq.read_table("fits.parquet")["run"].to_pylist() == list(FEW)


def test_answers_of_a_batch_do_not_depend_on_the_workers(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    from joblib import parallel_config

    said = []
    for n_jobs in ("1", "2"):
        with parallel_config("threading"):
            assert main(["fit", "*.jsonl", "--resamples", "20", "--json", "--reach", "0.5", "--n-jobs", n_jobs]) == 3
        said.append(capsys.readouterr())
    assert said[0] == said[1]


def test_jobs_is_another_name_of_n_jobs(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    said = []
    for option in ("--n-jobs", "--jobs"):
        assert main(["fit", "run00.jsonl", "--resamples", "20", option, "1", "--json"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--n-jobs", "0"), "argument --n-jobs/--jobs: '0' is not a whole number of 1 or more"),
        (("--n-jobs", "-2"), "'-2' is not a whole number of 1 or more, nor -1 for all cores"),
        (("--out", "fits.csv"), "end the name in .parquet"),
        (("--out", "fits.parquet", "--plot", "a.png"), "--plot is about single answers, --out writes a table of all"),
        (("--out", "fits.parquet", "--cutoffs"), "--cutoffs is about single answers"),
        (("--out", "fits.parquet", "--continue", "--overwrite"), "give one of them"),
        (("--continue",), "--continue is about a table that was begun; name it with --out FILE"),
    ],
)
def test_options_of_the_command_that_cannot_be_carried_out(runs_here, capsys, argv, message):
    assert main(["fit", "run00.jsonl", *argv]) == 2
    assert message in capsys.readouterr().err


def test_the_ceilings_can_be_required_of_a_table(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["fit", "run00.jsonl", "--resamples", "20", "--require-identified", "--overwrite", "--out", "fits.parquet"]
    assert main(argv) == 0
    assert main([*argv, "--max-compute", "5000"]) == 4


def test_dead_workers_and_interrupts_say_how_to_go_on(runs_here, capsys, monkeypatch):
    def die(*_: object) -> None:
        raise WorkersError("the workers stopped")

    argv = ["fit", "*.jsonl", "--resamples", "20", "--out", "fits.parquet"]
    monkeypatch.setattr("rlscaling.batch.fit_table.row_of", die)
    assert main(argv) == 5
    said = capsys.readouterr().err
    assert (
        "the workers stopped. 0 of 4 runs are kept in fits.parquet.journal: go on with resume=True (--continue)" in said
    )

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlscaling.batch.fit_table.row_of", interrupt)
    assert main([*argv, "--continue"]) == 130
    assert "what is finished stands in fits.parquet.journal; --continue goes on" in capsys.readouterr().err


def test_a_seed_that_is_too_large_for_the_table_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_runs(tmp_path / "runs")
    out = tmp_path / "fits.parquet"
    assert main(["fit", str(tmp_path / "runs" / "*"), "--seed", str(2**64), "--out", str(out)]) == 2
    assert "is too large for the table's column of seeds" in capsys.readouterr().err
    assert list(tmp_path.glob("fits*")) == []


def test_averaged_forecast_on_the_command_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["extrapolate", str(log), "--compute", "32000", "--resamples", "50", "--json"]
    assert main([*arguments, "--forecast", "averaged"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert any(note.startswith("average over curves") for note in found["notes"])
    (low, high), (wide_low, wide_high) = found["extrapolation"][0]["ci"], found["extrapolation"][0]["prediction"]
    assert wide_low < low < high < wide_high
