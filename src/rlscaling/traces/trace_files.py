"""Traces written as JSON lines, Parquet or CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rlscaling.errors import TraceError
from rlscaling.files import check_not_there, replace_file, replace_unless_written
from rlscaling.serialization import json_line, plain
from rlscaling.traces.jsonl import HEADER_KEYS
from rlscaling.traces.schema import COLUMNS, SCHEMA_VERSION
from rlscaling.traces.trace import Trace


def write_traces(traces: Mapping[str, Trace], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write several runs: to one Parquet file, or to a folder with a JSON-lines file for each.

    Both keep everything, headers, notes and receipts included, and ``read_traces`` reads both.

    Parameters
    ----------
    traces
        By name, as ``read_traces`` returns them.
    path
        A file, its name ending in ``.parquet``, or a folder, its name without an ending. In a folder every file bears
        the name of its run; a character that file names should not have, such as ``/`` or ``:``, becomes ``_``.
    overwrite
        Replace a file that is there; in a folder that is there, replace the files of these runs and leave all others.

    Raises
    ------
    TraceError
        When the file or folder is there already, its name has another ending, two runs would go into one file, or there
        is nothing to write.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rlscaling import Trace, read_traces
    >>> traces = {"a": Trace([0, 1], [0.3, 0.4]), "b": Trace([0, 2], [0.3, 0.5])}
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_traces(traces, folder / "runs.parquet")
    >>> read_traces(folder / "runs.parquet")["runs:b"].compute
    array([0., 2.])
    >>> write_traces(traces, folder / "runs")
    >>> read_traces(folder / "runs")["b"].compute
    array([0., 2.])
    """
    path = Path(path)
    if not traces:
        raise TraceError("there are no runs to write; give at least one")
    if path.suffix not in ("", ".parquet"):
        raise TraceError(
            f"cannot write several runs to {path.name!r}: end the name in .parquet, or give a folder (a name without "
            "an ending) for one .jsonl file per run"
        )
    files = {} if path.suffix else _file_names(traces)
    check_not_there(path, overwrite)
    if path.suffix:
        replace_file(path, _parquet_of_runs(traces))
        return
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise TraceError(f"cannot create the folder {path}: {error.strerror}; choose another place") from None
    for name, file in files.items():
        replace_unless_written(path / file, _jsonl_bytes(traces[name]))


def _file_names(traces: Mapping[str, Trace]) -> dict[str, str]:
    """Return the file of each run in a folder; no two may differ by nothing but letter case."""
    files: dict[str, str] = {}
    runs: dict[str, str] = {}
    for name in traces:
        stem = re.sub(r"[^\w .()+=@-]+", "_", name).strip(" .") or "run"
        other = runs.setdefault(stem.lower(), name)
        if other != name:
            raise TraceError(f"the runs {other!r} and {name!r} would both be written to {stem}.jsonl; rename one")
        files[name] = f"{stem}.jsonl"
    # a folder with a trace.jsonl is read as that one run
    if len(files) > 1 and "trace" in runs:
        raise TraceError(f"several runs go into the folder, so none may be named {runs['trace']!r}; rename it")
    return files


def _parquet_of_runs(traces: Mapping[str, Trace]) -> bytes:
    """Return the Parquet file of several runs: a column that names the run of each row, and the headers of all runs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for trace in traces.values() for name in trace.columns if name != "run"))
    columns: dict[str, list[Any]] = {name: [] for name in ("run", "compute", "pass_rate", *names)}
    for label, trace in traces.items():
        columns["run"] += [label] * len(trace)
        columns["compute"] += trace.compute.tolist()
        columns["pass_rate"] += trace.pass_rate.tolist()
        for name in names:
            columns[name] += trace.columns[name].tolist() if name in trace.columns else [None] * len(trace)
    encoded = {name for name in names if any(not isinstance(cell, float | str | None) for cell in columns[name])}
    encoded |= {name for name in names if len({type(cell) for cell in columns[name]} - {type(None)}) > 1}
    for name in encoded:
        columns[name] = [json.dumps(plain(cell)) for cell in columns[name]]
    header = {
        "kind": "header", "schema_version": SCHEMA_VERSION, "json_columns": sorted(encoded),
        "runs": {label: _run_header(trace) for label, trace in traces.items()},
    }  # fmt: skip
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata({b"rlscaling": json_line(header).strip()}), buffer)
    return buffer.getvalue()


def _run_header(trace: Trace) -> dict[str, Any]:
    metadata = {key: value for key, value in trace.metadata.items() if key not in HEADER_KEYS}
    return {
        **metadata,
        "name": trace.name,
        "compute_unit": trace.compute_unit,
        "compute_column": "compute",
        "notes": list(trace.notes),
    }


_COUNT_UNITS = ("steps", "tokens", "rollouts", "prompts", "samples")


def write_trace(trace: Trace, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a trace to a ``.jsonl``, ``.parquet`` or ``.csv`` file.

    JSON lines and Parquet keep everything; CSV keeps the columns only.

    Parameters
    ----------
    trace
        The trace.
    path
        The file; its suffix decides the format.
    overwrite
        Replace a file that is there.

    Raises
    ------
    TraceError
        When the file is there already, or its suffix is none of the three.
    """
    if not isinstance(trace, Trace):
        raise TraceError(f"write_trace takes a Trace, not {type(trace).__name__}")
    path = Path(path)
    formats = {".jsonl": _jsonl_bytes, ".parquet": _parquet_bytes, ".csv": _csv_bytes}
    if path.suffix not in formats:
        raise TraceError(f"cannot write a trace to {path.name!r}: end the name in .jsonl, .parquet or .csv")
    check_not_there(path, overwrite)
    replace_unless_written(path, formats[path.suffix](trace))


def _header(trace: Trace) -> dict[str, Any]:
    metadata = {key: value for key, value in trace.metadata.items() if key not in HEADER_KEYS}
    return {
        "kind": "header",
        "schema_version": SCHEMA_VERSION,
        "name": trace.name,
        "compute_unit": trace.compute_unit,
        "compute_column": _compute_column(trace),
        "notes": list(trace.notes),
        **metadata,
    }


def _compute_column(trace: Trace) -> str:
    return "compute_gpu_hours" if trace.compute_unit == "gpu-hours" else "compute"


def _columns(trace: Trace) -> dict[str, NDArray[Any]]:
    """Every column as it is stored, compute and pass rate first."""
    first = {_compute_column(trace): trace.compute, "pass_rate": trace.pass_rate}
    return {**first, **{key: values for key, values in trace.columns.items() if key not in (*first, "kind")}}


def _stored(name: str, values: NDArray[Any]) -> list[Any]:
    """Return the cells, counts as integers: a file says 1000 prompts and not 1000.0."""
    unit = COLUMNS.get(name, ("", ""))[0]
    listed: list[Any] = values.tolist()
    if unit not in _COUNT_UNITS:
        return listed
    return [int(v) if isinstance(v, float) and v.is_integer() and abs(v) < 2**53 else v for v in listed]


def _jsonl_bytes(trace: Trace) -> bytes:
    columns = {key: _stored(key, values) for key, values in _columns(trace).items()}
    rows = [{"kind": "eval", **dict(zip(columns, cells, strict=True))} for cells in zip(*columns.values(), strict=True)]
    return b"".join(json_line(row) for row in [_header(trace), *rows])


def _parquet_bytes(trace: Trace) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, encoded = {}, []
    for key, values in _columns(trace).items():
        cells = values.tolist()
        if values.dtype == object and not all(isinstance(cell, str | None) for cell in cells):
            cells = [json.dumps(plain(cell)) for cell in cells]
            encoded.append(key)
        columns[key] = cells if values.dtype == object else values
    header = json_line({**_header(trace), "json_columns": encoded}).strip()
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata({b"rlscaling": header}), buffer)
    return buffer.getvalue()


def _csv_bytes(trace: Trace) -> bytes:
    columns = {key: _stored(key, values) for key, values in _columns(trace).items()}
    # a CSV has no header line to name the unit, so the column's name does
    names = [f"compute_{trace.compute_unit.replace('-', '_')}" if key == "compute" else key for key in columns]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(
        ["" if cell is None or cell != cell else cell for cell in row] for row in zip(*columns.values(), strict=True)
    )
    return text.getvalue().encode()
