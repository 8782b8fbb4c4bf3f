"""``.wandb`` files, of offline or of live runs, read without the package.

A file is a LevelDB log: ``:W&B`` and three bytes, then blocks of 32 KiB of chunks: checksum (CRC-32 of type and data),
length, type (whole, first, middle, last), data. Joined chunks are protocol buffers. Sources: LevelDB's
``log_format.md``, W&B's ``wandb_internal.proto``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.decoding.protobuf import FIXED64, VARINT, WireError, double, fields, signed, text
from rlscaling.readers.decoding.values import flatten
from rlscaling.readers.logs.log import STEP, Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "W&B offline run"
SUFFIX = ".wandb"
MAGIC = b":W&B"
_START, _BLOCK, _HEADER = 7, 1 << 15, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

# wandb_internal.proto: Record, then the messages in it
_HISTORY, _CONFIG, _RUN = 2, 5, 17
_ITEM, _HISTORY_STEP = 1, 2
_KEY, _NESTED, _BOOLEAN, _INTEGER, _NUMBER, _TEXT, _JSON, _VALUE_JSON = 1, 2, 4, 5, 6, 7, 8, 16
_RUN_ID, _RUN_CONFIG, _DISPLAY_NAME, _RESUMED = 1, 4, 8, 18
_UPDATE = 1


def matches(path: Path, data: bytes) -> bool:
    """Return whether the file is a W&B transaction log."""
    return data.startswith(MAGIC) or (path.suffix == SUFFIX and path.is_file())


def in_folder(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the W&B transaction logs among the files of a folder."""
    return [folder / name for name in names if name.endswith(SUFFIX)]


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file: its history, name and configuration."""
    if not data.startswith(MAGIC):
        raise TraceError(f"{path.name} is not a W&B log (it does not begin with {MAGIC.decode()}); give another file")
    builder, notes, config = LogBuilder(path.name, NAME), list[str](), dict[str, Any]()
    about = {"name": "", "id": "", "resumed": ""}
    damaged = 0
    for record in _records(data, path.name, notes):
        try:
            for number, _, value in fields(record):
                if not isinstance(value, bytes):
                    continue
                if number == _HISTORY:
                    builder.add(_history(value))
                elif number == _RUN:
                    _run(value, about, config)
                elif number == _CONFIG:
                    _configure(value, config)
        except (WireError, struct.error, RecursionError):
            damaged += 1
    if damaged:
        notes.append(f"{damaged} records of {path.name} are damaged and were left out.")
    if not builder.n_rows:
        raise TraceError(f"{path.name} holds no history; {' '.join(notes) or 'the run logged nothing'}")
    if about["resumed"]:
        notes.append("W&B resumed this run: steps that were replayed below the last one logged were dropped by W&B.")
    run = about["name"] or about["id"] or path.stem
    return [builder.log(run=run, files=(path,), config=flatten(config), notes=tuple(notes))]


def _records(data: bytes, source: str, notes: list[str]) -> Iterator[bytes]:
    """Yield the records; with a damaged chunk its record and the rest of its block are lost."""
    at, parts, lost = _START, list[bytes](), 0
    while at < len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left
            continue
        if at + _HEADER > len(data):
            break
        checksum, size, kind = struct.unpack_from("<IHB", data, at)
        body = data[at + _HEADER : at + _HEADER + size]
        if checksum == size == kind == 0:  # space that was reserved and not written yet
            at += left
            continue
        if len(body) < size and at + left >= len(data):
            break
        if size > left - _HEADER or zlib.crc32(body, zlib.crc32(bytes([kind]))) != checksum:
            lost, parts = lost + 1, []
            at += left
            continue
        at += _HEADER + size
        if kind in (_FULL, _FIRST):
            parts = []
        if kind != _FULL and kind != _FIRST and not parts:
            continue  # the rest of a record whose beginning is lost
        parts.append(body)
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
    if lost:
        notes.append(f"{lost} blocks of {source} are damaged (a checksum is wrong); their content was left out.")
    if at < len(data) or parts:
        notes.append(f"The end of {source} is missing, as while a run continues: the last record was left out.")


def _history(data: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for number, _, value in fields(data):
        if number == _ITEM and isinstance(value, bytes):
            key, cell = _item(value)
            if isinstance(cell, dict):
                row |= flatten(cell, f"{key}.")
            else:
                row[key] = cell
        elif number == _HISTORY_STEP and isinstance(value, bytes):
            row.setdefault(STEP, next((signed(v) for n, _, v in fields(value) if n == 1), 0))
    return row


def _item(data: bytes) -> tuple[str, Any]:
    """Return key and value of an item; older versions write values as JSON, newer ones by type."""
    key, nested, cell = "", list[str](), None
    for number, kind, value in fields(data):
        if number == _KEY:
            key = text(value)
        elif number == _NESTED:
            nested.append(text(value))
        elif number in (_VALUE_JSON, _JSON):
            cell = _json(value)
        elif number == _NUMBER and kind == FIXED64:
            cell = double(value)
        elif number == _INTEGER and kind == VARINT:
            cell = signed(value)
        elif number == _TEXT:
            cell = text(value)
        elif number == _BOOLEAN:
            cell = bool(value)
    return key or ".".join(nested), cell


def _json(value: int | bytes) -> Any:
    if not isinstance(value, bytes):
        return None
    try:
        return float(value) if value[:1].isdigit() else json.loads(value)  # nearly all are numbers
    except (ValueError, RecursionError):
        return None


def _run(data: bytes, about: dict[str, str], config: dict[str, Any]) -> None:
    for number, _, value in fields(data):
        if number == _RUN_ID:
            about["id"] = text(value)
        elif number == _DISPLAY_NAME:
            about["name"] = text(value)
        elif number == _RESUMED and value:
            about["resumed"] = "yes"
        elif number == _RUN_CONFIG and isinstance(value, bytes):
            _configure(value, config)


def _configure(data: bytes, config: dict[str, Any]) -> None:
    for number, _, value in fields(data):
        if number == _UPDATE and isinstance(value, bytes):
            key, cell = _item(value)
            config[key] = cell
