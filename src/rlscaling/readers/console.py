"""What trainers print: verl's ``step:12 - key:value`` lines, dicts as Python shows them, prime-rl and OpenRLHF lines.

Lines may carry colours and a prefix of Ray, stand between the carriage returns of a progress bar, or be pasted into a
document. Values are picked out by patterns; nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError

from .log import STEP, Log, LogBuilder
from .options import ReadOptions
from .trl_state import evaluation_set

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
_PRIME = re.compile(r"\bStep (\d{1,12}) \| (?:Time:? )?([\d.]+)s? \|(.*)")
_PRIME_EVAL = re.compile(rf"Evaluated (\S+) \(Step (\d{{1,12}})\).*\| Reward:? ({_NUMBER})")
_PRIME_REWARD = re.compile(rf"Reward:? ({_NUMBER})")
_PRIME_CUT = re.compile(r"Truncation ([\d.]+)%")

_KNOWN = re.compile(
    rb"(?:^|[\s)\"'])step:\d+ - \S+:"
    rb"|\{'(?:loss|eval_[^']+|reward|rewards/[^']+|num_tokens|step_time|completions/[^']+)': "
    rb"|Global step \d+: \{|eval_metrics: \{|\bStep \d+ \| (?:Time:? )?[\d.]+s? \|",
    re.MULTILINE,
)


def matches(path: Path, data: bytes) -> bool:
    """Return whether a line of the text is one that a trainer prints."""
    return path.is_file() and b"\0" not in data[:4096] and _KNOWN.search(data) is not None


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the text."""
    builder = LogBuilder(path.name, NAME)
    text = _COLOUR.sub("", data.decode("utf-8", "replace"))
    progress: int | None = None
    long = 0
    for line in re.split(r"[\r\n]+", text):
        if len(line) > MAX_LINE:
            long += 1
            continue
        if shown := _PROGRESS.search(line):
            progress = int(shown[1])
        for row in _rows(line, progress):
            builder.add(row, domain=evaluation_set(row))
    if not builder.n_rows:
        raise TraceError(f"{path.name} holds no metrics that a trainer printed; give its JSON, W&B or TensorBoard log")
    notes = [f"Read from printed lines of {path.name}, rounded as they were printed."]
    if long:
        notes.append(f"{long} lines of {path.name} are longer than {MAX_LINE:,} characters and were left out.")
    return [builder.log(files=(path,), notes=tuple(notes))]


def _rows(line: str, progress: int | None) -> Iterator[dict[str, Any]]:
    """Yield the metrics on a line."""
    if found := _VERL.search(line):
        yield {STEP: int(found[1]), **_pairs(found[2])}
    elif found := _OPENRLHF.search(line):
        yield {"train/global_step": int(found[1]), **_prefixed(_items(found[2]), "train/")}
    elif found := _OPENRLHF_EVAL.search(line):
        yield {"eval/global_step": int(found[2]), **_prefixed(_items(found[3]), "eval/")}
    elif found := _PRIME_EVAL.search(line):
        yield {"step": int(found[2]), f"eval/{found[1]}/reward": found[3]}
    elif found := _PRIME.search(line):
        yield _prime(found)
    elif found := _DICT.search(line):
        row = _items(found[0])
        if row:
            yield row if progress is None or "step" in row else {"step": progress, **row}


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


def _prime(found: re.Match[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"step": int(found[1]), "console/seconds": found[2]}
    if reward := _PRIME_REWARD.search(found[3]):
        row["reward/mean"] = reward[1]
    if cut := _PRIME_CUT.search(found[3]):
        row["is_truncated/mean"] = float(cut[1]) / 100
    return row
