"""verl's file logger: ``{"step": s, "data": {metric: value}}`` a line, 75 metrics wide, of which a dozen are read."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlscaling.errors import TraceError
from rlscaling.schema import FloatArray

from .frameworks import VERL, find_all
from .log import STEP, Log, LogBuilder, flatten
from .options import ReadOptions

NAME = "verl file logger"
START = re.compile(rb'\s*\{\s*"step"\s*:\s*-?\d+\s*,\s*"data"\s*:\s*\{')
SCORED = re.compile(rb'"(?:val|test|eval)')
SAMPLED = 32  # lines from whose keys the others' are known; lines with an evaluation are all looked at

LIKELY = (
    *VERL.scores, *VERL.step, *VERL.seconds, *VERL.testing, *VERL.tokens, *VERL.rate,
    *(pattern for _, pattern in VERL.columns),
)  # fmt: skip


def matches(path: Path, data: bytes) -> bool:
    """Return whether the first line is one of this logger."""
    return START.match(data[:4096]) is not None


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    data, notes = whole_lines(data, path.name)
    try:
        keys = _keys(data)
        columns = _Columns(data, keys)
        n_rows = len(columns.load([STEP])[STEP])
    except ValueError:  # a broken line, a NaN, a number as text: slower, and line by line
        return [_line_by_line(path, data, notes)]
    return [Log(path.name, NAME, n_rows, (STEP, *keys), columns.load, run=path.stem, files=(path,), notes=notes)]


def whole_lines(data: bytes, source: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the lines without a last one that a kill cut short, and a note on it."""
    head, newline, tail = data.rpartition(b"\n")
    if not tail.strip() or parsed(tail) is not None:
        return data, ()
    note = f"The last line of {source} was cut short ({len(tail)} bytes) and was left out."
    return head + newline, (note,)


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object on a line, or None."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _keys(data: bytes) -> tuple[str, ...]:
    """Return the metrics of the first lines, of the last, and of every line with an evaluation."""
    seen: dict[str, None] = {}
    ends, start = 0, 0
    while start < len(data) and ends < SAMPLED:
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        _note_keys(data[start:end], seen)
        start, ends = end + 1, ends + 1
    while start < len(data):
        found = SCORED.search(data, start)
        if found is None:
            break
        begin = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.end())
        end = len(data) if end < 0 else end
        _note_keys(data[begin:end], seen)
        start = end + 1
    _note_keys(data.rstrip(b"\n").rpartition(b"\n")[2], seen)
    return tuple(seen)


def _note_keys(line: bytes, seen: dict[str, None]) -> None:
    if line.strip():
        row = json.loads(line)
        seen.update(dict.fromkeys(key for key, value in row["data"].items() if isinstance(value, int | float)))


class _Columns:
    """Columns of the file, those likely to be asked for parsed in one go."""

    def __init__(self, data: bytes, keys: Sequence[str]) -> None:
        self.data = data
        self.loaded: dict[str, FloatArray] = {}
        self.likely = find_all(LIKELY, keys)

    def load(self, wanted: Sequence[str]) -> dict[str, FloatArray]:
        missing = [key for key in wanted if key not in self.loaded]
        if missing:
            fields = list(dict.fromkeys([*missing, *([] if self.loaded else self.likely)]))
            self.loaded |= self._parse([key for key in fields if key != STEP])
        return {key: self.loaded[key] for key in wanted}

    def _parse(self, keys: Sequence[str]) -> dict[str, FloatArray]:
        import pyarrow as pa
        import pyarrow.json as pj

        inner = pa.struct([(key, pa.float64()) for key in keys])
        schema = pa.schema([("step", pa.float64()), ("data", inner)])
        parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=False)
        read = pj.ReadOptions(use_threads=False, block_size=1 << 22)
        try:
            table = pj.read_json(io.BytesIO(self.data), read_options=read, parse_options=parse)
        except pa.ArrowException as error:
            raise ValueError(str(error)) from None
        found = {STEP: table["step"]}
        found |= zip(keys, table["data"].combine_chunks().flatten() if keys else (), strict=True)
        return {key: np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
                for key, column in found.items()}  # fmt: skip


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
    return builder.log(run=path.stem, files=(path,), notes=notes)
