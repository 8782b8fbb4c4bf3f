"""JSON lines, and numbers as loggers write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HEAD = 4096
"""Bytes by which the format of a file in a folder is recognised."""


def files_that_match(
    folder: Path, names: Sequence[str], suffix: str, matches: Callable[[Path, bytes], bool]
) -> list[Path]:
    """Return those files of a folder that have this ending and whose first bytes match."""
    paths = [folder / name for name in names if name.endswith(suffix)]
    return [path for path in paths if matches(path, _head(path))]


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(HEAD)
    except OSError:
        return b""


def whole_lines(data: bytes, source: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the lines without a last one that was cut short, and a note on it."""
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


def cut_short(source: str, n_bytes: int) -> str:
    """Return the note on a last line that was cut short, as by a kill."""
    return f"The last line of {source} was cut short ({n_bytes} bytes) and was left out."


def as_number(value: Any) -> float | None:
    """Return the number in a cell, also if it is written as text; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        if len(value) > 40 or "_" in value:
            return None
    elif not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def flatten(tree: Any, prefix: str = "", *, joint: str = ".", depth: int = 12) -> dict[str, Any]:
    """Return a nested configuration as one level, keys joined.

    Examples
    --------
    >>> flatten({"trainer": {"nnodes": 2}, "seed": 1})
    {'trainer.nnodes': 2, 'seed': 1}
    """
    flat: dict[str, Any] = {}
    for key, value in tree.items() if isinstance(tree, Mapping) else ():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth:
            flat |= flatten(value, name + joint, joint=joint, depth=depth - 1)
        else:
            flat[name] = value
    return flat
