"""``rlscaling backtest``: text, picture, JSON, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.command_line import SCALERL_RUN
from rlscaling import save_fit
from rlscaling.cli import main
from rlscaling.fitting.fit import fit_trace


def test_backtest_prints_draws_and_writes_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = log.with_name("b.png")
    assert main(["backtest", str(log), "--cutoffs", "8000", "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("[run] on this run a forecast to 2x (combined) has been off by")
    assert picture.stat().st_size > 10_000
    assert main(["backtest", str(log), "--cutoffs", "8000", "--methods", "sigmoid", "last-value", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 2
    assert {score["method"] for score in found["scores"]} == {"sigmoid", "last-value"}


def test_backtest_refuses_a_saved_fit(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = save_fit(fit_trace(SCALERL_RUN), log.with_name("fit.json"))
    assert main(["backtest", str(saved)]) == 3
    assert "a saved fit holds no trace" in capsys.readouterr().err


def test_runs_are_pooled_or_refused(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast = ["--cutoffs", "8000", "--methods", "sigmoid", "last-value"]
    assert main(["backtest", str(log), "--pool", "--json", *fast]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (len(found["runs"]), found["learned_prior"], found["refused"]) == (1, False, {})
    assert main(["backtest", str(log), "--pool", "--plot", str(log.with_name("p.png")), *fast]) == 2
    assert "leave out --pool" in capsys.readouterr().err
    assert main(["backtest", str(log), "--leave-one-out", *fast]) == 3
    assert "a prior takes 3" in capsys.readouterr().err
