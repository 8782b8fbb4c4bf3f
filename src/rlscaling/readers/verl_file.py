"""verl's file logger: ``{"step": s, "data": {metric: value}}`` a line, 75 metrics wide, of which a dozen are read."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlscaling.errors import TraceError
from rlscaling.schema import FloatArray

from .log import STEP, Log, LogBuilder, as_number, cut_short, flatten
from .options import ReadOptions

NAME = "verl file logger"
START = re.compile(rb'\s*\{\s*"step"\s*:\s*-?\d+\s*,\s*"data"\s*:\s*\{')
BLOCK = 1 << 22


def matches(path: Path, data: bytes) -> bool:
    """Return whether the first line is one of this logger."""
    return START.match(data[:4096]) is not None


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    whole, notes = whole_lines(data, path.name)
    try:
        columns = _Columns(path, whole)
    except ValueError:  # a broken line, a NaN, a number as text: slower, and line by line
        return [dataclasses.replace(_line_by_line(path, whole, notes), content=data)]
    found = Log(path.name, NAME, columns.n_rows, columns.keys, columns.load, files=(path,), content=data, notes=notes)
    return [found]


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


class _Columns:
    """The metrics of the file, every one on every line, as pyarrow finds them in one go."""

    def __init__(self, path: Path, data: bytes) -> None:
        import pyarrow as pa
        import pyarrow.json as pj

        self.path, self.data = path, data
        read = pj.ReadOptions(use_threads=False, block_size=BLOCK)
        parse = pj.ParseOptions(newlines_in_values=False)
        try:
            table = pj.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)
            metrics = table["data"].combine_chunks()
            names = [field.name for field in metrics.type]
            found = dict(zip(names, metrics.flatten(), strict=True))
            self.cells = {key: cells for key, cells in found.items() if _holds_numbers(cells)}
            self.cells[STEP] = table["step"]
            self.n_rows = table.num_rows
        except (pa.ArrowException, KeyError, TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None

    @property
    def keys(self) -> tuple[str, ...]:
        """Step and metrics."""
        return (STEP, *(key for key in self.cells if key != STEP))

    def load(self, wanted: Sequence[str]) -> dict[str, FloatArray]:
        """Return some columns as numbers."""
        return {key: self._numbers(key) for key in wanted}

    def _numbers(self, key: str) -> FloatArray:
        if key not in self.cells:
            return np.full(self.n_rows, math.nan)
        return np.asarray(self.cells[key].to_numpy(zero_copy_only=False), np.float64)


def _holds_numbers(cells: Any) -> bool:
    """Return whether a column is one of numbers; numbers in quotes, and metrics within metrics, are not for pyarrow."""
    import pyarrow.types as pt

    if pt.is_struct(cells.type):
        raise ValueError("metrics within metrics")
    if pt.is_string(cells.type) and any(as_number(text) is not None for text in cells.unique().to_pylist()):
        raise ValueError("numbers as text")
    return bool(pt.is_integer(cells.type) or pt.is_floating(cells.type))


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
