"""A table of fits on its way to the disk: a journal that no kill can damage, and from it one Parquet file.

A Parquet file is readable once it is closed, so rows that come in go to ``<out>.journal``, JSON lines, on the disk
before the next are taken. When all are there the table is written in one step, in the order of the runs and not in
that in which they were finished, and the journal goes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlscaling.batch.fit_table import METADATA_KEY, Row, arrow_schema
from rlscaling.errors import RLScalingError, TraceError
from rlscaling.files import replace_file, replace_unless_written
from rlscaling.serialization import plain
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.writer import TraceWriter

ROW_GROUP = 1000  # rows; fixed, so that the bytes do not depend on how the rows came in
ANEW = "start anew with overwrite=True (--overwrite), or choose another file"


def check_out(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse a table that could not be written, before any work is done.

    Raises
    ------
    RLScalingError
        Where its name does not end in ``.parquet``, its folder is missing, or something is there that was not said
        to be continued or overwritten.
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
    if out.exists():
        raise RLScalingError(
            f"{out} exists and is not written over; choose another name, or overwrite=True (--overwrite)"
        )


def journal_of(out: Path) -> Path:
    """Return where the rows of a table that is not finished are."""
    return out.with_name(out.name + ".journal")


def files_of(out: Path) -> tuple[Path, Path, Path]:
    """Return the table, its journal, and what the journal sets aside: none of them is an input."""
    journal = journal_of(out)
    return out, journal, journal.with_name(journal.name + ".torn")


class FitTableWriter:
    """Collects the rows of a table; each is on the disk when ``add`` returns.

    Parameters
    ----------
    out : Path
        The Parquet file.
    asked : mapping
        What the table is of: ``version``, ``seed``, ``options``, and ``inputs``, a list of [name, hash of the data].
    columns : dict
        Of the table, from `columns_of`.
    resume, overwrite : bool
        Go on with what is there, or throw it away.

    Attributes
    ----------
    done : dict of str to row
        The rows so far, by name.

    Raises
    ------
    RLScalingError
        As `check_out`; and when what is there was made from other data, with other options, another seed or version.
    """

    def __init__(
        self, out: Path, asked: Mapping[str, Any], columns: dict[str, str], *, resume: bool, overwrite: bool
    ) -> None:
        check_out(out, resume=resume, overwrite=overwrite)
        self.out, self.journal = out, journal_of(out)
        self.asked: dict[str, Any] = plain(asked)
        self.columns = columns
        self.done: dict[str, Row] = {}
        self._writer: TraceWriter | None = None
        if resume and out.exists() and not self.journal.exists():
            there, rows = _read_table(out)
            _check_same(there, self.asked, out)
            self.done = {row["run"]: row for row in rows}
            return
        if overwrite and self.journal.exists():
            replace_unless_written(self.journal, b"")
        self._writer = TraceWriter(self.journal, self.asked, append=resume or overwrite)
        try:
            _check_same(self._writer.header, self.asked, self.journal)
            for line in read_jsonl(self.journal)[1]:
                self.done |= {row["run"]: row for row in line["rows"]}
        except BaseException:
            self._writer.close()
            raise

    def add(self, rows: Sequence[Row]) -> None:
        """Put rows on the disk."""
        assert self._writer is not None, "a finished table takes no rows"
        assert not any(row["run"] in self.done for row in rows), "a run is answered once"
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
        rows = [self.done[name] for name, _ in self.asked["inputs"]]
        if self._writer is not None:
            replace_file(self.out, _table_bytes(rows, self.columns, self.asked))
            self.close()
            for path in files_of(self.out)[1:]:
                path.unlink(missing_ok=True)
        return rows

    def close(self) -> None:
        """Let another process have the journal; what is in it stays."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _table_bytes(rows: Sequence[Row], columns: dict[str, str], asked: dict[str, Any]) -> bytes:
    """Return the Parquet file: the same bytes for the same rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, buffer = arrow_schema(columns, asked), io.BytesIO()
    with pq.ParquetWriter(buffer, schema) as writer:
        for start in range(0, len(rows), ROW_GROUP):
            writer.write_table(pa.Table.from_pylist(list(rows[start : start + ROW_GROUP]), schema=schema))
    return buffer.getvalue()


def _read_table(out: Path) -> tuple[dict[str, Any], list[Row]]:
    """Return what a finished table is of, and its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(out)
        asked = json.loads((table.schema.metadata or {})[METADATA_KEY.encode()])
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        said = "" if isinstance(error, KeyError) else f" ({error})"
        raise TraceError(f"{out} is not a table of fits{said}: nothing to go on with; {ANEW}") from None
    return asked, table.to_pylist()


def _check_same(there: Mapping[str, Any], asked: Mapping[str, Any], path: Path) -> None:
    """Refuse to go on with a table that is of something else."""
    if "inputs" not in there:
        raise TraceError(f"{path} is not the journal of a table of fits; {ANEW}")
    for name in ("version", "seed"):
        if there.get(name) != asked[name]:
            raise RLScalingError(f"{path} was begun with {name} {there.get(name)}, this is {asked[name]}; {ANEW}")
    before, now = there.get("options") or {}, asked["options"]
    other = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if other:
        name = other[0]
        raise RLScalingError(f"{path} was begun with {name} = {before.get(name)}, not {now.get(name)}; {ANEW}")
    found = _other_input(dict(there["inputs"]), dict(asked["inputs"]))
    if found or there["inputs"] != asked["inputs"]:
        raise RLScalingError(f"{path} was begun with other runs: {found or 'their order is another one'}; {ANEW}")


def _other_input(before: dict[str, str], now: dict[str, str]) -> str:
    """Return in a few words the first run that is new, gone or changed."""
    for name in (*now, *before):
        if name not in before:
            return f"{name} is new"
        if name not in now:
            return f"{name} is gone"
        if before[name] != now[name]:
            return f"the data of {name} have changed"
    return ""
