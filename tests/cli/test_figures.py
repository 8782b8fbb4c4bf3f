"""Figures of a command: formats, several runs, none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


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
