"""verl's file logger: ``{"step": s, "data": {metric: value}}`` a line, 75 metrics wide, of which a dozen are read."""

from __future__ import annotations

import dataclasses
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
SCORED = b'"val-'
SAMPLED = 3  # lines from whose metrics those of the others are known, of training and of evaluation each

LIKELY = (
    *VERL.scores, *VERL.step, *VERL.seconds, *VERL.testing, *VERL.tokens, *VERL.rate,
    *(pattern for _, pattern in VERL.columns),
)  # fmt: skip


def matches(path: Path, data: bytes) -> bool:
    """Return whether the first line is one of this logger."""
    return START.match(data[:4096]) is not None


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    content = data
    data, notes = whole_lines(data, path.name)
    try:
        keys = _keys(data)
        columns = _Columns(path, data, keys)
        n_rows = len(columns.load([STEP])[STEP])
    except ValueError:  # a broken line, a NaN, a number as text: slower, and line by line
        return [dataclasses.replace(_line_by_line(path, data, notes), content=content)]
    return [
        Log(
            path.name, NAME, n_rows, (STEP, *keys), columns.load, files=(path,), content=content,
            notes=notes,
        )
    ]  # fmt: skip


def whole_lines(data: bytes, source: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the lines without a last one that a kill cut short, and a note on it."""
    end = data.rfind(b"\n") + 1
    tail = data[end:]
    if not tail or tail.isspace() or parsed(tail) is not None:
        return data, ()
    return data[:end], (f"The last line of {source} was cut short ({len(tail)} bytes) and was left out.",)


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object on a line, or None."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _keys(data: bytes) -> tuple[str, ...]:
    """Return the metrics of the first lines and of the last ones, of training and of evaluation."""
    seen: dict[str, None] = {}
    at = 0
    for _ in range(SAMPLED):
        at = _line(data, at, seen)
    for _ in range(SAMPLED):
        scored = data.find(SCORED, at)
        at = _line(data, scored, seen) if scored >= 0 else len(data)
    for last in (data.rfind(SCORED), data.rfind(b"\n", 0, len(data) - 1) + 1):
        _line(data, last, seen)
    return tuple(seen)


def _line(data: bytes, at: int, seen: dict[str, None]) -> int:
    """Note the metrics of the line around a place, and return where the next one begins."""
    if not 0 <= at < len(data):
        return len(data)
    begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
    end = len(data) if end < 0 else end
    line = data[begin:end]
    if line and not line.isspace():
        row = json.loads(line)
        if not isinstance(row, dict) or not isinstance(row.get("data"), dict):
            raise ValueError("no object of step and data")
        seen.update(dict.fromkeys(row["data"]))
    return end + 1


class _Columns:
    """Columns of the file, those likely to be asked for parsed in one go."""

    def __init__(self, path: Path, data: bytes, keys: tuple[str, ...]) -> None:
        self.path, self.data = path, data
        self.loaded: dict[str, FloatArray] = {}
        self.likely = find_all(LIKELY, keys)

    def load(self, wanted: Sequence[str]) -> dict[str, FloatArray]:
        missing = [key for key in wanted if key not in self.loaded]
        if missing:
            fields = list(dict.fromkeys([*missing, *([] if self.loaded else self.likely)]))
            try:
                self.loaded |= self._parse([key for key in fields if key != STEP])
            except ValueError:
                if not self.loaded:
                    raise
                self.loaded |= _line_by_line(self.path, self.data, ()).load(missing)  # text among the numbers
        return {key: self.loaded[key] for key in wanted}

    def _parse(self, keys: Sequence[str]) -> dict[str, FloatArray]:
        import pyarrow as pa
        import pyarrow.json as pj

        inner = pa.struct([(key, pa.float64()) for key in keys])
        schema = pa.schema([("step", pa.float64()), ("data", inner)])
        parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=False)
        read = pj.ReadOptions(use_threads=False, block_size=1 << 22)
        try:
            table = pj.read_json(pa.BufferReader(self.data), read_options=read, parse_options=parse)
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
    return builder.log(files=(path,), notes=notes)
