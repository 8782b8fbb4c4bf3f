"""Tables of fits made in a process of their own, and the rows on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers.worker_jobs import some_runs
from rlscaling.batch.fit_table_writer import journal_of

JOBS = Path(__file__).with_name("worker_jobs.py")
FEW = dict(list(some_runs().items())[:4])  # the second is too short to be fitted
SMALL = {"n_resamples": 20}


def in_a_process(mode: str, out: Path, *, strict: bool = True) -> dict[str, Any]:
    command = [sys.executable, *(["-W", "error"] if strict else []), str(JOBS), mode, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def journalled(out: Path) -> list[str]:
    """The runs in the journal, in the order in which they came in; a torn last line is none."""
    rows = []
    for line in journal_of(out).read_text().splitlines()[1:]:
        try:
            rows += json.loads(line)["rows"]
        except ValueError:
            break
    return [row["run"] for row in rows]
