"""Our own trace files, JSON lines and Parquet, and Parquet from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.journal import HEADER_KEYS, check_header, parse_lines

from .table import Origin, Parts, ReadOptions, Table, parts_of_table
from .text import refuse_saved_fit, table_of_objects

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
    )


def parts_of_jsonl(data: bytes, source: str, options: ReadOptions) -> Parts:
    """Return the traces in a JSON-lines file: ours, or one object a line from elsewhere."""
    lines, good = parse_lines(data, source)
    torn = len(data) - good
    notes: tuple[str, ...] = (
        (f"The last line of {source} was cut short ({torn} bytes) and was left out.",) if torn else ()
    )
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
    else:
        evals, origin = lines, Origin(metadata={"source": source}, notes=notes)
        objects = [line.row for line in lines]
    table = table_of_objects(objects, [line.number for line in evals], source, "line")
    return parts_of_table(table, options, origin)


def parts_of_parquet(path: Path, options: ReadOptions) -> Parts:
    """Return the traces in a Parquet file, ours or from elsewhere."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise TraceError(
            f"{path.name} is not a readable Parquet file ({str(error).splitlines()[0]}); save it again"
        ) from None
    twice = sorted({name for name in data.column_names if data.column_names.count(name) > 1})
    if twice:
        raise TraceError(f"{path.name} has more than one column {twice[0]!r}; rename or drop one of them")
    columns = dict(zip(data.column_names, (column.to_pylist() for column in data.columns), strict=True))
    table = Table(path.name, columns, list(range(1, data.num_rows + 1)))
    header = (data.schema.metadata or {}).get(b"rlscaling")
    if header is None:
        return parts_of_table(table, options, Origin(metadata={"source": path.name}))
    try:
        known = json.loads(header)
        for name in known.get("json_columns", ()):
            columns[name] = [json.loads(cell) for cell in columns[name]]
    except (ValueError, AttributeError, KeyError, TypeError):
        raise TraceError(f"the rlscaling metadata of {path.name} are damaged; write the file again") from None
    if "kind" in columns:
        table = table.select([kind == "eval" for kind in columns["kind"]])
    return parts_of_table(table, options, origin_of_header(known, ()))
