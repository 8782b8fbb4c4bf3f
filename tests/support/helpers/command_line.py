"""Calls of the command, in this process and in one of its own, and the keys of its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import rlscaling
from rlscaling import datasets
from rlscaling.cli import main

KEYS = {
    "run", "verdict", "reason", "R0", "R0_source", "A", "B", "C_mid", "ci", "ci_new_run", "standard_error",
    "half_width_68", "confidence_level", "n_points", "compute_range", "compute_unit", "min_compute", "max_compute",
    "ssr", "at_bound", "compute_needed", "at_twice", "extrapolation", "reach", "notes", "scheme", "n_resamples",
    "seed_sd",
}  # fmt: skip
HEAD = {"schema_version", "version", "seed"}
ANSI = "\x1b["


class Said:
    """What one call of the command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        value = json.loads(self.out, parse_constant=refuse)
        assert isinstance(value, dict)
        return value


SOURCE = str(Path(rlscaling.__file__).resolve().parents[1])


def command(*argv: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    options.setdefault("stdout", subprocess.PIPE)
    options["env"] = {**os.environ, "PYTHONPATH": SOURCE, **(env or {})}
    words = [sys.executable, "-W", "error", "-m", "rlscaling", *argv]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **options)


def run_command(capsys, *words):
    code = main([str(word) for word in words])
    out = capsys.readouterr()
    return code, out.out, out.err


SCALERL_RUN = datasets.load_demo()["scalerl"]
