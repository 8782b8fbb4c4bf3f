"""Our own trace files, JSON lines and Parquet, and Parquet from elsewhere."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.journal import HEADER_KEYS, check_header, parse_lines, replace_file
from rlscaling.schema import SCHEMA_VERSION, json_line, plain
from rlscaling.trace import Trace

from .arrow import ArrowColumns, parsed_lines
from .lines import whole_lines
from .log import Log, cut_short
from .options import ReadOptions
from .table import Origin, Parts, Table, build_trace, parts_of_table
from .tables import read_table
from .text import decode, refuse_saved_fit, table_of_objects

PARQUET_MAGIC = b"PAR1"


def origin_of_header(header: dict[str, Any], notes: tuple[str, ...]) -> Origin:
    """Return what the header of a trace says, its fields apart from its metadata."""
    written = header.get("notes")
    return Origin(
        name=str(header.get("name") or ""),
        compute_column=str(header.get("compute_column") or "compute_gpu_hours"),
        compute_unit=str(header.get("compute_unit") or "gpu-hours"),
        metadata={key: value for key, value in header.items() if key not in (*HEADER_KEYS, "json_columns")},
        notes=(*map(str, written if isinstance(written, list) else ()), *notes),
        reader="trace",
    )


def read_jsonl(data: bytes, path: Path, options: ReadOptions) -> Parts | list[Log]:
    """Return the traces or logs in a JSON-lines file: ours, or one object a line from elsewhere."""
    source = path.name
    if not _is_own(data):
        fast = _read_fast(data, path, options)
        if fast is not None:
            return fast
    decode(data.rsplit(b"\n", 1)[0] or data, source)  # the last line may be torn inside a character
    lines, good = parse_lines(data, source)
    notes: tuple[str, ...] = (cut_short(source, len(data) - good),) if good < len(data) else ()
    if not lines:
        raise TraceError(f"{source} holds no complete JSON object; give a file with evaluations")
    refuse_saved_fit(lines[0].row, source)
    if lines[0].row.get("kind") == "header":
        header = check_header(lines, source)
        rows = lines[1:]
        evals = [line for line in rows if line.row.get("kind") == "eval"]
        if not evals:
            raise TraceError(
                f'{source} holds no evaluation (kind "eval") among its {len(rows)} rows; '
                "wait for the first one, or give the file of another run"
            )
        other = sorted({str(line.row.get("kind")) for line in rows} - {"eval", "train"})
        if other:
            n = sum(str(line.row.get("kind")) in other for line in rows)
            notes += (f"{n} rows of {source} are neither eval nor train (kind {', '.join(other)}) and were left out.",)
        origin = origin_of_header(header, notes)
        objects = [{key: value for key, value in line.row.items() if key != "kind"} for line in evals]
        table = table_of_objects(objects, [line.number for line in evals], source, "line")
        return parts_of_table(table, options, origin)
    origin = Origin(metadata={"source": source}, notes=notes)
    table = table_of_objects([line.row for line in lines], [line.number for line in lines], source, "line")
    return read_table(table, options, origin, path, "json lines")


def _is_own(data: bytes) -> bool:
    return b'"header"' in data[:4096] or b'"sigmoid-fit"' in data[:4096]


def _read_fast(data: bytes, path: Path, options: ReadOptions) -> Parts | list[Log] | None:
    """Return what lines of one make hold; None for others, which are read line by line."""
    whole, notes = whole_lines(data, path.name)
    try:
        columns = parsed_lines(whole)
    except ValueError:
        return None
    table = Table(path.name, columns, list(range(1, columns.n_rows + 1)), "line")
    origin = Origin(metadata={"source": path.name}, notes=notes)
    return read_table(table, options, origin, path, "json lines")


def read_parquet(data: bytes, path: Path, options: ReadOptions) -> Parts | list[Log]:
    """Return the traces or logs in a Parquet file, ours or from elsewhere."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.ParquetFile(pa.BufferReader(data)).read()
        arrow = ArrowColumns(dict(zip(found.column_names, found.columns, strict=True)), found.num_rows)
        arrow.settle()
    except (pa.ArrowException, OSError, UnicodeError, OverflowError) as error:
        raise TraceError(
            f"{path.name} is not a readable Parquet file ({str(error).splitlines()[0]}); save it again"
        ) from None
    twice = sorted({name for name in found.column_names if found.column_names.count(name) > 1})
    if twice:
        raise TraceError(f"{path.name} has more than one column {twice[0]!r}; rename or drop one of them")
    rows = list(range(1, found.num_rows + 1))
    header = (found.schema.metadata or {}).get(b"rlscaling")
    if header is None:
        foreign = Table(path.name, arrow, rows)
        return read_table(foreign, options, Origin(metadata={"source": path.name}), path, "parquet")
    columns = dict(arrow)
    try:
        known = json.loads(header)
        for name in known.get("json_columns", ()):
            columns[name] = [json.loads(cell) for cell in columns[name]]
    except (ValueError, AttributeError, KeyError, TypeError):
        raise TraceError(f"the rlscaling metadata of {path.name} are damaged; write the file again") from None
    table = Table(path.name, columns, rows)
    if isinstance(known.get("runs"), dict):
        return _parts_of_runs(table, known["runs"], options)
    if "kind" in columns:
        table = table.select([kind == "eval" for kind in columns["kind"]])
    return parts_of_table(table, options, origin_of_header(known, ()))


def _parts_of_runs(table: Table, headers: dict[str, Any], options: ReadOptions) -> Parts:
    """Return the traces of a file of several runs, which `write_traces` wrote."""
    labels = [str(cell) for cell in table.columns.get("run", [])]
    there = [label for label in headers if label in set(labels)]
    wanted = there if options.run is None else [label for label in there if label == str(options.run)]
    if not wanted:
        raise TraceError(f"{table.source} has no run {options.run!r}; it has {', '.join(there[:20]) or 'none'}")
    plain = dataclasses.replace(options, run=None)
    parts: Parts = {}
    for label in wanted:
        rows = table.select([other == label for other in labels])
        filled = {
            name: cells
            for name, cells in rows.columns.items()
            if name != "run" and any(cell is not None for cell in cells)
        }
        own = dataclasses.replace(rows, columns=filled)
        origin = origin_of_header(headers[label] if isinstance(headers[label], dict) else {}, ())
        parts[label if len(there) > 1 else ""] = functools.partial(build_trace, own, label, plain, origin, [])
    return parts


def write_traces(traces: Mapping[str, Trace], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write several runs to one Parquet file, each with its own header and receipt.

    Parameters
    ----------
    traces
        By name, as ``read_traces`` returns them.
    path
        The file, its name ending in ``.parquet``.
    overwrite
        Replace a file that is there.

    Raises
    ------
    TraceError
        When the file is there already, its name has another ending, or there is nothing to write.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rlscaling import Trace, read_traces
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "runs.parquet"
    >>> write_traces({"a": Trace([0, 1], [0.3, 0.4]), "b": Trace([0, 2], [0.3, 0.5])}, path)
    >>> read_traces(path)["runs:b"].compute
    array([0., 2.])
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    if path.suffix != ".parquet":
        raise TraceError(f"several runs go into a Parquet file only; end the name {path.name!r} in .parquet")
    if not traces:
        raise TraceError("there are no runs to write; give at least one")
    if path.exists() and not overwrite:
        raise TraceError(f"{path} is there already and was left as it is; choose another name or pass overwrite=True")
    names = list(dict.fromkeys(name for trace in traces.values() for name in trace.columns if name != "run"))
    columns: dict[str, list[Any]] = {name: [] for name in ("run", "compute", "pass_rate", *names)}
    for label, trace in traces.items():
        columns["run"] += [label] * len(trace)
        columns["compute"] += trace.compute.tolist()
        columns["pass_rate"] += trace.pass_rate.tolist()
        for name in names:
            columns[name] += trace.columns[name].tolist() if name in trace.columns else [None] * len(trace)
    encoded = [name for name in names if any(not isinstance(cell, float | str | None) for cell in columns[name])]
    encoded += [name for name in names if len({type(c) for c in columns[name]} - {type(None)}) > 1]
    for name in set(encoded):
        columns[name] = [json.dumps(plain(cell)) for cell in columns[name]]
    header = {
        "kind": "header", "schema_version": SCHEMA_VERSION, "json_columns": sorted(set(encoded)),
        "runs": {label: _run_header(trace) for label, trace in traces.items()},
    }  # fmt: skip
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata({b"rlscaling": json_line(header).strip()}), buffer)
    replace_file(path, buffer.getvalue())


def _run_header(trace: Trace) -> dict[str, Any]:
    metadata = {key: value for key, value in trace.metadata.items() if key not in HEADER_KEYS}
    return {
        **metadata,
        "name": trace.name,
        "compute_unit": trace.compute_unit,
        "compute_column": "compute",
        "notes": list(trace.notes),
    }
