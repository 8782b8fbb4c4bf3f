"""Read-only SQLite files of loggers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError

MAGIC = b"SQLite format 3\0"


class ReadOnlyDatabase:
    """A connection that can only select."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def tables(self) -> set[str]:
        """Return the names of the tables."""
        return {name for (name,) in self.select("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def select(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        yield from self._connection.execute(query, values)


@contextmanager
def opened(path: Path) -> Iterator[ReadOnlyDatabase]:
    """Open a database for reading.

    Rows that a running logger has written to the ``-wal`` file beside it are included; where that file cannot be
    shared, as on a read-only disk, the database is read without it.

    Raises
    ------
    TraceError
        When the file is damaged or not a database.
    """
    wal = path.with_name(path.name + "-wal")
    mode = "mode=ro" if wal.exists() else "mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=5)
    except sqlite3.Error as error:
        raise TraceError(
            f"cannot open {path.name}: {error}; copy it, with its -wal file, to a disk of your own"
        ) from None
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        yield ReadOnlyDatabase(connection)
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise TraceError(f"{path.name} is damaged or of another version ({error}); export the run again") from None
    finally:
        connection.close()


def holds_tables(path: Path, data: bytes, wanted: set[str]) -> bool:
    """Return whether a file is a database with these tables."""
    if not data.startswith(MAGIC):
        return False
    try:
        with opened(path) as database:
            return wanted <= database.tables()
    except TraceError:
        return False
