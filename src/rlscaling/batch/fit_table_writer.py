"""`FitTableWriter`: the rows of a table in an append-only file that no kill can damage, then one Parquet file.

A Parquet file is readable only once it is closed. Rows are therefore first written to ``<out>.journal``, as JSON lines,
each on the disk before the next is computed. When all are there, the table is written in one step, in the order of the
runs rather than in that in which they finished, and the journal is removed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlscaling.batch.fit_table import METADATA_KEY, Row, arrow_schema
from rlscaling.errors import RLScalingError, TraceError
from rlscaling.files import Closeable, check_not_there, replace_file, replace_unless_written
from rlscaling.serialization import plain
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.writer import TraceWriter

ROW_GROUP = 1000  # rows; fixed, so that the bytes do not depend on how the rows came in
ANEW = "start anew with overwrite=True (--overwrite), or choose another file"


def check_out(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Check that a table can be written, before any work is done.

    Raises
    ------
    RLScalingError
        When its name does not end in ``.parquet``, its folder is missing, or there is a table that is to be neither
        continued nor overwritten.
    """
    if resume and overwrite:
        raise RLScalingError("resume=True goes on with what is there, overwrite=True throws it away; give one of them")
    if out.suffix != ".parquet":
        raise RLScalingError(f"out={str(out)!r}: the table is a Parquet file; end the name in .parquet")
    if not out.parent.is_dir():
        raise RLScalingError(f"out={str(out)!r}: there is no folder {out.parent}; make it first")
    if out.is_dir():
        raise RLScalingError(f"out={str(out)!r} is a folder; name a file")
    if resume or overwrite:
        return
    if journal_of(out).exists():
        raise RLScalingError(
            f"{out} was begun and not finished: its rows are in {journal_of(out).name}; go on with resume=True "
            f"(--continue), or {ANEW}"
        )
    check_not_there(out, overwrite, error=RLScalingError)


def journal_of(out: Path) -> Path:
    """Return the file that holds the rows of an unfinished table."""
    return out.with_name(out.name + ".journal")


def files_of(out: Path) -> tuple[Path, Path, Path]:
    """Return the table, its journal and the file for a torn line of the journal: none of them is an input."""
    journal = journal_of(out)
    return out, journal, journal.with_name(journal.name + ".torn")


class FitTableWriter(Closeable):
    """Collects the rows of a table; each is on the disk when ``add`` returns.

    Parameters
    ----------
    out : Path
        The Parquet file.
    options : mapping
        What the table was made of: ``version``, ``seed``, ``options``, and ``inputs``, a list of [name, hash of the
        data].
    columns : dict
        Of the table, from `columns_of`.
    resume, overwrite : bool
        Continue the table that is there, or discard it.

    Attributes
    ----------
    done : dict of str to row
        The rows so far, by name.

    Raises
    ------
    RLScalingError
        As in `check_out`, and when the table that is there was made of other data or with other options, another seed
        or another version.
    """

    def __init__(
        self, out: Path, options: Mapping[str, Any], columns: dict[str, str], *, resume: bool, overwrite: bool
    ) -> None:
        check_out(out, resume=resume, overwrite=overwrite)
        self.out, self.journal = out, journal_of(out)
        self.options: dict[str, Any] = plain(options)
        self.columns = columns
        self.done: dict[str, Row] = {}
        self._writer: TraceWriter | None = None
        if resume and out.exists() and not self.journal.exists():
            before, rows = _read_table(out)
            _check_same(before, self.options, out)
            self.done = {row["run"]: row for row in rows}
            return
        if overwrite and self.journal.exists():
            replace_unless_written(self.journal, b"")
        self._writer = TraceWriter(self.journal, self.options, append=resume or overwrite)
        try:
            _check_same(self._writer.header, self.options, self.journal)
            for line in read_jsonl(self.journal)[1]:
                self.done |= {row["run"]: row for row in line["rows"]}
        except BaseException:
            self._writer.close()
            raise

    def add(self, rows: Sequence[Row]) -> None:
        """Write rows to the disk."""
        assert self._writer is not None, "a finished table takes no rows"
        assert not any(row["run"] in self.done for row in rows), "a run has one row"
        try:
            self._writer.write("fits", rows=list(rows))
        except OSError as error:
            raise RLScalingError(
                f"cannot write {self.journal}: {error.strerror}; the {len(self.done)} rows before are kept: go on with "
                "resume=True (--continue)"
            ) from error
        self.done |= {row["run"]: row for row in rows}

    def finish(self) -> list[Row]:
        """Write the table, remove the journal, and return the rows in the order of the runs."""
        rows = [self.done[name] for name, _ in self.options["inputs"]]
        if self._writer is not None:
            replace_file(self.out, _table_bytes(rows, self.columns, self.options))
            self.close()
            for path in files_of(self.out)[1:]:
                path.unlink(missing_ok=True)
        return rows

    def close(self) -> None:
        """Close the journal, which keeps its rows, so that another process may continue it."""
        if self._writer is not None:
            self._writer.close()


def _table_bytes(rows: Sequence[Row], columns: dict[str, str], options: dict[str, Any]) -> bytes:
    """Return the Parquet file: the same bytes for the same rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, buffer = arrow_schema(columns, options), io.BytesIO()
    with pq.ParquetWriter(buffer, schema) as writer:
        for start in range(0, len(rows), ROW_GROUP):
            writer.write_table(pa.Table.from_pylist(list(rows[start : start + ROW_GROUP]), schema=schema))
    return buffer.getvalue()


def _read_table(out: Path) -> tuple[dict[str, Any], list[Row]]:
    """Return the options of a finished table, and its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(out)
        options = json.loads((table.schema.metadata or {})[METADATA_KEY.encode()])
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        cause = "" if isinstance(error, KeyError) else f" ({error})"
        raise TraceError(f"{out} is not a table of fits{cause}: nothing to go on with; {ANEW}") from None
    return options, table.to_pylist()


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Raise unless a table that is to be continued was made of the same runs with the same options."""
    if "inputs" not in before:
        raise TraceError(f"{path} is not the journal of a table of fits; {ANEW}")
    for name in ("version", "seed"):
        if before.get(name) != now[name]:
            raise RLScalingError(f"{path} was begun with {name} {before.get(name)}, this is {now[name]}; {ANEW}")
    old, new = before.get("options") or {}, now["options"]
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if changed:
        name = changed[0]
        raise RLScalingError(f"{path} was begun with {name} = {old.get(name)}, not {new.get(name)}; {ANEW}")
    other = _other_input(dict(before["inputs"]), dict(now["inputs"]))
    if other or before["inputs"] != now["inputs"]:
        raise RLScalingError(f"{path} was begun with other runs: {other or 'their order is another one'}; {ANEW}")


def _other_input(before: dict[str, str], now: dict[str, str]) -> str:
    """Return the first run that is new, gone or changed, in a few words."""
    for name in (*now, *before):
        if name not in before:
            return f"{name} is new"
        if name not in now:
            return f"{name} is gone"
        if before[name] != now[name]:
            return f"the data of {name} have changed"
    return ""
