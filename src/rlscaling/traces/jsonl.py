"""JSON lines with a header, read so that a torn last line does no harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from rlscaling.errors import TraceError
from rlscaling.traces.schema import SCHEMA_VERSION

HEADER_KEYS = ("kind", "schema_version", "name", "compute_unit", "compute_column", "notes")
"""Keys of a header that become fields of a ``Trace``; the others are its metadata."""


class Line(NamedTuple):
    """One complete line: its number in the file (from 1), its bytes, the object it holds."""

    number: int
    raw: bytes
    row: dict[str, Any]


def parse_lines(data: bytes, name: str) -> tuple[list[Line], int]:
    """Return the complete lines of a JSONL file and the length of the part before a torn last line.

    Parameters
    ----------
    data
        Content of the file.
    name
        Name of the file, for messages.

    Raises
    ------
    TraceError
        For a broken line that is not the last one, which cannot be the result of a kill.
    """
    raws = _split(data)
    lines: list[Line] = []
    good = 0
    for number, raw in enumerate(raws, start=1):
        row = _parse(raw) if raw.strip() else {}
        if row is None:
            if number == len(raws):
                return lines, good
            raise TraceError(
                f"{name}, line {number}: {_excerpt(raw)} is not a JSON object; repair or remove that line "
                "(only a last line can be cut short by a kill)"
            )
        if raw.strip():
            lines.append(Line(number, raw, row))
        good += len(raw)
    return lines, good


def _split(data: bytes) -> list[bytes]:
    # not bytes.splitlines: that also splits at a lone carriage return
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _parse(raw: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):  # also UnicodeDecodeError; brackets a thousand deep
        return None
    return row if isinstance(row, dict) else None


def _excerpt(raw: bytes) -> str:
    text = raw.strip().decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")


def check_header(lines: list[Line], name: str) -> dict[str, Any]:
    """Return the header, which must be the first line, the only one, and of a version that this package reads."""
    if not lines:
        raise TraceError(f"{name} is empty: not a trace; write it with TraceWriter or write_trace")
    header = lines[0].row
    if header.get("kind") != "header":
        raise TraceError(f'{name}, line {lines[0].number}: no {{"kind": "header"}} there; not a trace of this package')
    again = next((line.number for line in lines[1:] if line.row.get("kind") == "header"), None)
    if again is not None:
        raise TraceError(f"{name}, line {again}: a second header; two traces are in one file; split it there")
    version = header.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise TraceError(
            f"{name} has schema_version {version!r}; this rlscaling reads up to {SCHEMA_VERSION}, upgrade it"
        )
    return header


def read_jsonl(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]], tuple[str, ...]]:
    """Read a trace file: its header, its rows, and what was recovered.

    Raises
    ------
    TraceError
        With the line number, for a broken line other than the last one, or a missing header.
    """
    path = Path(path)
    lines, notes = read_lines(path)
    header = check_header(lines, path.name)
    return header, [line.row for line in lines[1:]], notes


def read_lines(path: Path) -> tuple[list[Line], tuple[str, ...]]:
    """Return the complete lines of a JSONL file, and a note when its last line was cut short."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    lines, good = parse_lines(data, path.name)
    if good == len(data):
        return lines, ()
    return lines, (f"The last line of {path.name} was cut short ({len(data) - good} bytes) and was left out.",)


HEADER_START = b'{"kind": "header"'
