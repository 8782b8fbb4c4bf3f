"""``rlscaling demo``: what it tells, compares and writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import KEYS


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
