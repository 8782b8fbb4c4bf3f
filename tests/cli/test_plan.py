"""``rlscaling plan``: a batch, and a budget split over its runs."""

from __future__ import annotations

import argparse
import inspect
import json
from pathlib import Path

import pytest

from helpers.command_line import SCALERL_RUN
from rlscaling import datasets, plan, save_fit, write_trace
from rlscaling.cli import main
from rlscaling.cli.plan import add_arguments
from rlscaling.fitting.fit import fit_trace


def test_plan_of_a_batch_answers_the_others(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = log.with_name("short.jsonl")
    write_trace(SCALERL_RUN.up_to(2200.0), short)
    saved = save_fit(fit_trace(SCALERL_RUN, max_compute=5000), log.with_name("fit.json"))
    assert main(["plan", str(log), str(short), str(saved), "--json"]) == 3
    out = capsys.readouterr()
    first, second, third = json.loads(out.out)["runs"]
    assert first["reached"] is False, "not before 8 C_mid"
    assert "too few for a plan" in second["error"]
    assert third["ways"][0]["median"] > 5000
    assert "too few for a plan" in out.err


def test_plan_splits_a_budget_over_the_runs(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = log.with_name("other.jsonl")
    write_trace(datasets.load_demo()["batch-2048"].up_to(16_000), other)
    assert main(["plan", str(log), str(other), "--split", "10000", "--json"]) == 0
    split = json.loads(capsys.readouterr().out)["split"]
    assert split["at"] == 100_000
    assert sum(share["compute"] for share in split["shares"]) == pytest.approx(10_000)
    assert {share["recipe"] for share in split["shares"]} == {"run", "other"}
    assert main(["plan", str(log), str(other), "--split", "10000", "--compute", "20000"]) == 0
    assert capsys.readouterr().out.startswith("extend ")
    assert main(["plan", str(log), "--split", "10000"]) == 3
    assert "1 of 1 runs could be planned" in capsys.readouterr().err


def test_the_target_is_that_of_the_library() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert parser.get_default("target") == inspect.signature(plan).parameters["target_half_width"].default
