"""Trace files of this package, and JSON lines and Parquet tables from elsewhere."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.decoding.arrow_columns import ArrowColumns, parsed_lines
from rlscaling.readers.decoding.values import cut_short, files_that_match, parsed, whole_lines
from rlscaling.readers.formats.csv_json import decode, refuse_saved_fit, table_of_objects
from rlscaling.readers.logs.from_tables import read_table
from rlscaling.readers.logs.log import Log
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.table import Parts, Table, TableSource, build_trace, parts_of_table
from rlscaling.traces.jsonl import HEADER_KEYS, HEADER_START, check_header, parse_lines

PARQUET_MAGIC = b"PAR1"
BOM = b"\xef\xbb\xbf"
NAMES = ("metrics.jsonl", "trace.jsonl")
"""Files that are read from a folder whatever they hold: prime-rl's log, and the trace of a run."""


def is_parquet(path: Path, data: bytes) -> bool:
    """Return whether the file is Parquet, by its ending or its first bytes."""
    return path.suffix in (".parquet", ".pq") or data.startswith(PARQUET_MAGIC)


def is_json_lines(path: Path, data: bytes) -> bool:
    """Return whether there is one object per line; a single object or a list is JSON."""
    start = data[: 1 << 20].lstrip(b"\xef\xbb\xbf \r\n\t")
    if path.suffix in (".jsonl", ".ndjson"):
        return not start.startswith(b"[")
    first, _, rest = start.partition(b"\n")
    return first.startswith(b"{") and bool(rest.strip()) and parsed(first) is not None


def in_folder(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the traces and JSON-lines logs among the files of a folder."""
    own = files_that_match(folder, names, ".jsonl", lambda path, data: data.startswith(HEADER_START))
    return [folder / name for name in names if name in NAMES] + own


def source_of_header(header: dict[str, Any], notes: tuple[str, ...]) -> TableSource:
    """Return the fields and the metadata in the header of a trace."""
    written = header.get("notes")
    return TableSource(
        name=str(header.get("name") or ""),
        compute_column=str(header.get("compute_column") or "compute_gpu_hours"),
        compute_unit=str(header.get("compute_unit") or "gpu-hours"),
        metadata={key: value for key, value in header.items() if key not in (*HEADER_KEYS, "json_columns")},
        notes=(*map(str, written if isinstance(written, list) else ()), *notes),
        reader="trace",
    )


def read_json_lines(path: Path, data: bytes, options: ReadOptions) -> Parts | list[Log]:
    """Return the traces or logs in a JSON-lines file: a trace of this package, or any objects."""
    source, data = path.name, data.removeprefix(BOM)
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
        table_source = source_of_header(header, notes)
        objects = [{key: value for key, value in line.row.items() if key != "kind"} for line in evals]
        table = table_of_objects(objects, [line.number for line in evals], source, "line")
        return parts_of_table(table, options, table_source)
    table_source = TableSource(metadata={"source": source}, notes=notes)
    table = table_of_objects([line.row for line in lines], [line.number for line in lines], source, "line")
    return read_table(table, options, table_source, path, "json lines")


def _is_own(data: bytes) -> bool:
    return b'"header"' in data[:4096] or b'"sigmoid-fit"' in data[:4096]


def _read_fast(data: bytes, path: Path, options: ReadOptions) -> Parts | list[Log] | None:
    """Return the content of lines that all have the same structure; None for others, to be read line by line."""
    whole, notes = whole_lines(data, path.name)
    try:
        columns = parsed_lines(whole)
    except ValueError:
        return None
    table = Table(path.name, columns, list(range(1, columns.n_rows + 1)), "line")
    table_source = TableSource(metadata={"source": path.name}, notes=notes)
    return read_table(table, options, table_source, path, "json lines")


def read_parquet(path: Path, data: bytes, options: ReadOptions) -> Parts | list[Log]:
    """Return the traces or logs in a Parquet file, of this package or from elsewhere."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file_table = pq.ParquetFile(pa.BufferReader(data)).read()
        arrow = ArrowColumns(dict(zip(file_table.column_names, file_table.columns, strict=True)), file_table.num_rows)
        arrow.settle()
    except (pa.ArrowException, OSError, UnicodeError, OverflowError) as error:
        raise TraceError(
            f"{path.name} is not a readable Parquet file ({str(error).splitlines()[0]}); save it again"
        ) from None
    twice = sorted({name for name in file_table.column_names if file_table.column_names.count(name) > 1})
    if twice:
        raise TraceError(f"{path.name} has more than one column {twice[0]!r}; rename or drop one of them")
    rows = list(range(1, file_table.num_rows + 1))
    header = (file_table.schema.metadata or {}).get(b"rlscaling")
    if header is None:
        foreign = Table(path.name, arrow, rows)
        return read_table(foreign, options, TableSource(metadata={"source": path.name}), path, "parquet")
    columns = dict(arrow)
    try:
        about = json.loads(header)
        for name in about.get("json_columns", ()):
            columns[name] = [json.loads(cell) for cell in columns[name]]
    except (ValueError, AttributeError, KeyError, TypeError):
        raise TraceError(f"the rlscaling metadata of {path.name} are damaged; write the file again") from None
    table = Table(path.name, columns, rows)
    if isinstance(about.get("runs"), dict):
        return _parts_of_runs(table, about["runs"], options)
    if "kind" in columns:
        table = table.select([kind == "eval" for kind in columns["kind"]])
    return parts_of_table(table, options, source_of_header(about, ()))


def _parts_of_runs(table: Table, headers: dict[str, Any], options: ReadOptions) -> Parts:
    """Return the traces of a file of several runs, which `write_traces` wrote."""
    labels = [str(cell) for cell in table.columns.get("run", [])]
    present = [label for label in headers if label in set(labels)]
    wanted = present if options.run is None else [label for label in present if label == str(options.run)]
    if not wanted:
        raise TraceError(f"{table.source} has no run {options.run!r}; it has {', '.join(present[:20]) or 'none'}")
    plain = dataclasses.replace(options, run=None)
    parts: Parts = {}
    for label in wanted:
        rows = table.select([other == label for other in labels])
        filled = {
            name: cells
            for name, cells in rows.columns.items()
            if name != "run" and any(cell is not None for cell in cells)
        }
        table_of_run = dataclasses.replace(rows, columns=filled)
        table_source = source_of_header(headers[label] if isinstance(headers[label], dict) else {}, ())
        parts[label if len(present) > 1 else ""] = functools.partial(
            build_trace, table_of_run, label, plain, table_source, []
        )
    return parts
