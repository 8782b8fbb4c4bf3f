"""Names of data sets and their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.task_constants import parse_sources


def test_sources() -> None:
    assert parse_sources("", "data") == {}
    assert parse_sources("math=x/a.jsonl, b.parquet", "data") == {"math": Path("x/a.jsonl"), "b": Path("b.parquet")}
    with pytest.raises(TrainError, match="names the domain 'a' twice"):
        parse_sources("x/a.jsonl,y/a.jsonl", "data")
    with pytest.raises(TrainError, match="'7.jsonl' is no file with a name for its domain"):
        parse_sources("7.jsonl", "data")
    with pytest.raises(TrainError, match="'math=' is no file"):
        parse_sources("math=", "downstream")
