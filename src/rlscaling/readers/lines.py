"""Files of one JSON object a line, whose last line a kill may have cut short."""

from __future__ import annotations

import json
from typing import Any

from .log import cut_short


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
