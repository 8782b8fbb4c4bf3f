"""CSV and JSON tables, with errors that name the row."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.logs.from_tables import read_table
from rlscaling.readers.logs.log import Log
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.table import Parts, Table, is_blank

_DELIMITERS = ",\t;|"


def is_json(path: Path, data: bytes) -> bool:
    """Return whether the content is one JSON value, by the file's ending or its first character."""
    return path.suffix == ".json" or data[:4096].lstrip(b"\xef\xbb\xbf \r\n\t")[:1] in (b"{", b"[")


def read_json(path: Path, data: bytes, options: ReadOptions) -> Parts | list[Log]:
    """Return the traces or logs in a JSON file."""
    return read_table(table_of_json(decode(data, path.name), path.name), options, None, path, "json")


def is_csv(path: Path, data: bytes) -> bool:
    """Return True: what no other format claims is read as CSV, whose errors say what is missing."""
    return True


def read_csv(path: Path, data: bytes, options: ReadOptions) -> Parts | list[Log]:
    """Return the traces or logs in a CSV file."""
    return read_table(table_of_csv(decode(data, path.name), path.name), options, None, path, "csv")


def decode(data: bytes, source: str) -> str:
    """Return the text of a file; a byte order mark decides, UTF-8 otherwise."""
    if not data.strip():
        raise TraceError(f"{source} is empty; give a file with evaluations")
    utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        if not utf16 and b"\0" in data:
            raise UnicodeError
        return data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeError:
        raise TraceError(
            f"{source} is not text in UTF-8 (a binary or compressed file?); give CSV, JSON lines or Parquet"
        ) from None


def table_of_csv(text: str, source: str) -> Table:
    """Return the table of a CSV file; the delimiter is guessed, the first row holds the names."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    names: list[str] = []
    columns: list[list[Any]] = []
    rows: list[int] = []
    try:
        for cells in reader:
            if not cells:
                continue
            if not names:
                names = _header(cells, source)
                columns = [[] for _ in names]
                continue
            if len(cells) != len(names):
                raise TraceError(
                    f"{source}, row {reader.line_num}: {len(cells)} cells under {len(names)} column names; a "
                    "row cut short, a decimal comma, or a delimiter inside a cell without quotes: repair "
                    "that row"
                )
            rows.append(reader.line_num)
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
    except csv.Error as error:
        raise TraceError(f"{source}, row {reader.line_num}: not readable as CSV ({error}); repair that row") from None
    return Table(source, dict(zip(names, columns, strict=True)), rows)


def _delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=first.count)


def _header(cells: list[str], source: str) -> list[str]:
    names = [cell.strip() or f"column {i}" for i, cell in enumerate(cells, start=1)]
    if any(_is_number(cell) for cell in cells):
        raise TraceError(
            f"{source} has no header: its first row holds numbers ({', '.join(cells[:4])}); add a row of "
            "column names, such as compute,pass_rate"
        )
    if len(names) == 1:
        raise TraceError(
            f"{source} has one column only ({names[0][:60]!r}); give at least compute and pass_rate, "
            "separated by comma, tab or semicolon"
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise TraceError(f"{source} has two columns named {twice!r}; rename one")
    return names


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return not is_blank(cell)


def table_of_objects(objects: list[dict[str, Any]], numbers: list[int], source: str, row_word: str) -> Table:
    """Return the table of a list of objects; a key that an object lacks is a blank cell."""
    names = list(dict.fromkeys(str(key) for row in objects for key in row))
    return Table(source, {name: [row.get(name) for row in objects] for name in names}, numbers, row_word)


def table_of_json(text: str, source: str) -> Table:
    """Return the table of one JSON value: a list of objects, or an object of lists."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"{source} is not readable as JSON ({error}); repair it, or give one object per line"
        ) from None
    if isinstance(value, dict):
        refuse_saved_fit(value, source)
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return table_of_objects(value, list(range(1, len(value) + 1)), source, "item")
    if isinstance(value, dict):
        lists = {str(key): cells for key, cells in value.items() if isinstance(cells, list)}
        lengths = {len(cells) for cells in lists.values()}
        if len(lengths) == 1 and len(lists) > 1:
            return Table(source, lists, list(range(1, lengths.pop() + 1)), "item")
    raise TraceError(
        f"{source} is JSON, but neither a list of objects nor an object of equally long lists; give one of these"
    )


def refuse_saved_fit(value: dict[str, Any], source: str) -> None:
    """Raise when an object is a saved fit: it has data inside, but it is not a trace."""
    if value.get("kind") == "sigmoid-fit":
        raise TraceError(
            f"{source} is a saved fit, not a trace; load it with SigmoidFit.from_dict, or give the trace it "
            "was made from"
        )
