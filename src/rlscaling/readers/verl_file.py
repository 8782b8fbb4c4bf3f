"""verl's file logger: ``{"step": s, "data": {metric: value}}`` a line, 75 metrics wide, of which a dozen are read."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.schema import FloatArray

from .arrow import parsed_lines
from .frameworks import VERL, find_all
from .log import STEP, Log, LogBuilder, cut_short, flatten
from .options import ReadOptions

NAME = "verl file logger"
SCORE, SAMPLED = b'"val', 6  # how names of scores begin; lines whose metrics are looked at beside
LIKELY = (
    *VERL.scores, *VERL.step, *VERL.seconds, *VERL.testing, *VERL.tokens, *VERL.rate, VERL.training or "",
    *(pattern for _, pattern in VERL.columns),
)  # fmt: skip
START = re.compile(rb'\s*\{\s*"step"\s*:\s*-?\d+\s*,\s*"data"\s*:\s*\{')


def matches(path: Path, data: bytes) -> bool:
    """Return whether the first line is one of this logger."""
    return START.match(data[:4096]) is not None


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    whole, notes = whole_lines(data, path.name)
    try:
        keys = _keys(whole)
        if options.metric is not None or not find_all(VERL.seconds, keys):  # all lines are asked
            return [dataclasses.replace(_all_columns(path, whole, notes), content=data)]
        likely = find_all(LIKELY, keys)
        columns = parsed_lines(whole, within="data", beside={"step": STEP}, only=likely)
    except ValueError:  # a broken line, a NaN, metrics within metrics: slower, and line by line
        return [dataclasses.replace(_line_by_line(path, whole, notes), content=data)]

    def load(wanted: Sequence[str]) -> dict[str, FloatArray]:
        if set(wanted) <= {STEP, *likely}:
            return columns.numbers(wanted)
        return _all_columns(path, whole, notes).load(wanted)

    found = tuple(key for key in (STEP, *keys) if key not in likely or columns.holds_numbers(key))
    return [Log(path.name, NAME, columns.n_rows, found, load, files=(path,), content=data, notes=notes)]


def _keys(data: bytes) -> tuple[str, ...]:
    """Return the metrics: those of lines all over the file, and every score that any line has.

    Raises
    ------
    ValueError
        For a line that is no object of step and data, or metrics that are no numbers.
    """
    places = [len(data) * k // SAMPLED for k in range(SAMPLED)]
    scores: dict[bytes, int] = {}
    at = data.find(SCORE)
    while at >= 0:
        end = data.find(b'"', at + 1)
        if data[at:end] not in scores:
            scores[data[at:end]] = at
            places.append(at)
        at = data.find(SCORE, end)
    places.append(len(data) - 2)
    seen: dict[str, None] = {}
    for line in dict.fromkeys(_line(data, place) for place in sorted(places)):
        row = json.loads(line)
        values = row["data"] if isinstance(row, dict) and isinstance(row.get("data"), dict) else None
        if values is None or not all(isinstance(v, int | float) and math.isfinite(v) for v in values.values()):
            raise ValueError("no numbers by step and data")
        seen.update(dict.fromkeys(values))
    return tuple(seen)


def _line(data: bytes, place: int) -> bytes:
    """Return the line around a place."""
    end = data.find(b"\n", place)
    return data[data.rfind(b"\n", 0, place) + 1 : end if end >= 0 else len(data)]


def _all_columns(path: Path, data: bytes, notes: tuple[str, ...]) -> Log:
    """Return the log with every metric, for one that is asked for beside the usual ones."""
    try:
        columns = parsed_lines(data, within="data", beside={"step": STEP})
    except ValueError:
        return _line_by_line(path, data, notes)
    keys = tuple(filter(columns.holds_numbers, columns))
    return Log(path.name, NAME, columns.n_rows, keys, columns.numbers, files=(path,), notes=notes)


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
