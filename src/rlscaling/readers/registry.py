"""`READERS`: how each format is recognised and read. To add one, write ``formats/NAME.py`` and one line here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rlscaling.errors import TraceError
from rlscaling.readers.decoding.sqlite_files import MAGIC
from rlscaling.readers.formats import (
    console,
    csv_json,
    mlflow,
    scalars_json,
    tensorboard,
    trace_files,
    trackio,
    trainer_state,
    verl,
    wandb_cloud,
    wandb_offline,
)
from rlscaling.readers.logs.assemble import parts_of_logs
from rlscaling.readers.logs.log import Log
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.receipt import fingerprints
from rlscaling.readers.table import Parts
from rlscaling.traces.trace import Trace


class Reader(NamedTuple):
    """One format: how to recognise it by path and content, how to read it, and where it lies in a folder.

    Parameters
    ----------
    name
        What messages call it.
    matches
        Whether it reads this path with this content; the content of a folder is empty.
    table
        Returns the traces in a table or a trace file; or logs, where the columns of a table are a framework's metrics.
    logs
        Returns the logs in it, for formats that hold what a trainer logged; traces are made of them by common rules.
    in_folder
        Returns what of this format lies directly in a folder, given the names of the files there; None for formats
        that are read only when their file is named.
    owns_folder
        Whether all that lies below a folder is part of its logs of this format, so that it is searched no further down.
    """

    name: str
    matches: Callable[[Path, bytes], bool]
    table: Callable[[Path, bytes, ReadOptions], Parts | list[Log]] | None = None
    logs: Callable[[Path, bytes, ReadOptions], list[Log]] | None = None
    in_folder: Callable[[Path, Sequence[str]], list[Path]] | None = None
    owns_folder: Callable[[Path], bool] | None = None


def _is_database(path: Path, data: bytes) -> bool:
    return data.startswith(MAGIC)


def _unknown_database(path: Path, data: bytes, options: ReadOptions) -> Parts:
    raise TraceError(
        f"{path.name} is a SQLite database, but damaged, or not one of MLflow or trackio; copy it again with its -wal "
        "file, or export the run as CSV"
    )


READERS: list[Reader] = [
    Reader("W&B offline run", wandb_offline.matches, logs=wandb_offline.logs, in_folder=wandb_offline.in_folder),
    Reader("TensorBoard", tensorboard.matches, logs=tensorboard.logs, in_folder=tensorboard.in_folder),
    Reader("MLflow", mlflow.matches, logs=mlflow.logs, in_folder=mlflow.in_folder, owns_folder=mlflow.is_store),
    Reader("trackio", trackio.matches, logs=trackio.logs, in_folder=trackio.in_folder),
    Reader("SQLite", _is_database, _unknown_database),
    Reader("W&B run", wandb_cloud.matches, logs=wandb_cloud.logs, in_folder=wandb_cloud.in_folder),
    Reader("verl file logger", verl.matches, logs=verl.logs, in_folder=verl.in_folder),
    Reader("trainer_state.json", trainer_state.matches, logs=trainer_state.logs, in_folder=trainer_state.in_folder,
           owns_folder=trainer_state.is_in),
    Reader("console", console.matches, logs=console.logs),
    Reader("parquet", trace_files.is_parquet, trace_files.read_parquet),
    Reader("json lines", trace_files.is_json_lines, trace_files.read_json_lines, in_folder=trace_files.in_folder),
    Reader("scalars in JSON", scalars_json.matches, logs=scalars_json.logs),
    Reader("json", csv_json.is_json, csv_json.read_json),
    Reader("csv", csv_json.is_csv, csv_json.read_csv),
]  # fmt: skip
"""Tried in this order; the first that matches reads the source."""


def logs_here(folder: Path, names: Sequence[str]) -> tuple[list[Path], bool]:
    """Return the logs directly in a folder that holds these files, and whether all below it is part of them."""
    logs = {path for reader in READERS if reader.in_folder is not None for path in reader.in_folder(folder, names)}
    owned = any(reader.owns_folder(folder) for reader in READERS if reader.owns_folder is not None)
    return sorted(logs), owned


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
            "names its runs itself; choose one with run= / --run"
        )
    return reader, reader.logs(file, data, options)


def parts_of(file: Path, options: ReadOptions) -> Parts:
    """Return the traces in a source, by their label within it."""
    reader, content = _read(file, options)
    if isinstance(content, list):
        return parts_of_logs(content, options)
    if not options.receipt:
        return content
    return {label: functools.partial(_with_inputs, build, file, reader.name) for label, build in content.items()}


def _with_inputs(build: Callable[[], Trace], file: Path, reader: str) -> Trace:
    """Return the trace of a table with its file in the receipt, which names columns and rows only until then."""
    trace = build()
    receipt = trace.metadata.get("receipt")
    if not isinstance(receipt, dict) or receipt.get("files"):
        return trace
    completed = receipt | {"files": fingerprints([file]), "reader": receipt.get("reader") or reader}
    return dataclasses.replace(trace, metadata={**trace.metadata, "receipt": completed})


def stitched_parts(files: Sequence[Path], options: ReadOptions) -> Parts:
    """Return the traces of one run whose log is in several pieces.

    Raises
    ------
    TraceError
        When one of them is not a trainer's log.
    """
    logs: list[Log] = []
    for file in files:
        reader, content = _read(file, options)
        if not isinstance(content, list):
            raise TraceError(
                f"{file.name} is a table or a trace ({reader.name}), not a trainer's log; only logs can be stitched"
            )
        logs += content
    return parts_of_logs(logs, options)
