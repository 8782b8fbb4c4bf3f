"""Tests of `rlscaling/traces/schema.py`."""

from __future__ import annotations

from pathlib import Path

from rlscaling.readers.read import read_trace
from rlscaling.traces.schema import COLUMNS, VERL_NAMES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_documented_columns_are_the_schema():
    lines = [line for line in (DOCS / "trainer" / "metrics.md").read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert {name.strip("`"): (unit, meaning) for _, name, unit, meaning, *_ in cells} == dict(COLUMNS)
    assert len(lines) == len(COLUMNS)
    verl = {name: f"`{metric}`" + (f" ({how})" if how else "") for name, (metric, how) in VERL_NAMES.items()}
    assert {name.strip("`"): metric for _, name, _, _, metric, _ in cells if metric} == verl


def test_the_documented_example_is_a_trace(tmp_path):
    text = (DOCS / "traces.md").read_text().split("```json\n")[1].split("```")[0]
    (tmp_path / "trace.jsonl").write_text(text)
    t = read_trace(tmp_path / "trace.jsonl")
    assert t.compute.tolist() == [0, 216.2]
    assert set(t.columns) <= set(COLUMNS)
