"""A table with any column names, and the traces in it."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.errors import TraceError
from rlscaling.readers.column_names import (
    COMPUTE_NAMES,
    NOT_A_PASS_RATE,
    NOT_COMPUTE,
    PASS_RATE_NAMES,
    PLAIN_COMPUTE,
    compute_of,
    core_of,
    plain_name,
    unit_of,
)
from rlscaling.readers.options import FOR_LOGS, ReadOptions
from rlscaling.readers.receipt import Receipt
from rlscaling.traces.series import check_series, likely_scale
from rlscaling.traces.trace import Trace

Parts = dict[str, Callable[[], Trace]]
"""The traces of one file, built when called: label within the file ("" for the only one) -> trace."""

BLANK = ("", "nan", "na", "<na>", "null", "none")
RUN_COLUMNS = ("run", "run_id", "run_name", "experiment", "recipe", "name", "seed")


@dataclasses.dataclass(frozen=True)
class Table:
    """Cells as they are in the file: column name -> one cell per row, and the number of each row in the file."""

    source: str
    columns: Mapping[str, list[Any]]
    rows: list[int]
    row_word: str = "row"

    def select(self, keep: list[bool]) -> Table:
        """Return the rows to keep."""

        def kept(cells: list[Any]) -> list[Any]:
            return [cell for cell, k in zip(cells, keep, strict=True) if k]

        return dataclasses.replace(
            self, columns={name: kept(cells) for name, cells in self.columns.items()}, rows=kept(self.rows)
        )


@dataclasses.dataclass(frozen=True)
class TableSource:
    """What a file states besides its table; ``reader`` where the receipt is to name another one than that of tables."""

    name: str = ""
    compute_column: str | None = None
    compute_unit: str | None = None
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reader: str = ""


def parts_of_table(table: Table, options: ReadOptions, table_source: TableSource | None = None) -> Parts:
    """Return the traces in a table, one for each run and domain that the options leave."""
    table_source = table_source or TableSource(metadata={"source": table.source})
    if not table.rows:
        raise TraceError(f"{table.source} has a header but no rows; give a file with evaluations")
    run_columns = _run_columns(table, options)
    parts = _runs(table, options, run_columns)
    if "domain" in table.columns:
        parts = _split(parts, ["domain"], options.domain, "domain")
    elif options.domain is not None and table_source.metadata.get("domain") != options.domain:
        raise TraceError(
            f"domain={options.domain!r} was given, but {table.source} does not tell domains apart; leave the option out"
        )
    return {label: _builder(part, label, options, table_source, run_columns) for label, part in parts.items()}


def split_runs(table: Table, options: ReadOptions) -> dict[str, Table]:
    """Return the rows of each run that the options leave, by the run's label."""
    return _runs(table, options, _run_columns(table, options))


def _runs(table: Table, options: ReadOptions, run_columns: list[str]) -> dict[str, Table]:
    if run_columns:
        return _split({"": table}, run_columns, None if options.run is None else str(options.run), "run")
    if options.run is not None:
        raise TraceError(
            f"run={options.run!r} was given, but {table.source} has no column that tells runs apart; "
            f"name it with run_column= / --run-column. {describe(table)}"
        )
    return {"": table}


def _builder(
    part: Table, label: str, options: ReadOptions, table_source: TableSource, run_columns: list[str]
) -> Callable[[], Trace]:
    return lambda: build_trace(part, label, options, table_source, run_columns)


def _run_columns(table: Table, options: ReadOptions) -> list[str]:
    """Return the columns that together distinguish runs."""
    if options.run_column is not None:
        return [_named(table, options.run_column, "run_column= / --run-column")]
    counts = [(name, len(_labels(table, name))) for name in RUN_COLUMNS if name in table.columns]
    # a different value in every row names checkpoints, not runs
    distinguishing = [name for name, n in counts if 1 < n < len(table.rows)]
    unique = [name for name in distinguishing if name.startswith("run")]
    return unique[:1] or distinguishing or [name for name, n in counts if n == 1][:1]


def _labels(table: Table, column: str) -> list[str]:
    return list(dict.fromkeys(_label(cell) for cell in table.columns[column]))


def _label(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "unnamed" if is_blank(cell) else str(cell).strip()


def _split(parts: dict[str, Table], columns: list[str], wanted: str | None, what: str) -> dict[str, Table]:
    """Split every part by the values of some columns; a single value adds nothing to the label."""
    result: dict[str, Table] = {}
    for label, table in parts.items():
        keys = _keys(table, columns)
        values = list(dict.fromkeys(keys))
        if wanted is not None and wanted not in values:
            raise TraceError(
                f"{table.source} has no {what} {wanted!r} in column {':'.join(columns)!r}; it has "
                f"{', '.join(values[:20])}{nearest(wanted, values)}"
            )
        for value in values if wanted is None else [wanted]:
            name = ":".join(filter(None, (label, value if len(values) > 1 and wanted is None else "")))
            result[name] = table.select([key == value for key in keys])
    return result


def _keys(table: Table, columns: list[str]) -> list[str]:
    return [":".join(map(_label, cells)) for cells in zip(*(table.columns[name] for name in columns), strict=True)]


def build_trace(
    table: Table, label: str, options: ReadOptions, table_source: TableSource, run_columns: list[str]
) -> Trace:
    """Return the trace of one run and domain."""
    notes = list(table_source.notes)
    compute_column = _compute_column(table, options, table_source, notes)
    pass_rate_column = _pass_rate_column(table, options, notes)
    if compute_column == pass_rate_column:
        raise TraceError(f"column {compute_column!r} cannot be both compute and pass rate; name another one")
    unit = options.compute_unit or _unit(compute_column, table_source, notes)
    n_read = len(table.rows)
    table = _without_blanks(table, compute_column, pass_rate_column, options, notes)
    scale, y = scaled(numbers(table, pass_rate_column), options, table_source, notes)
    C = numbers(table, compute_column)
    try:
        if compute_column != table_source.compute_column:
            C = compute_of(compute_column, C, unit, notes)
        C, y = check_series(C, y, scale=scale, rows=table.rows)
    except TraceError as error:
        raise TraceError(f"{table.source}{':' + label if label else ''}: {error}") from None
    chosen = (compute_column, pass_rate_column, *run_columns, "domain")
    columns = {name: _extra(table, name, scale) for name in table.columns if name not in chosen}
    metadata = {"scale": scale, **table_source.metadata}
    if scale not in ("fraction", metadata["scale"]):
        metadata["scale"] = scale
    for key, names in (("run", run_columns), ("domain", ["domain"] if "domain" in table.columns else [])):
        if names:
            metadata[key] = _keys(table, names)[0]
    if options.receipt and "receipt" not in metadata:
        receipt = Receipt(reader=table_source.reader, run=label, rows_read=n_read, rows_kept=len(C))
        receipt.assumed = {"compute unit": unit, "scale": scale}
        receipt.columns = {"pass rate": pass_rate_column, "compute": compute_column}
        receipt.drop("without compute or pass rate", n_read - len(C))
        metadata["receipt"] = receipt.to_dict()
    if without_effect := options.without_effect(FOR_LOGS):
        notes.append(f"{', '.join(without_effect)}: no effect on a table or trace, whose compute is in a column.")
    try:
        return Trace(
            C, y, compute_unit=unit, name=table_source.name, columns=columns, metadata=metadata, notes=tuple(notes)
        )
    except TraceError as error:  # what its own header states
        raise TraceError(f"{table.source}: {error}") from None


def _compute_column(table: Table, options: ReadOptions, table_source: TableSource, notes: list[str]) -> str:
    option = "compute_column= / --compute-column"
    if options.compute_column is not None:
        return _named(table, options.compute_column, option)
    if options.compute_from is not None and not (
        table_source.compute_column and options.compute_from == table_source.compute_unit
    ):
        names = [name for name in table.columns if (PLAIN_COMPUTE.get(name) or unit_of(name)) == options.compute_from]
        names = [name for name in names if not re.search(NOT_COMPUTE, name.lower())]
        if len(names) != 1:
            which = f"the {options.compute_from} could be {' or '.join(map(repr, names))}" if names else (
                f"no column counts {options.compute_from}, by its name")  # fmt: skip
            raise TraceError(f"{table.source}: {which}; choose with {option}. {describe(table)}")
        return names[0]
    if table_source.compute_column is not None:
        return _named(table, table_source.compute_column, option)
    return _choose(table, COMPUTE_NAMES, "compute", notes)


def _pass_rate_column(table: Table, options: ReadOptions, notes: list[str]) -> str:
    if options.pass_rate_column is not None:
        return _named(table, options.pass_rate_column, "pass_rate_column= / --pass-rate-column")
    if options.metric is None:
        return _choose(table, PASS_RATE_NAMES, "pass rate", notes)
    names = [name for name in table.columns if fnmatch.fnmatchcase(name, options.metric)]
    if len(names) > 1 and options.metric not in names:
        raise TraceError(
            f"{table.source}: metric={options.metric!r} matches {len(names)} columns ({', '.join(names[:20])}), and a "
            "table is read as one curve; name one"
        )
    return names[0] if len(names) == 1 else _named(table, options.metric, "metric= / --metric")


def _named(table: Table, name: str, option: str) -> str:
    if name in table.columns:
        return name
    hint = nearest(name, list(table.columns)) or "."
    raise TraceError(f"{table.source} has no column {name!r} ({option}){hint} {describe(table)}")


def nearest(name: str, names: list[str]) -> str:
    """Return a hint at the nearest of some names, or an empty text."""
    lower = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), list(lower), n=1, cutoff=0.5)
    return f"; did you mean {lower[close[0]]!r}?" if close else ""


def describe(table: Table) -> str:
    """Return one sentence that lists the columns with counts and ranges."""
    shown = [f"{name} ({_describe_cells(cells)})" for name, cells in list(table.columns.items())[:40]]
    more = f", and {len(table.columns) - 40} more" if len(table.columns) > 40 else ""
    return f"The columns are: {', '.join(shown)}{more}."


def _describe_cells(cells: list[Any]) -> str:
    filled = [cell for cell in cells if not is_blank(cell)]
    if not filled:
        return "blank"
    values = [v for v in map(_try_number, filled) if v is not None and math.isfinite(v)]
    if len(values) < len(filled):
        return f"{len(filled)} values, text"
    if len(values) == 1:
        return f"1 value, {values[0]:g}"
    return f"{len(values)} values, {min(values):g} to {max(values):g}"


def _choose(table: Table, ranks: tuple[str, ...], what: str, notes: list[str]) -> str:
    """Return the column with the plainest name, and raise where several are equally plain."""
    option = f"{what.replace(' ', '_')}_column= / --{what.replace(' ', '-')}-column"
    never = NOT_A_PASS_RATE if what == "pass rate" else NOT_COMPUTE
    usable = [
        name for name, cells in table.columns.items() if _has_numbers(cells) and not re.search(never, name.lower())
    ]
    for rank, pattern in enumerate(ranks):
        # the plain name (rank 0) is taken whatever it holds: a blank one is an error
        core = core_of if rank and what == "compute" else plain_name
        names = [name for name in (usable if rank else table.columns) if re.search(pattern, core(name))]
        if len(names) > 1:
            raise TraceError(
                f"{table.source}: the {what} could be {' or '.join(map(repr, names))}; choose with {option}. "
                + describe(table)
            )
        if names:
            if rank:
                notes.append(f"Took column {names[0]!r} as the {what}; {option} chooses.")
            return names[0]
    raise TraceError(f"{table.source}: no column looks like the {what}; name it with {option}. {describe(table)}")


def _has_numbers(cells: list[Any]) -> bool:
    return any(_try_number(cell) is not None for cell in cells if not is_blank(cell))


def _unit(column: str, table_source: TableSource, notes: list[str]) -> str:
    if table_source.compute_unit and (column == table_source.compute_column):
        return table_source.compute_unit
    plain = PLAIN_COMPUTE.get(column)
    if plain:
        return plain
    unit = unit_of(column)
    if unit:
        notes.append(
            f"Took the unit {unit} from the name of column {column!r}; compute_unit= / --compute-unit chooses."
        )
        return unit
    notes.append(f"Took column {column!r} to be in gpu-hours; compute_unit= / --compute-unit chooses.")
    return "gpu-hours"


def _without_blanks(table: Table, compute: str, pass_rate: str, options: ReadOptions, notes: list[str]) -> Table:
    keep = [True] * len(table.rows)
    for name, what in ((pass_rate, "pass rate"), (compute, "compute")):
        blank = [k and is_blank(cell) for k, cell in zip(keep, table.columns[name], strict=True)]
        n = sum(blank)
        if not n:
            continue
        if not options.drop_missing:
            raise TraceError(
                f"{table.source}: {n} of {len(blank)} {table.row_word}s have no {what} (column {name!r} is "
                f"blank, first in {table.row_word} {table.rows[blank.index(True)]}); fill them, or leave "
                "them out with drop_missing=True / --drop-missing"
            )
        what = what if what == "compute" else f"a {what}"
        notes.append(f"Left out {n} {table.row_word}{'s' if n > 1 else ''} without {what} (column {name!r}).")
        keep = [k and not b for k, b in zip(keep, blank, strict=True)]
    if not any(keep):
        raise TraceError(f"{table.source}: no {table.row_word} has both compute and a pass rate. {describe(table)}")
    return table if all(keep) else table.select(keep)


def scaled(y: FloatArray, options: ReadOptions, table_source: TableSource, notes: list[str]) -> tuple[str, FloatArray]:
    """Return the scale, once "auto" and the one stated in the file are resolved, and the values."""
    scale = options.scale
    if scale in ("fraction", "auto") and table_source.metadata.get("scale") == "reward":
        return "reward", y
    if scale != "auto":
        return scale, y
    if np.isfinite(y).all() and likely_scale(y) == "reward" and y.min() >= 0 and y.max() <= 2:
        notes.append(
            f"Values reach {float(y.max())}: not a pass rate; read as an unbounded reward; scale= / --scale chooses."
        )
        return "reward", y
    return "fraction", y


def numbers(table: Table, name: str) -> FloatArray:
    """Return a column as floats; raise for the first cell that is not a number."""
    values = np.empty(len(table.rows))
    for i, cell in enumerate(table.columns[name]):
        number = _try_number(cell)
        if number is None:
            raise TraceError(
                f"{table.source}, {table.row_word} {table.rows[i]}, column {name!r}: {cell!r} {_why_not(cell)}"
            )
        values[i] = number
    return values


def _extra(table: Table, name: str, scale: str) -> Any:
    """Return one of the other columns: numbers if all its cells are, else the cells."""
    cells = [None if is_blank(cell) else cell for cell in table.columns[name]]
    values = [math.nan if cell is None else _try_number(cell) for cell in cells]
    if any(value is None for value in values):
        return cells
    shrink = {"percent": 100.0, "pm1": 2.0}.get(scale, 1.0) if name == "pass_rate_se" else 1.0
    return np.array(values, dtype=np.float64) / shrink


def is_blank(cell: Any) -> bool:
    """Whether a cell holds nothing."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return cell.strip().lower() in BLANK
    return isinstance(cell, float) and math.isnan(cell)


def _try_number(cell: Any) -> float | None:
    if isinstance(cell, bool) or (not isinstance(cell, str | int | float) and not hasattr(cell, "__float__")):
        return None
    if isinstance(cell, str) and "_" in cell:  # Python reads 1_000 as a number, which a log does not mean
        return None
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None


def _why_not(cell: Any) -> str:
    text = str(cell).strip()
    if re.fullmatch(r"[-+]?\d{1,3}([,' _\u00a0]\d{3})+(\.\d+)?", text):
        return (
            "has a thousands separator (or a decimal comma); write plain numbers with a decimal point, such as 1234.5"
        )
    if re.fullmatch(r"[-+]?[\d.]*,\d+([eE][-+]?\d+)?", text):
        return "has a decimal comma; write numbers with a decimal point, such as 0.5"
    if re.fullmatch(r"[-+]?[\d.]+\s*%", text):
        return 'has a percent sign; remove it and pass scale="percent" / --scale percent'
    return "is not a number; repair or remove that row"
