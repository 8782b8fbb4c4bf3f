"""Values as JSON: arrays, enums and non-finite numbers, converted once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def json_line(row: Mapping[str, Any]) -> bytes:
    """Return ``row`` as one line of a JSON-lines file."""
    return json.dumps(plain(row), allow_nan=False).encode() + b"\n"


def plain(value: Any) -> Any:
    """Return ``value`` as JSON-ready values: arrays become lists, enums their text, non-finite numbers None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)  # of an enum its text
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars, torch tensors
        return plain(value.tolist())
    return str(value)
