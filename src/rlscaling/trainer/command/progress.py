"""The progress line of a run, rewritten in place; silent where the stream is no terminal."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

_SECONDS_BETWEEN = 0.2


class Progress:
    """Pass it to ``train`` as ``on_row``.

    Parameters
    ----------
    steps
        Steps of the run.
    stream
        Where the line goes, by default the standard error; a stream that is no terminal gets nothing.
    live
        Show the line; None: where the stream is a terminal.
    label
        What the line begins with.
    """

    def __init__(self, steps: int, stream: TextIO | None = None, *, live: bool | None = None, label: str = "") -> None:
        self.steps, self.label = steps, label
        self.stream = stream if stream is not None else sys.stderr
        self.live = self.stream.isatty() if live is None else live
        self._pass_rates: dict[str, float] = {}
        self._first: tuple[float, int, int] | None = None  # time, step and tokens when this process began
        self._shown = 0.0

    def __call__(self, row: dict[str, Any]) -> None:
        """Take a row of the trace."""
        if not self.live:
            return
        if row["kind"] == "eval":
            self._pass_rates[row["domain"]] = row["pass_rate"]
            return
        now = time.monotonic()
        if self._first is None:
            self._first = (now, row["step"], row["tokens_generated"])
        elif now - self._shown >= _SECONDS_BETWEEN or row["step"] == self.steps:
            self._shown = now
            self.stream.write(f"\r\x1b[K{self.line(row, now)}")
            self.stream.flush()

    def line(self, row: dict[str, Any], now: float) -> str:
        """Return the line: step, reward, held-out pass rate, speed, time left."""
        assert self._first is not None
        began, first_step, first_tokens = self._first
        seconds, done = max(now - began, 1e-9), row["step"] - first_step
        left = seconds / max(done, 1) * (self.steps - row["step"])
        speed = (row["tokens_generated"] - first_tokens) / seconds
        rates = " ".join(f"{rate:.3f}" for rate in self._pass_rates.values()) or "-"
        return (
            f"{self.label}step {row['step']}/{self.steps}  reward {row['reward_mean']:+.2f}  pass rate {rates}  "
            f"{speed:,.0f} tokens/s  {int(left) // 60}:{int(left) % 60:02} left"
        )

    def close(self) -> None:
        """End the line."""
        if self.live and self._shown:
            self.stream.write("\n")
