"""``rlscaling compare`` and ``rlscaling loo``: text, JSON, pictures, grouping, refusals, exit codes."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from rlscaling import Trace, datasets, fit_trace, save_fit, simulate, write_trace
from rlscaling.cli import main

C = np.arange(0, 75) * 216.2


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a reference and two variants, with the headers of the trainer."""
    folder = tmp_path_factory.mktemp("runs")
    for recipe, change, row, seeds in (
        ("scalerl", "", "scalerl", 2),
        ("loo-savg", "sample average", "batch-512", 2),
        ("loo-fp32", "bf16 head", "generations-8", 1),
    ):
        for seed in range(seeds):
            rng = [len(recipe), seed]
            run = simulate(datasets.table1()[row], compute=C, rho=0.5, wander_sd=0.004, rng=np.random.default_rng(rng))
            header = {**run.metadata, "recipe": recipe, "seed": seed, "change": change}
            write_trace(Trace(run.compute, run.pass_rate, metadata=header), folder / f"{recipe}-s{seed}.jsonl")
    return folder


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("scalerl", "batch-512", "batch-2048"):
        with resources.as_file(resources.files("rlscaling.datasets") / "data" / f"{name}.jsonl") as path:
            shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_compare_says_who_leads_first(demo, capsys):
    assert main(["compare", "batch-2048.jsonl", "scalerl.jsonl", "batch-512.jsonl"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith(
        "undecided: batch-2048 is most likely best at 100,000 GPU-hours (probability 0.99"
    )
    assert "highest ceiling A: batch-2048; " in out
    assert "batch-2048 overtakes scalerl at" in out


def test_compare_json_is_one_object_and_repeats(demo, capsys):
    command = ["compare", "scalerl.jsonl", "batch-2048.jsonl", "--compute", "50000", "100000", "--json", "--seed", "3"]
    assert main(command) == 0
    first = capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out == first.out
    found = json.loads(first.out)
    assert found["schema_version"] == 2
    assert found["seed"] == 3
    assert found["at"] == [50_000, 100_000]
    assert found["refused"] == []
    assert found["best"] == "batch-2048"
    assert [len(r["extrapolation"]) for r in found["recipes"]] == [2, 2]
    assert first.err == ""


def test_compare_draws(demo, capsys):
    assert main(["compare", "scalerl.jsonl", "batch-2048.jsonl", "--plot", "c.png", "--resamples", "200"]) == 0
    assert Path("c.png").stat().st_size > 10_000
    assert "drew c.png" in capsys.readouterr().err
    assert main(["compare", "scalerl.jsonl", "batch-2048.jsonl", "--plot", "c.png"]) == 2
    assert "c.png exists and is not written over" in capsys.readouterr().err
    assert main(["compare", "scalerl.jsonl", "batch-2048.jsonl", "--plot", "c.txt"]) == 2


def test_a_refused_run_leaves_the_others(demo, capsys):
    Path("one.csv").write_text("gpu_hours,pass_rate\n2000,0.4\n")
    assert main(["compare", "scalerl.jsonl", "one.csv", "batch-512.jsonl", "--json"]) == 3
    streams = capsys.readouterr()
    found = json.loads(streams.out)
    assert [r["recipe"] for r in found["recipes"]] == ["scalerl", "batch-512"]
    assert found["refused"][0]["run"] == "one"
    assert "1 evaluations are too few" in found["refused"][0]["error"]
    assert "rlscaling: error: one: " in streams.err


def test_too_few_runs_left(demo, capsys):
    Path("one.csv").write_text("gpu_hours,pass_rate\n2000,0.4\n")
    assert main(["compare", "scalerl.jsonl", "one.csv"]) == 3
    assert "1 of 2 runs could be fitted; a comparison needs two" in capsys.readouterr().err
    assert main(["compare", "scalerl.jsonl"]) == 3
    assert "only scalerl was given" in capsys.readouterr().err
    assert main(["compare", "scalerl.jsonl", "batch-512.jsonl", "--max-compute", "1900"]) == 3
    assert "are too few" in capsys.readouterr().err


def test_saved_fits_are_compared(demo, capsys):
    save_fit(fit_trace(datasets.load_demo()["scalerl"]), "fit.json")
    assert main(["compare", "fit.json", "batch-2048.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recipes"][0]["recipe"] == "scalerl"


def test_mixed_units_and_devices(demo, capsys):
    run = simulate(datasets.table1()["scalerl"], compute=C, rng=5)
    write_trace(Trace(C * 1e6, run.pass_rate, compute_unit="tokens"), demo / "tokens.jsonl")
    assert main(["compare", "scalerl.jsonl", "tokens.jsonl", "--min-compute", "1500"]) == 3
    assert "in GPU-hours, that of tokens in tokens" in capsys.readouterr().err
    for name, device in (("a", "GB200"), ("b", "H100")):
        again = simulate(datasets.table1()["scalerl"], compute=C, rng=ord(name))
        write_trace(Trace(C, again.pass_rate, metadata={"device": device}), demo / f"{name}.jsonl")
    assert main(["compare", "a.jsonl", "b.jsonl"]) == 3
    assert "a ran on GB200, b on H100" in capsys.readouterr().err
    factors = ["--device-factors", "GB200=1", "--device-factors", "H100=0.5", "--json"]
    assert main(["compare", "a.jsonl", "b.jsonl", *factors]) == 0
    recipes = json.loads(capsys.readouterr().out)["recipes"]
    assert recipes[1]["C_mid"] == pytest.approx(0.5 * recipes[0]["C_mid"], rel=0.2)
    assert main(["compare", "a.jsonl", "b.jsonl", "--device-factors", "H100"]) == 2
    assert "'H100' is not NAME=X, e.g. H100=0.45" in capsys.readouterr().err


def test_other_R0_is_asked_for(demo, capsys):
    assert main(["compare", "scalerl.jsonl", "batch-512.jsonl", "--own-R0"]) == 0
    assert "each run has its own R0" in capsys.readouterr().out


def test_runs_of_one_recipe_are_its_seeds(runs, capsys):
    paths = sorted(map(str, runs.glob("*.jsonl")))
    assert main(["compare", *paths, "--by", "recipe", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {r["recipe"]: r["n_seeds"] for r in found["recipes"]} == {"loo-fp32": 1, "loo-savg": 2, "scalerl": 2}
    assert found["seed_spread"]["dof"] == 2
    assert main(["compare", *paths]) == 0
    assert "scalerl-s0" in capsys.readouterr().out


def test_one_seed_twice_is_refused(runs, tmp_path, capsys):
    again = tmp_path / "again.jsonl"
    lines = (runs / "scalerl-s0.jsonl").read_text().splitlines()
    again.write_text("\n".join(lines[:60]) + "\n")
    assert main(["loo", str(runs / "scalerl-s0.jsonl"), str(again), str(runs / "loo-savg-s0.jsonl")]) == 2
    assert "both say recipe 'scalerl', seed 0" in capsys.readouterr().err


def test_loo_understands_the_trainers_recipes(runs, tmp_path, capsys):
    picture = tmp_path / "loo.png"
    assert main(["loo", *sorted(map(str, runs.glob("*.jsonl"))), "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("against scalerl: ")
    assert "sample average" in out
    assert "bf16 head" in out
    assert picture.stat().st_size > 10_000
    assert main(["loo", *sorted(map(str, runs.glob("*.jsonl"))), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert next(r["recipe"] for r in found["recipes"]) == "scalerl"
    assert found["reference"] == "scalerl"


def test_unknown_reference(demo, capsys):
    assert main(["loo", "scalerl.jsonl", "batch-512.jsonl", "--reference", "dapo"]) == 3
    assert "the reference 'dapo' is not among the recipes" in capsys.readouterr().err


def test_on_a_terminal_the_tables_are_rich(demo, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["compare", "scalerl.jsonl", "batch-512.jsonl", "--resamples", "200"]) == 0
    assert "─" in capsys.readouterr().out
