"""``rlscaling demo``: what it tells, compares and writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rlscaling import compare, datasets, fit_trace


def test_demo_tells_compares_and_writes(run: Any, here: Path) -> None:
    out = here / "rlscaling-demo"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "demo.png").write_text("old")
    said = run("demo")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("The first run is real: the 8B run of Figure 1 of arXiv 2510.13786")
    for text in (
        "\nothers are simulated, not real training: curves from its Table 1 ",
        "\n1. A real run, seen to 50,000 GPU-hours: what will it reach?\n",
        " [scalerl-8b]: ",
        "\ninside the forecast interval [0.6",
        "the 9 later evaluations, which the fit never saw.",
        "\n2. Two simulated recipes: which one for 100,000 GPU-hours?\n",
        "\nundecided: batch-2048 is most likely best at 100,000 GPU-hours",
        "batch-2048 overtakes scalerl at 3",
        "\n  rlscaling fit rlscaling-demo/scalerl-8b.jsonl --compute 100000",
    ):
        assert text in said.out, text
    assert len(said.out.splitlines()) < 60, "it stays short"
    assert sorted(file.name for file in out.iterdir()) == [
        "demo.json",
        "demo.png",
        "notes.txt",
        "report.html",
        "scalerl-8b.jsonl",
        "scalerl-moe.jsonl",
        "scalerl.jsonl",
    ]
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    first, early = re.findall(r"^  rlscaling (fit rlscaling-demo/.*?)(?:   \(.*)?$", said.out, flags=re.MULTILINE)
    assert run(*first.split()).code == 0
    assert run(*early.split()).out.startswith("ceiling-not-identified [scalerl-moe]")


def test_demo_json_holds_the_numbers(run: Any) -> None:
    said = run("demo", "--json", "--out", "there", "--seed", 1)
    value = said.json
    assert json.loads(Path("there/demo.json").read_text()) == value
    assert value["seed"] == 1
    early, comparison = value["early_forecast"], value["comparison"]
    assert early["ci"][0] < early["observed"] < early["ci"][1]
    assert (early["from_run"], early["compute"], early["n_later_evaluations"]) == ("scalerl-8b", 100_000, 9)
    assert early["extrapolation"][0]["pass_rate"] == early["forecast"]
    real = datasets.figure1()["scalerl-8b"]
    later = fit_trace(real, max_compute=50_000).predict(real.compute[-9:]) - real.pass_rate[-9:]
    assert early["mean_error"] == pytest.approx(later.mean(), abs=1e-6)
    traces = datasets.load_demo()
    fits = {name: fit_trace(traces[name]) for name in ("scalerl", "batch-2048")}
    assert comparison == compare(fits, compute=100_000, rng=1).to_dict()
    assert "Try next" in said.err


def test_demo_needs_a_folder(run: Any) -> None:
    Path("taken").write_text("")
    said = run("demo", "--out", "taken")
    assert said.code == 2
    assert "--out taken is a file; name a folder" in said.err
