"""Columns of pyarrow tables, converted when they are asked for.

A log has some 75 metrics, of which a dozen are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.readers.decoding.values import as_number

BLOCK = 1 << 22


class ArrowColumns(Mapping[str, list[Any]]):
    """Columns by name, each a list of cells; `numbers` has them as numbers, without the cells.

    Parameters
    ----------
    arrays
        Arrays of pyarrow, of one length.
    n_rows
        That length.
    """

    def __init__(self, arrays: Mapping[str, Any], n_rows: int) -> None:
        self._arrays, self.n_rows = dict(arrays), n_rows
        self._cells: dict[str, list[Any]] = {}

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._cells:
            self._cells[name] = self._arrays[name].to_pylist()
        return self._cells[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def settle(self) -> None:
        """Convert all columns but those of numbers, so that damage in them raises here."""
        for name in self:
            if not self._plain(name):
                self[name]

    def _plain(self, name: str) -> bool:
        import pyarrow.types as pt

        kind = self._arrays[name].type
        return bool(pt.is_integer(kind) or pt.is_floating(kind))

    def holds_numbers(self, name: str) -> bool:
        """Return whether any cell of a column is a number."""
        if self._plain(name):
            return bool(self._arrays[name].null_count < self.n_rows)
        return holds_numbers(self[name])

    def numbers(self, names: Sequence[str]) -> dict[str, FloatArray]:
        """Return some columns as numbers, NaN where a cell is none and where there is no such column."""
        return {name: self._numbers(name) for name in names}

    def _numbers(self, name: str) -> FloatArray:
        if name not in self._arrays:
            return np.full(self.n_rows, math.nan)
        if self._plain(name):
            return np.asarray(self._arrays[name].to_numpy(zero_copy_only=False), np.float64)
        return as_numbers(self[name])


def holds_numbers(cells: Sequence[Any]) -> bool:
    """Return whether any cell is a number."""
    return any(as_number(cell) is not None for cell in cells)


def as_numbers(cells: Sequence[Any]) -> FloatArray:
    """Return cells as numbers, NaN where one is none."""
    numbers = map(as_number, cells)
    return np.fromiter((math.nan if number is None else number for number in numbers), np.float64, len(cells))


def parsed_lines(data: bytes) -> ArrowColumns:
    """Return the columns of JSON lines.

    Parameters
    ----------
    data
        Lines with an object each, none of them blank.

    Raises
    ------
    ValueError
        For lines that do not all have the same structure: broken or blank ones, NaN, numbers among text, objects in
        cells. Those are to be parsed line by line, which reads them or names the fault.
    """
    import pyarrow as pa
    import pyarrow.json as pj
    import pyarrow.types as pt

    read = pj.ReadOptions(use_threads=False, block_size=BLOCK)
    try:
        table = pj.read_json(pa.BufferReader(data), read_options=read)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
    if table.num_rows != data.count(b"\n") + (not data.endswith(b"\n")):
        raise ValueError("blank lines")
    arrays = {name: table[name] for name in table.column_names}
    if any(pt.is_nested(array.type) or pt.is_temporal(array.type) for array in arrays.values()):
        raise ValueError("cells that are neither numbers nor text")
    columns = ArrowColumns(arrays, table.num_rows)
    columns.settle()
    return columns
