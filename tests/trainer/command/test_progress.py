"""The progress line, and none in a pipe."""

from __future__ import annotations

import io
from typing import Any

from rlscaling.trainer.command.progress import Progress


def test_progress_line_shows_reward_pass_rate_and_time_left() -> None:
    stream = io.StringIO()
    progress = Progress(10, stream, live=True)
    row: dict[str, Any] = {"kind": "train", "reward_mean": -0.5}
    progress({"kind": "eval", "domain": "sort", "pass_rate": 0.25})
    progress({**row, "step": 1, "tokens_generated": 100})
    progress({**row, "step": 10, "tokens_generated": 1000})
    progress.close()
    assert "step 10/10  reward -0.50  pass rate 0.250" in stream.getvalue()
    assert stream.getvalue().endswith("0:00 left\n")


def test_progress_is_quiet_when_piped() -> None:
    stream = io.StringIO()
    progress = Progress(10, stream)
    progress({"kind": "eval", "domain": "sort", "pass_rate": 0.25})
    progress.close()
    assert stream.getvalue() == ""
