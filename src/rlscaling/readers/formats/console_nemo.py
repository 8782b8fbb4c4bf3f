"""What NeMo-RL prints: a banner for each step, with one line per metric below it.

From its ``algorithms/grpo.py`` of 2025 and 2026. Banners number the steps of an epoch, ``Step 3/58`` under
``Epoch 2/10``; a validation names the step of the run, which counts where the two differ.
"""

from __future__ import annotations

import re
from typing import Any

MARK = b"Total step time: "
PATTERN = re.compile(rb"\W Total step time: \d[\d.]*s")

_NUMBER = r"(-?\d+\.?\d*(?:[eE][-+]?\d+)?|nan)"
_BANNER = re.compile(r"={5,} (Epoch|Step) (\d{1,9})/(\d{1,12}) ={5,}")
_VALIDATION = re.compile(r"Starting validation at step (\d{1,12})")
_METRIC = re.compile(rf"(?:•|-) ([A-Z][^:]{{2,60}}): {_NUMBER}(?:s| tokens)?\s*$")
_NAMES = {
    "Accuracy": "validation/accuracy",
    "Average response length": "validation/avg_length",
    "Total validation time": "timing/validation/total_validation_time",
    "Avg Reward": "train/reward",
    "Loss": "train/loss",
    "Mean Generation Length": "train/mean_gen_tokens_per_sample",
    "Total step time": "timing/train/total_step_time",
    "E2E (Tokens/sec/gpu)": "console/tokens_per_second_per_gpu",
    "E2E (Tokens/sec)": "console/tokens_per_second",
}


class NemoLines:
    """Collects the lines between two banners into a row."""

    def __init__(self) -> None:
        self._row: dict[str, Any] = {}
        self._epoch, self._step, self._ahead = 1, 0, 0

    def feed(self, line: str) -> dict[str, Any]:
        """Return the row that this line completes, or an empty one."""
        done: dict[str, Any] = {}
        if banner := _BANNER.search(line):
            done = self.close()
            if banner[1] == "Epoch":
                self._epoch = int(banner[2])
            else:
                self._step = (self._epoch - 1) * int(banner[3]) + int(banner[2])
                self._row["step"] = self._step + self._ahead
        elif began := _VALIDATION.search(line):
            self._row["step"] = int(began[1])
            self._ahead = int(began[1]) - self._step
        elif (metric := _METRIC.search(line)) and metric[1] in _NAMES:
            self._row[_NAMES[metric[1]]] = float(metric[2])
        return done

    def close(self) -> dict[str, Any]:
        """Return the row so far, empty if no metric was printed, and begin another."""
        row, self._row = self._row, {}
        if len(row) - ("step" in row) == 0:
            return {}
        rate, seconds = row.get("console/tokens_per_second"), row.get("timing/train/total_step_time")
        if rate is not None and seconds is not None:
            row["console/tokens"] = rate * seconds
        return row
