"""verl's file logger: ``{"step": s, "data": {metric: value}}`` a line, 75 metrics wide, of which a dozen are read."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError

from .arrow import parsed_lines
from .log import STEP, Log, LogBuilder, cut_short, flatten
from .options import ReadOptions

NAME = "verl file logger"
START = re.compile(rb'\s*\{\s*"step"\s*:\s*-?\d+\s*,\s*"data"\s*:\s*\{')


def matches(path: Path, data: bytes) -> bool:
    """Return whether the first line is one of this logger."""
    return START.match(data[:4096]) is not None


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    whole, notes = whole_lines(data, path.name)
    try:
        columns = parsed_lines(whole, within="data", beside={"step": STEP})
    except ValueError:  # a broken line, a NaN, metrics within metrics: slower, and line by line
        return [dataclasses.replace(_line_by_line(path, whole, notes), content=data)]
    keys = tuple(filter(columns.holds_numbers, columns))
    return [Log(path.name, NAME, columns.n_rows, keys, columns.numbers, files=(path,), content=data, notes=notes)]


def whole_lines(data: bytes, source: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the lines without a last one that a kill cut short, and a note on it."""
    end = data.rfind(b"\n") + 1
    tail = data[end:]
    if not tail or tail.isspace() or parsed(tail) is not None:
        return data, ()
    return data[:end], (cut_short(source, len(tail)),)


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object on a line, or None."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _line_by_line(path: Path, data: bytes, notes: tuple[str, ...]) -> Log:
    builder, broken = LogBuilder(path.name, NAME), 0
    for line in data.split(b"\n"):
        row = parsed(line) if line.strip() else {}
        if row is None or not isinstance(row.get("data", {}), dict):
            broken += 1
        elif row:
            builder.add({STEP: row.get("step"), **flatten(row.get("data", {}), joint="/")})
    if not builder.n_rows:
        raise TraceError(f"{path.name}: no line is an object with step and data; give a log of verl's file logger")
    if broken:
        notes += (f"{broken} lines of {path.name} are no objects of step and data, and were left out.",)
    return builder.log(files=(path,), notes=notes)
