"""Tests of `rlscaling/batch/sources.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from helpers.fit_tables import FEW, SMALL
from rlscaling import fit_many, fit_trace, save_fit
from rlscaling.cli import main
from rlscaling.datasets import load_demo
from rlscaling.readers.options import ReadOptions
from rlscaling.traces.trace_files import write_trace


def test_fits_that_were_saved_are_taken_as_they_are(tmp_path: Path):
    fit = replace(fit_trace(FEW["run00"]), name="saved")
    save_fit(fit, tmp_path / "saved.json")
    (given,), (read,) = fit_many([fit], **SMALL).rows, fit_many(tmp_path / "saved.json", **SMALL).rows
    assert given == read
    assert given["A"] == fit.A


def test_paths_are_read_with_the_options_of_reading(tmp_path: Path):
    for name in ("run00", "run02"):
        trace = FEW[name]
        frame = pd.DataFrame({"gpu_hours": trace.compute, "acc": 100 * trace.pass_rate})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "broken.csv").write_text("no numbers")
    read = {"compute_column": "gpu_hours", "pass_rate_column": "acc", "scale": "percent"}
    found = fit_many(tmp_path / "*.csv", read=read, **SMALL)
    assert [row["run"] for row in found.rows] == ["broken", "run00", "run02"]
    assert list(found.refused) == ["broken"]
    assert found.rows[2]["A"] == pytest.approx(fit_trace(FEW["run02"]).A, abs=1e-9)
    assert fit_many(tmp_path / "*.csv", read=ReadOptions(**read), **SMALL).rows == found.rows


def test_two_stars_take_the_logs_below_and_leave_what_lies_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What a trainer leaves beside its trace is no run: the first command of docs/batch.md."""
    for name, run in list(load_demo().items())[:2]:
        folder = tmp_path / "runs" / name
        (folder / "checkpoint-6").mkdir(parents=True)
        write_trace(run, folder / "trace.jsonl")
        (folder / "trace.discarded.jsonl").write_text("{}\n")
        (folder / "checkpoint.pt").write_bytes(b"PK\x03\x04")
        (folder / "checkpoint-6" / "__0_0.distcp").write_bytes(b"x")
    out = tmp_path / "fits.parquet"
    assert main(["fit", str(tmp_path / "runs" / "**"), "--resamples", "50", "--out", str(out)]) == 0
    assert fit_many(str(tmp_path / "runs" / "**"), n_resamples=50).refused == {}
    assert "2 runs" in capsys.readouterr().out
