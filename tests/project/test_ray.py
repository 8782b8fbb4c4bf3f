"""Ray's joblib backend, for real: run by `nox -s cluster`, which installs Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.fit_tables import in_a_process
from helpers.worker_jobs import table

pytestmark = pytest.mark.slow


def test_ray_gives_the_same_bytes_with_one_thread_each(tmp_path: Path):
    pytest.importorskip("ray")
    table(tmp_path / "alone.parquet", 1)
    found = in_a_process("ray", tmp_path / "fits.parquet", strict=False)
    assert len(set(found["pids"])) == 2
    assert {n for threads in found["threads"] for n in threads} == {1}
    assert (tmp_path / "fits.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()
