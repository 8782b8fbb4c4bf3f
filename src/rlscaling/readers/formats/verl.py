"""verl's file logger: one object ``{"step": s, "data": {metric: value}}`` per line.

A line has some 75 metrics, of which about a dozen are read: msgspec decodes those alone. Without msgspec, and for lines
that it does not take, every line is parsed by the standard library, in ten times the CPU time, and the log is the same.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.errors import TraceError
from rlscaling.readers.decoding.values import files_that_match, flatten, parsed, whole_lines
from rlscaling.readers.logs.frameworks import VERL, find, find_all
from rlscaling.readers.logs.log import STEP, Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "verl file logger"
SAMPLED = 6  # lines that are searched for metrics, besides those with a score
MARKS = (b"@", b'"val')  # in names of scores; the first is in most of them and rare elsewhere, so found quickly
ALL_OF = (*VERL.scores, *VERL.step, *VERL.testing)
FIRST_OF = (VERL.seconds, VERL.tokens, VERL.rate, *((pattern,) for _, pattern in VERL.columns))
BOM = b"\xef\xbb\xbf"
START = re.compile(rb'\s*\{\s*"step"\s*:\s*-?\d+\s*,\s*"data"\s*:\s*\{')


def matches(path: Path, data: bytes) -> bool:
    """Return whether the first line is of this logger."""
    return START.match(data[:4096].removeprefix(BOM)) is not None


def in_folder(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the logs of verl among the files of a folder."""
    return files_that_match(folder, names, ".jsonl", matches)


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    whole, notes = whole_lines(data.removeprefix(BOM), path.name)
    try:
        keys = _keys(whole)
        if options.metric is not None or not find_all(VERL.seconds, keys):  # these may be on any line
            keys = _every_key(whole)
        columns = numbers_of(whole, _likely(keys))
    except (ValueError, RecursionError, ModuleNotFoundError):  # a broken line, a NaN, nested metrics; no msgspec
        return [dataclasses.replace(_line_by_line(path, whole, notes), content=data)]

    def load(wanted: Sequence[str]) -> dict[str, FloatArray]:
        others = tuple(key for key in wanted if key not in columns)
        try:
            columns.update(numbers_of(whole, others) if others else {})
        except (ValueError, RecursionError):
            return _line_by_line(path, whole, notes).load(wanted)
        return {key: columns[key] for key in wanted}

    filled = tuple(key for key in (STEP, *keys) if key not in columns or np.isfinite(columns[key]).any())
    return [Log(path.name, NAME, len(columns[STEP]), filled, load, files=(path,), content=data, notes=notes)]


def _keys(data: bytes) -> tuple[str, ...]:
    """Return the metrics: those of some lines throughout the file, and the scores of all lines.

    Raises
    ------
    ValueError
        For a line that is not an object of step and data, or a metric that is not a number.
    """
    scored = next(filter(None, (_scored(data, mark) for mark in MARKS)), [])
    places = [*(len(data) * k // SAMPLED for k in range(SAMPLED)), *scored, len(data) - 2]
    return _every_key(b"\n".join(dict.fromkeys(_line(data, place) for place in sorted(places))))


def _every_key(data: bytes) -> tuple[str, ...]:
    """Return the metrics of all lines; as for `numbers_of`, they must be numbers."""
    return tuple(dict.fromkeys(key for row in _decoded(_decoder_of_all(), data) for key in row.data))


def numbers_of(data: bytes, keys: tuple[str, ...]) -> dict[str, FloatArray]:
    """Return some metrics of every line, shape (lines,) each, NaN where a line lacks one; under `STEP` the steps.

    The other metrics are skipped, which is three times as fast as reading them.

    Raises
    ------
    ValueError
        For a line that is not an object of step and data, and for a metric that is not a number: text, NaN, a list.
    """
    from msgspec.structs import astuple

    rows = _decoded(_decoder(keys), data)
    table = np.array([(row.step, *astuple(row.data)) for row in rows], dtype=np.float64).reshape(len(rows), -1)
    return dict(zip((STEP, *keys), table.T.copy(), strict=True))


def _decoded(decoder: Any, data: bytes) -> list[Any]:
    """Return the objects of some lines; raise a `ValueError` for what msgspec does not take, whatever its version."""
    from msgspec import MsgspecError

    try:
        rows: list[Any] = decoder.decode_lines(data)
    except MsgspecError as error:
        raise ValueError(str(error)) from None
    return rows


@functools.cache
def _decoder_of_all() -> Any:
    """Return a decoder of lines to objects of all metrics."""
    import msgspec

    return msgspec.json.Decoder(msgspec.defstruct("Line", [("data", dict[str, float]), ("step", float, math.nan)]))


@functools.lru_cache(maxsize=64)
def _decoder(keys: tuple[str, ...]) -> Any:
    """Return a decoder of lines to objects of a step and of some metrics."""
    import msgspec

    names = [f"m{i}" for i in range(len(keys))]
    fields = [(name, float, math.nan) for name in names]
    metrics = msgspec.defstruct("Metrics", fields, rename=dict(zip(names, keys, strict=True)), gc=False)
    line = msgspec.defstruct("Line", [("data", metrics), ("step", float, math.nan)], gc=False)
    return msgspec.json.Decoder(line)


def _scored(data: bytes, mark: bytes) -> list[int]:
    """Return the first position of each name that contains a mark."""
    places: dict[bytes, int] = {}
    at = data.find(mark)
    while at >= 0:
        end = data.find(b'"', at + 1)
        places.setdefault(data[data.rfind(b'"', 0, at + 1) : end], at)
        at = data.find(mark, end) if end >= 0 else -1
    return list(places.values())


@functools.lru_cache(maxsize=64)
def _likely(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metrics that a curve needs."""
    firsts = (find(patterns, keys) for patterns in FIRST_OF)
    return tuple(dict.fromkeys([*find_all(ALL_OF, keys), *filter(None, firsts)]))


def _line(data: bytes, place: int) -> bytes:
    """Return the line around a place."""
    end = data.find(b"\n", place)
    return data[data.rfind(b"\n", 0, place) + 1 : end if end >= 0 else len(data)]


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
        notes += (f"{broken} of the lines of {path.name} are not objects of step and data and were left out.",)
    return builder.log(files=(path,), notes=notes)
