"""Tests of `rlscaling/cli/report.py`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from helpers.log_files import SCORE, verl_file, verl_rows
from helpers.report_pages import DEMO, SECTIONS, Page
from rlscaling import fit_trace, save_fit, write_trace
from rlscaling.cli import main


def test_the_command_compares_as_compare_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = {"recipe": "same", "seed": 1, "device": "H100"}
    for name, more in (("scalerl", {}), ("batch-512", {"device": "A100"})):
        trace = dataclasses.replace(DEMO[name], metadata={**DEMO[name].metadata, **header, **more})
        write_trace(trace, tmp_path / f"{name}.jsonl")
    out = str(tmp_path / "report.html")
    command = ["report", str(tmp_path / "*.jsonl"), "-o", out, "--resamples", "100", "--json", "--overwrite"]
    assert main([*command, "--by", "recipe"]) == 2
    assert "both say recipe 'same', seed 1" in capsys.readouterr().err
    assert main(command) == 0
    assert "--device-factor" in json.loads(capsys.readouterr().out)["not_compared"]
    assert main([*command, "--device-factors", "H100=1", "--device-factor", "A100=0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] == "scalerl"


def test_the_command_writes_a_page_with_receipts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("scalerl", "batch-512"):
        write_trace(DEMO[name], tmp_path / f"{name}.jsonl")
    (tmp_path / "broken.csv").write_text("no,numbers\na,b\n")
    rows = verl_rows(400, 8)
    for row in rows:
        if SCORE in row:
            row[SCORE] = 0.6 - 0.3 / (1 + (row.get("training/global_step", 0) / 100) ** 2)
    log = verl_file(tmp_path, rows, "log.jsonl")
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "*.*"), "-o", str(out), "--resamples", "100", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["bytes"] == out.stat().st_size
    assert set(found["verdicts"]) == {"scalerl", "batch-512", "log"}
    assert [one["run"] for one in found["refused"]] == ["broken"]
    page = Page(out.read_text())
    assert page.sections == SECTIONS
    assert any("sha256" in text for text in page.text)
    assert main(["report", str(log), "-o", str(out)]) == 2
    assert "exists and is not written over" in capsys.readouterr().err
    assert main(["report", str(log), "-o", str(tmp_path / "x.pdf")]) == 2
    fit = save_fit(fit_trace(DEMO["scalerl"]), tmp_path / "fit.json")
    assert main(["report", str(fit), "-o", str(out), "--overwrite", "--resamples", "100"]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {out}: 1 run, ")
