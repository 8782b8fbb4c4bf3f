"""What trainers print: verl's ``step:12 - key:value`` lines, dicts as Python shows them, and lines of others.

Lines may contain colours and Ray's prefix, may stand between the carriage returns of a progress bar, or may have been
pasted into a document. Values are extracted by patterns; nothing is evaluated.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.formats.console_nemo import MARK, PATTERN, NemoLines
from rlscaling.readers.formats.trainer_state import evaluation_set
from rlscaling.readers.logs.log import STEP, Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "console"
MAX_LINE = 200_000

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_VERL = re.compile(r"(?:^|[\s)\"'])step:(\d{1,12}) - (.+)")
_PAIR = re.compile(rf"(?P<key>[^\s:][^:]*(?::[^\s:]+)*?):\s*(?:np\.\w+\()?(?P<value>{_NUMBER})\)?")
_ITEM = re.compile(rf"['\"]([^'\"]{{1,200}})['\"]:\s*(['\"]?)(?:np\.\w+\()?({_NUMBER})\)?\2")
_DICT = re.compile(r"\{['\"][^{}]*\}")
_PROGRESS = re.compile(r"\b(\d{1,12})/\d{1,12} \[")
_OPENRLHF = re.compile(r"Global step (\d{1,12}): (\{.*\})")
_OPENRLHF_EVAL = re.compile(r"Evaluation completed in (\S+), global_step (\d{1,12}), eval_metrics: (\{.*\})")
# prime-rl: orchestrator/metrics.py, evaluator.py; the trainer prints lines of its own, which name their loss
_DURATION = r"\d[\d.]*(?:ms|[dhms])?(?: \d+[hms])?"
_PRIME = re.compile(rf"\bStep (\d{{1,12}}) \| +(?:Time: )?({_DURATION}) \|(.*)")
_PRIME_EVAL = re.compile(
    rf"\bEvaluated (\S+)(?: \(Step (\d{{1,12}})\))?(?: \| Policy v(\d{{1,12}}))? \|.*\| Reward:? ({_NUMBER})"
)
_PRIME_EVAL_2025 = re.compile(rf"\bEvaluated (\S+) in [\d.]+s \(Avg@(\d{{1,6}})=({_NUMBER})")
_PRIME_EVAL_STEP = re.compile(r"Running evals for (?:checkpoint|interval) step (\d{1,12})")
_PRIME_REWARD = re.compile(rf"Reward:? ({_NUMBER})")
_PRIME_CUT = re.compile(r"Truncation ([\d.]+)%")

_KNOWN = (
    (b"step:", re.compile(rb"(?:^|[\s)\"'])step:\d+ - \S+:", re.MULTILINE)),
    (b"{'", re.compile(
        rb"\{'(?:loss|eval_[^']+|reward|rewards/[^']+|num_tokens|step_time|completions/[^']+)': "
    )),
    (b"Global step ", re.compile(rb"Global step \d+: \{")),
    (b"eval_metrics: {", re.compile(rb"eval_metrics: \{")),
    (b"Step ", re.compile(rb"\bStep \d+ \| +(?:Time: )?\d[\w. ]* \|")),
    (MARK, PATTERN),
)  # fmt: skip
"""Text that lines of a trainer contain, and the pattern that is tried only where that text occurs, which is faster."""


def matches(path: Path, data: bytes) -> bool:
    """Return whether any line of the text is one that a trainer prints."""
    if b"\0" in data[:4096] or not path.is_file():
        return False
    return any(mark in data and pattern.search(data) is not None for mark, pattern in _KNOWN)


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the text."""
    builder, lines = LogBuilder(path.name, NAME), _Lines()
    nemo = NemoLines() if MARK in data else None
    text = _COLOUR.sub("", data.decode("utf-8", "replace"))
    long = 0
    for line in re.split(r"[\r\n]+", text):
        if len(line) > MAX_LINE:
            long += 1
            continue
        row = nemo.feed(line) if nemo is not None else lines.row(line)
        if row:
            builder.add(row, domain=evaluation_set(row))
    if nemo is not None and (row := nemo.close()):
        builder.add(row)
    if not builder.n_rows:
        raise TraceError(f"{path.name} holds no metrics that a trainer printed; give its JSON, W&B or TensorBoard log")
    notes = [f"Read from printed lines of {path.name}, rounded as they were printed."]
    if long:
        notes.append(f"{long} lines of {path.name} are longer than {MAX_LINE:,} characters and were left out.")
    return [builder.log(files=(path,), notes=tuple(notes))]


class _Lines:
    """Metrics line by line; a line without a step has that of the last progress bar or begun evaluation."""

    def __init__(self) -> None:
        self.progress: int | None = None
        self.evaluated: int | None = None

    def row(self, line: str) -> dict[str, Any]:
        """Return the metrics on a line."""
        if match := _PROGRESS.search(line):
            self.progress = int(match[1])
        if match := _PRIME_EVAL_STEP.search(line):
            self.evaluated = int(match[1])
        if match := _VERL.search(line):
            return {STEP: int(match[1]), **_pairs(match[2])}
        if match := _OPENRLHF.search(line):
            return {"train/global_step": int(match[1]), **_prefixed(_items(match[2]), "train/")}
        if match := _OPENRLHF_EVAL.search(line):
            return {"eval/global_step": int(match[2]), **_prefixed(_items(match[3]), "eval/")}
        if match := _PRIME_EVAL.search(line):
            return {"step": match[2] or match[3], f"eval/{match[1]}/reward": match[4]}
        if match := _PRIME_EVAL_2025.search(line):
            return {"step": self.evaluated, f"eval/{match[1]}/avg@{match[2]}": match[3]}
        if match := _PRIME.search(line):
            return _prime(match)
        match = _DICT.search(line)
        row: dict[str, Any] = _items(match[0]) if match else {}
        return {"step": self.progress, **row} if row and self.progress is not None else row


def _pairs(text: str) -> dict[str, str]:
    """Return the metrics of ``key:value - key:value``; a key may hold colons, a value may be numpy's."""
    row = {}
    for part in text.split(" - "):
        if match := _PAIR.fullmatch(part.strip().rstrip("'\"")):
            row[match["key"]] = match["value"]
    return row


def _items(text: str) -> dict[str, str]:
    """Return the numbers of a dict as Python prints it, those in quotes too."""
    return {key: value for key, _, value in _ITEM.findall(text)}


def _prefixed(row: dict[str, str], prefix: str) -> dict[str, str]:
    return {key if key.startswith(prefix) else prefix + key: value for key, value in row.items()}


def _prime(line: re.Match[str]) -> dict[str, Any]:
    reward = _PRIME_REWARD.search(line[3])
    if reward is None:
        return {"step": int(line[1]), "console/trainer_seconds": _seconds(line[2])}
    row: dict[str, Any] = {"step": int(line[1]), "console/seconds": _seconds(line[2]), "reward/mean": reward[1]}
    if cut := _PRIME_CUT.search(line[3]):
        row["is_truncated/mean"] = float(cut[1]) / 100
    return row


def _seconds(text: str) -> float:
    """Return the seconds of a duration as prime-rl prints it.

    Examples
    --------
    >>> _seconds("36.20s"), _seconds("2m 5s"), _seconds("1h"), _seconds("250ms")
    (36.2, 125.0, 3600.0, 0.25)
    """
    units = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0, "ms": 1e-3}
    return sum(float(amount) * units[unit] for amount, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|[dhms]?)", text))
