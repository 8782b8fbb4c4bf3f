"""TensorBoard event files: every scalar of every file of a run, without a cap and without the package.

A file is a series of records: length (8 bytes), its checksum (4), the event, its checksum (4); an event is a protocol
buffer. Sources: TensorFlow's ``record_writer.h`` and ``event.proto``, ``summary.proto``, ``tensor.proto``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from rlscaling.errors import TraceError
from rlscaling.readers.decoding.crc32c import crc32c, masked
from rlscaling.readers.decoding.protobuf import BYTES, FIXED32, WireError, double, fields, signed, single, text
from rlscaling.readers.logs.log import Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "TensorBoard"
EVENT_FILE = re.compile(r"(.*\.)?tfevents\..*")
CHECKED = 20_000  # records whose checksums are computed together

# event.proto and summary.proto: the numbers of the fields that hold a scalar
_WALL_TIME, _STEP, _VERSION, _SUMMARY, _VALUE, _TAG, _SIMPLE, _TENSOR = 1, 2, 3, 5, 1, 1, 2, 8
# tensor.proto
_DTYPE, _SHAPE, _CONTENT, _FLOATS, _DOUBLES = 1, 2, 4, 5, 6
_FORMATS = {1: "<f", 2: "<d"}


def is_event_file(name: str) -> bool:
    """Return whether a file has the name of an event file."""
    return EVENT_FILE.fullmatch(name) is not None


def matches(path: Path, data: bytes) -> bool:
    """Return whether the path is an event file, or a folder that holds some."""
    if path.is_dir():
        return any(is_event_file(file.name) for file in path.iterdir())
    return is_event_file(path.name) or b"brain.Event:" in data[:64]


def in_folder(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the folder itself, when it holds event files: together they are one log."""
    return [folder] if any(is_event_file(name) for name in names) else []


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run: all the event files of a folder, in the order in which they were begun."""
    files = sorted(file for file in path.iterdir() if is_event_file(file.name)) if path.is_dir() else [path]
    files.sort(key=_begun)
    builder, notes = LogBuilder(path.name, NAME), list[str]()
    for file in files:
        builder.add_cells(_scalars(file, notes))
    if not builder.n_rows:
        raise TraceError(f"{path.name} holds no scalar; {' '.join(notes) or 'give the folder of another run'}")
    return [builder.log(files=tuple(files), notes=tuple(notes))]


def _begun(file: Path) -> tuple[int, str]:
    """Return when a file was begun, by its name, which ends in a counter for restarts within the same second."""
    number = re.search(r"tfevents\.(\d{1,12})", file.name)
    return int(number[1]) if number else 0, file.name


def _scalars(file: Path, notes: list[str]) -> Iterator[tuple[int, float, str, float]]:
    damaged = 0
    for record in _records(file, notes):
        try:
            yield from _event(record)
        except (WireError, struct.error):
            damaged += 1
    if damaged:
        notes.append(f"{damaged} records of {file.name} are not events and were left out.")


def _records(file: Path, notes: list[str]) -> Iterator[bytes]:
    """Yield the records whose checksums hold; the length of a record must be right to find the next one."""
    data = file.read_bytes()
    at, records, checksums = 0, list[bytes](), list[int]()
    wrong = 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0] if at + 12 <= len(data) else len(data)
        end = at + 12 + size + 4
        if end > len(data) or not _length_holds(data, at):
            notes.append(
                f"{file.name} ends early or is damaged at byte {at:,}: {len(data) - at:,} bytes were left out."
            )
            break
        records.append(data[at + 12 : end - 4])
        checksums.append(struct.unpack_from("<I", data, end - 4)[0])
        at = end
        if len(records) == CHECKED:
            good = _sound(records, checksums)
            wrong += len(records) - len(good)
            yield from good
            records, checksums = [], []
    good = _sound(records, checksums)
    wrong += len(records) - len(good)
    yield from good
    if wrong:
        notes.append(f"{wrong} records of {file.name} are damaged (their checksum is wrong) and were left out.")


_LENGTHS: dict[bytes, int] = {}


def _length_holds(data: bytes, at: int) -> bool:
    raw = data[at : at + 8]
    if raw not in _LENGTHS:
        if len(_LENGTHS) > 10_000:
            _LENGTHS.clear()
        _LENGTHS[raw] = int(masked(crc32c([raw]))[0])
    return bool(_LENGTHS[raw] == struct.unpack_from("<I", data, at + 8)[0])


def _sound(records: list[bytes], checksums: list[int]) -> list[bytes]:
    holds = masked(crc32c(records)) == np.array(checksums, dtype=np.uint32)
    return [record for record, good in zip(records, holds.tolist(), strict=True) if good]


def _event(record: bytes) -> Iterator[tuple[int, float, str, float]]:
    step, time, summaries = 0, float("nan"), list[bytes]()
    for number, _, value in fields(record):
        if number == _WALL_TIME:
            time = double(value)
        elif number == _STEP:
            step = signed(value)
        elif number == _SUMMARY and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, _, value in fields(summary):
            if number == _VALUE and isinstance(value, bytes):
                tag, scalar = _scalar(value)
                if tag and scalar is not None:
                    yield step, time, tag, scalar


def _scalar(data: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, kind, value in fields(data):
        if number == _TAG:
            tag = text(value)
        elif number == _SIMPLE and kind == FIXED32:
            scalar = single(value)
        elif number == _TENSOR and kind == BYTES and isinstance(value, bytes):
            scalar = _tensor(value)
    return tag, scalar


def _tensor(data: bytes) -> float | None:
    """Return the number in a tensor that holds one, as TensorFlow 2 writes scalars."""
    dtype, raw = 0, b""
    for number, _, value in fields(data):
        if number == _DTYPE and isinstance(value, int):
            dtype = value
        elif number in (_CONTENT, _FLOATS, _DOUBLES) and isinstance(value, bytes):
            raw = value
        elif number == _SHAPE and value:  # a scalar's is empty
            return None
    form = _FORMATS.get(dtype)
    return float(struct.unpack(form, raw)[0]) if form and len(raw) == struct.calcsize(form) else None
