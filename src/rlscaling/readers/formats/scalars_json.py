"""Scalars in one JSON object, ``{tag: {"step": value}}``, into which NeMo-RL's tests merge TensorBoard logs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.logs.log import STEP, Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "scalars in JSON"
START = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.){1,400}"\s*:\s*\{\s*"\d{1,12}"\s*:')


def matches(path: Path, data: bytes) -> bool:
    """Return whether the first key holds an object whose first key is a step."""
    return START.match(data[:4096].removeprefix(b"\xef\xbb\xbf")) is not None


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    try:
        tags = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path.name} is not readable as JSON ({error}); repair it, or copy it again") from None
    rows: dict[int, dict[str, Any]] = {}
    left_out = 0
    for tag, points in tags.items():
        if not isinstance(points, dict) or not all(re.fullmatch(r"\d{1,15}", step) for step in points):
            left_out += 1
            continue
        for step, value in points.items():
            rows.setdefault(int(step), {STEP: int(step)})[tag] = value
    builder = LogBuilder(path.name, NAME)
    for _, row in sorted(rows.items()):
        builder.add(row)
    notes = (f"{left_out} keys of {path.name} hold no values by step and were left out.",) if left_out else ()
    return [builder.log(files=(path,), content=data, notes=notes)]
