"""The registry of readers. To add one, write its module and give it a line in ``READERS``."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rlscaling.errors import TraceError
from rlscaling.readers.decoding.sqlite_files import MAGIC
from rlscaling.readers.formats import (
    console,
    mlflow,
    scalars_json,
    tensorboard,
    trackio,
    trainer_state,
    verl,
    wandb_cloud,
    wandb_offline,
)
from rlscaling.readers.formats.csv_json import decode, table_of_csv, table_of_json
from rlscaling.readers.formats.trace_files import PARQUET_MAGIC, read_jsonl, read_parquet
from rlscaling.readers.logs.assemble import parts_of_logs
from rlscaling.readers.logs.from_tables import read_table
from rlscaling.readers.logs.log import Log
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.receipt import fingerprints
from rlscaling.readers.table import Parts
from rlscaling.traces.trace import Trace

Match = Callable[[Path, bytes], bool]


class Reader(NamedTuple):
    """One kind of source: how to recognise it by path and content, and how to read it.

    Parameters
    ----------
    name
        What messages call it.
    matches
        Whether it reads this path with this content; the content of a folder is empty.
    table
        Returns the traces in a table or a file of our own; or logs, where a table holds a framework's metrics.
    logs
        Returns the logs in it, for sources that hold what a trainer logged; traces are made of them by common rules.
    """

    name: str
    matches: Match
    table: Callable[[Path, bytes, ReadOptions], Parts | list[Log]] | None = None
    logs: Callable[[Path, bytes, ReadOptions], list[Log]] | None = None


def _is_parquet(path: Path, data: bytes) -> bool:
    return path.suffix in (".parquet", ".pq") or data.startswith(PARQUET_MAGIC)


def _is_json_lines(path: Path, data: bytes) -> bool:
    """Whether there is one object a line; a single object or a list is JSON."""
    start = data[: 1 << 20].lstrip(b"\xef\xbb\xbf \r\n\t")
    if path.suffix in (".jsonl", ".ndjson"):
        return not start.startswith(b"[")
    first, _, rest = start.partition(b"\n")
    return first.startswith(b"{") and bool(rest.strip()) and _parses(first)


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _is_json(path: Path, data: bytes) -> bool:
    return path.suffix == ".json" or data[:4096].lstrip(b"\xef\xbb\xbf \r\n\t")[:1] in (b"{", b"[")


def _read_json(path: Path, data: bytes, options: ReadOptions) -> Parts | list[Log]:
    return read_table(table_of_json(decode(data, path.name), path.name), options, None, path, "json")


def _read_json_lines(path: Path, data: bytes, options: ReadOptions) -> Parts | list[Log]:
    return read_jsonl(data.removeprefix(b"\xef\xbb\xbf"), path, options)


def _read_csv(path: Path, data: bytes, options: ReadOptions) -> Parts | list[Log]:
    return read_table(table_of_csv(decode(data, path.name), path.name), options, None, path, "csv")


def _is_database(path: Path, data: bytes) -> bool:
    return data.startswith(MAGIC)


def _refuse_database(path: Path, data: bytes, options: ReadOptions) -> Parts:
    raise TraceError(
        f"{path.name} is a SQLite database, but damaged, or not one of MLflow or trackio; copy it anew with its -wal "
        "file, or export the run as CSV"
    )


READERS: list[Reader] = [
    Reader("W&B offline run", wandb_offline.matches, logs=wandb_offline.logs),
    Reader("TensorBoard", tensorboard.matches, logs=tensorboard.logs),
    Reader("MLflow", mlflow.matches, logs=mlflow.logs),
    Reader("trackio", trackio.matches, logs=trackio.logs),
    Reader("SQLite", _is_database, _refuse_database),
    Reader("W&B run", wandb_cloud.matches, logs=wandb_cloud.logs),
    Reader("verl file logger", verl.matches, logs=verl.logs),
    Reader("trainer_state.json", trainer_state.matches, logs=trainer_state.logs),
    Reader("console", console.matches, logs=console.logs),
    Reader("parquet", _is_parquet, lambda path, data, options: read_parquet(data, path, options)),
    Reader("json lines", _is_json_lines, _read_json_lines),
    Reader("scalars in JSON", scalars_json.matches, logs=scalars_json.logs),
    Reader("json", _is_json, _read_json),
    Reader("csv", lambda path, data: True, _read_csv),
]
"""Tried in this order; the first that matches reads the source."""


def _reader_of(file: Path) -> tuple[Reader, bytes]:
    try:
        data = b"" if file.is_dir() else file.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {file}: {error.strerror}; check its permissions") from None
    if not file.is_dir() and (not data or data.isspace()):
        raise TraceError(f"{file.name} is empty; give a file with evaluations")
    return next(reader for reader in READERS if reader.matches(file, data)), data


def _read(file: Path, options: ReadOptions) -> tuple[Reader, Parts | list[Log]]:
    reader, data = _reader_of(file)
    if reader.logs is None:
        assert reader.table is not None
        return reader, reader.table(file, data, options)
    if options.run_column is not None:
        raise TraceError(
            f"run_column= / --run-column names a column of a table, but {file.name} is a log ({reader.name}), which "
            "tells its runs apart by itself; choose one with run= / --run"
        )
    return reader, reader.logs(file, data, options)


def parts_of(file: Path, options: ReadOptions) -> Parts:
    """Return the traces in a source, by their label within it."""
    reader, found = _read(file, options)
    if isinstance(found, list):
        return parts_of_logs(found, options)
    if not options.receipt:
        return found
    return {label: functools.partial(_with_inputs, build, file, reader.name) for label, build in found.items()}


def _with_inputs(build: Callable[[], Trace], file: Path, reader: str) -> Trace:
    """Complete the receipt of a table, which knows columns and rows but not its file."""
    trace = build()
    receipt = trace.metadata.get("receipt")
    if not isinstance(receipt, dict) or receipt.get("files"):
        return trace
    known = receipt | {"files": fingerprints([file]), "reader": receipt.get("reader") or reader}
    return dataclasses.replace(trace, metadata={**trace.metadata, "receipt": known})


def stitched_parts(files: Sequence[Path], options: ReadOptions) -> Parts:
    """Return the traces in several pieces of one run.

    Raises
    ------
    TraceError
        When one of them is no log of a trainer.
    """
    logs: list[Log] = []
    for file in files:
        reader, found = _read(file, options)
        if not isinstance(found, list):
            raise TraceError(
                f"{file.name} is a table or a trace ({reader.name}), not a trainer's log; only logs can be stitched"
            )
        logs += found
    return parts_of_logs(logs, options)
