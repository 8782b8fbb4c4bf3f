"""trackio databases: the table ``metrics`` of a project's SQLite file, one JSON object per row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.decoding.sqlite_files import ReadOnlyDatabase, holds_tables, opened
from rlscaling.readers.decoding.values import files_that_match, flatten
from rlscaling.readers.logs.log import STEP, TIME, Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "trackio"


def matches(path: Path, data: bytes) -> bool:
    """Return whether the file is a project of trackio."""
    return holds_tables(path, data, {"metrics", "configs"})


def in_folder(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the projects of trackio among the files of a folder."""
    return files_that_match(folder, names, ".db", matches)


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return every run of the project; runs are distinguished by their id, because names may occur twice."""
    with opened(path) as database:
        columns = {row[1] for row in database.select("SELECT * FROM pragma_table_info('metrics')")}
        key_name = "run_id" if "run_id" in columns else "run_name"
        pairs = database.select(f"SELECT {key_name}, run_name FROM metrics GROUP BY {key_name}")
        names = {key: str(name) for key, name in pairs}
        configs = {key: _object(config) for key, config in database.select(f"SELECT {key_name}, config FROM configs")}
        logs_of_runs = [
            _log(database, path, key_name, key, name, configs.get(key) or {}) for key, name in names.items()
        ]
    if not logs_of_runs:
        raise TraceError(f"{path.name} holds no metrics; check that it is the project that the run wrote to")
    return logs_of_runs


def _log(database: ReadOnlyDatabase, path: Path, key_name: str, key: Any, name: str, config: dict[str, Any]) -> Log:
    builder, broken = LogBuilder(path.name, NAME), 0
    for step, stamp, cell in database.select(
        f"SELECT step, timestamp, metrics FROM metrics WHERE {key_name} = ? ORDER BY id", (key,)
    ):
        metrics = _object(cell)
        broken += metrics is None
        if metrics is not None:
            builder.add({STEP: step, TIME: _seconds(stamp), **flatten(metrics)})
    notes = (f"{broken} rows of {path.name} hold no JSON object and were left out.",) if broken else ()
    return builder.log(run=name, files=(path,), config=flatten(config), notes=notes)


def _object(cell: Any) -> dict[str, Any] | None:
    try:
        value = json.loads(cell)
    except (ValueError, TypeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _seconds(stamp: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except (ValueError, OverflowError):
        return None
