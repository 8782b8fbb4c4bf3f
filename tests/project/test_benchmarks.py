"""Benchmarks that cannot run here are rehearsed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_gpu_check_passes_its_rehearsal(tmp_path: Path) -> None:
    """The whole script on emulated kernels, so that it is known to run before a GPU is at hand."""
    script = Path(__file__).parents[2] / "benchmarks" / "gpu_check.py"
    command = [sys.executable, "-W", "ignore", str(script), "--rehearse", "--json", str(tmp_path / "check.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "check.json").read_text())
    assert len(found["checks"]) > 60
    assert all(check["passed"] for check in found["checks"])
    assert {row["operation"].split()[0] for row in found["speed"]} == {"copy", "row", "sample", "policy"}
