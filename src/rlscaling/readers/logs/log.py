"""`Log`: the rows of one run in the order of writing, one numeric column per metric, from whatever logger."""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.errors import TraceError
from rlscaling.readers.decoding.values import as_number

STEP, TIME = "_step", "_timestamp"
"""Keys under which readers store the logger's own step counter and the clock, in seconds."""

MAX_CELLS = 30_000_000
"""Logs with more numbers than this, which take 480 MB, are not read."""


@dataclasses.dataclass(frozen=True)
class Log:
    """The rows of one run.

    Parameters
    ----------
    source
        What messages call the file.
    reader
        The kind of file.
    n_rows
        Rows in the order of writing.
    keys
        Every key that holds a number somewhere.
    load
        Returns the columns of some keys, float64 of shape (n_rows,) each, NaN where a row lacks the key.
    run
        Name of the run, where the source holds several or names it.
    files
        What was read.
    content
        The bytes of the file, where there is only one and it has been read.
    config
        The run's configuration, where the logger stores it; nested keys are joined by dots.
    domains
        Which evaluation set each row belongs to, where it names one.
    notes
        What was assumed or lost while reading, a sentence each.
    unusable
        Key -> rows in which its value is not a finite number: NaN, null, text.
    """

    source: str
    reader: str
    n_rows: int
    keys: tuple[str, ...]
    load: Callable[[Sequence[str]], dict[str, FloatArray]]
    run: str = ""
    files: tuple[Path, ...] = ()
    content: bytes | None = None
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    domains: Sequence[str | None] | None = None
    notes: tuple[str, ...] = ()
    unusable: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def column(self, key: str) -> FloatArray:
        """Return one column."""
        return self.load([key])[key]


class LogBuilder:
    """Collects rows and makes a `Log` of them; only numbers are stored.

    Examples
    --------
    >>> builder = LogBuilder("a.jsonl", "json lines")
    >>> builder.add({"step": 1, "acc": 0.5, "note": "x"})
    >>> builder.add({"step": 2})
    >>> log = builder.log()
    >>> log.keys, log.column("acc")
    (('step', 'acc'), array([0.5, nan]))
    """

    def __init__(self, source: str, reader: str) -> None:
        self.source, self.reader = source, reader
        self.n_rows = 0
        self._cells: dict[str, tuple[array[int], array[float]]] = {}
        self._n_cells = 0
        self._domains: dict[int, str] = {}
        self._unusable: dict[str, int] = {}

    def add(self, row: Mapping[str, Any], domain: str | None = None) -> None:
        """Append a row."""
        at, cells = self.n_rows, self._cells
        for key, value in row.items():
            number = value if type(value) is float else as_number(value)
            if number is None or not math.isfinite(number):
                self._unusable[key] = self._unusable.get(key, 0) + 1
            if number is not None:
                if key not in cells:
                    cells[key] = array("l"), array("d")
                rows, values = cells[key]
                rows.append(at)
                values.append(number)
                self._n_cells += 1
        if self._n_cells > MAX_CELLS:
            raise TraceError(f"{self.source} holds more than {MAX_CELLS:,} numbers; export fewer metrics, or split it")
        if domain is not None:
            self._domains[at] = domain
        self.n_rows += 1

    def add_cells(self, cells: Iterable[tuple[Any, Any, str, Any]]) -> None:
        """Append what was written cell by cell: (step, time, key, value) in order.

        Consecutive cells of one step form one row, until a key occurs again.
        """
        row: dict[str, Any] = {}
        for step, time, key, value in cells:
            if row and (row[STEP] != step or key in row):
                self.add(row)
                row = {}
            if not row:
                row = {STEP: step, TIME: time}
            row[key] = value
        if row:
            self.add(row)

    def _load(self, keys: Sequence[str]) -> dict[str, FloatArray]:
        loaded = {}
        for key in keys:
            column = np.full(self.n_rows, math.nan)
            if key in self._cells:
                rows, values = self._cells[key]
                column[np.asarray(rows)] = np.asarray(values)
            loaded[key] = column
        return loaded

    def log(self, **fields: Any) -> Log:
        """Return the log; ``fields`` are the others of `Log`."""
        domains = [self._domains.get(i) for i in range(self.n_rows)] if self._domains else None
        kept = {key: n for key, n in self._unusable.items() if key in self._cells}
        return Log(
            self.source, self.reader, self.n_rows, tuple(self._cells), self._load,
            domains=domains, unusable=kept, **fields,
        )  # fmt: skip
