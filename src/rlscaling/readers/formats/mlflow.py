"""MLflow stores, SQLite or folders, read without the package."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.decoding.sqlite_files import holds_tables, opened
from rlscaling.readers.decoding.values import files_that_match
from rlscaling.readers.logs.log import Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "MLflow"
MAX_METRIC_BYTES = 200_000_000

Cell = tuple[Any, Any, Any, Any]
"""Step, milliseconds since 1970, key, value."""


def matches(path: Path, data: bytes) -> bool:
    """Return whether the path is a store of MLflow."""
    return is_store(path) if path.is_dir() else holds_tables(path, data, {"metrics", "runs", "experiments"})


def is_store(path: Path) -> bool:
    """Return whether a folder is a file store, an experiment of one, or a run."""
    return bool(_runs(path))


def in_folder(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the folder itself, when it is a file store, or the databases of MLflow among its files."""
    return [folder] if is_store(folder) else files_that_match(folder, names, ".db", matches)


def _runs(path: Path) -> list[Path]:
    """Return the folders of runs: each has a ``meta.yaml`` and a folder ``metrics``."""
    runs = []
    for pattern in ("meta.yaml", "*/meta.yaml", "*/*/meta.yaml"):
        runs += [meta.parent for meta in path.glob(pattern) if (meta.parent / "metrics").is_dir()]
    return sorted(run for run in runs if ".trash" not in run.parts)


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return every run in the store."""
    logs_of_runs = [_from_folder(run, path) for run in _runs(path)] if path.is_dir() else _from_database(path)
    logs_of_runs = [log for log in logs_of_runs if log.n_rows]
    if not logs_of_runs:
        raise TraceError(f"{path.name} holds no run with metrics; check that it is the store that the runs wrote to")
    return logs_of_runs


def _from_database(path: Path) -> list[Log]:
    with opened(path) as database:
        runs = list(database.select("SELECT run_uuid, name FROM runs WHERE lifecycle_stage != 'deleted'"))
        logs_of_runs = []
        for uuid, name in runs:
            query = (
                "SELECT step, timestamp, key, value FROM metrics WHERE run_uuid = ? AND NOT is_nan "
                "ORDER BY timestamp, step"
            )
            params = dict(database.select("SELECT key, value FROM params WHERE run_uuid = ?", (uuid,)))
            log = _log(path.name, database.select(query, (uuid,)), str(name or uuid), (path,), params)
            logs_of_runs.append(log)
    return logs_of_runs


def _log(
    source: str,
    cells: Iterable[Cell],
    run: str,
    files: tuple[Path, ...],
    config: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> Log:
    """Return the log made of cells in order of time."""
    builder = LogBuilder(source, NAME)
    builder.add_cells((step, _seconds(stamp), str(key), value) for step, stamp, key, value in cells)
    return builder.log(run=run, files=files, config=config, notes=notes)


def _seconds(stamp: Any) -> float:
    return stamp / 1000 if isinstance(stamp, int | float) else math.nan


def _from_folder(run: Path, store: Path) -> Log:
    """Return the log of a run's folder: a file for each metric, its lines ``timestamp value step``."""
    cells: list[Cell] = []
    files, broken, size = [], 0, 0
    for file in sorted((run / "metrics").rglob("*")):
        if not file.is_file() or file.is_symlink():
            continue
        size += file.stat().st_size
        if size > MAX_METRIC_BYTES:
            raise TraceError(
                f"the metrics of {run.name} are larger than {MAX_METRIC_BYTES:,} bytes; read the runs one by one"
            )
        files.append(file)
        key = file.relative_to(run / "metrics").as_posix()
        for line in file.read_text("utf-8", "replace").splitlines():
            cell = _cell(line, key)
            broken += cell is None and bool(line.strip())
            cells += [cell] if cell is not None else []
    cells.sort(key=lambda cell: (cell[1], cell[0]))
    name = _text(run / "tags" / "mlflow.runName") or run.name
    config = {param.name: _text(param) for param in sorted((run / "params").glob("*")) if param.is_file()}
    notes = (f"{broken} lines under {run.name}/metrics are damaged; left out.",) if broken else ()
    return _log(store.name, cells, name, tuple(files), config, notes)


def _cell(line: str, key: str) -> Cell | None:
    parts = line.split()
    try:
        stamp, value = float(parts[0]), float(parts[1])
        step = int(parts[2]) if len(parts) > 2 else 0
    except (ValueError, IndexError, OverflowError):
        return None
    return step, stamp, key, value


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()[:1000] if path.is_file() else ""
    except OSError:
        return ""
