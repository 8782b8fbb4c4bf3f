"""From a table of metrics to a log: tables whose columns are metrics of a framework, or exported charts."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.readers.column_names import COMPUTE_NAMES
from rlscaling.readers.decoding.arrow_columns import ArrowColumns, as_numbers, holds_numbers
from rlscaling.readers.logs.frameworks import framework_of
from rlscaling.readers.logs.log import TIME, Log
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.table import Parts, Table, TableSource, parts_of_table, split_runs

CHART = re.compile(r"(?P<run>.+?) - (?P<metric>.+?)(?P<edge>__MIN|__MAX)?")
CHART_AXES = ("step", "_step", "global_step", "train/global_step", "relative time (process)", "relative time (wall)")
PLAIN = "|".join(COMPUTE_NAMES[:4])


def read_table(
    table: Table, options: ReadOptions, table_source: TableSource | None, file: Path, reader: str
) -> Parts | list[Log]:
    """Return what a table holds: logs where its columns are a framework's metrics, else the traces by plain columns."""
    named = options.compute_column is not None or options.pass_rate_column in table.columns
    if table.rows and not named:
        notes = list[str](table_source.notes if table_source else ())
        melted = melt_charts(table, notes)
        if melted is not None:
            table = melted
            table_source = TableSource(metadata={"source": table.source}, notes=tuple(notes))
        logs = logs_of_table(table, options, file, reader, tuple(notes))
        if logs:
            return logs
    return parts_of_table(table, options, table_source)


def logs_of_table(
    table: Table, options: ReadOptions, file: Path, reader: str, notes: tuple[str, ...] = ()
) -> list[Log]:
    """Return the runs in a table of a framework's metrics; none for other tables."""
    names = list(table.columns)
    if any(re.search(PLAIN, name.lower().strip()) for name in names):
        return []  # its compute is in a column of its own
    framework = framework_of(names)
    if framework is None or not _has_time(names, framework.seconds, framework.summed, framework.clock):
        return []
    runs = split_runs(table, options)
    return [_log(part, label, file, reader, notes) for label, part in runs.items()]


def _has_time(names: list[str], seconds: tuple[str, ...], summed: str, clock: bool) -> bool:
    timed = any(re.fullmatch(pattern, name) for pattern in (*seconds, summed) for name in names)
    return timed or (clock and any(name in (TIME, "time") for name in names))


def _log(table: Table, label: str, file: Path, reader: str, notes: tuple[str, ...]) -> Log:
    """Return a table as a log; columns are converted to numbers when they are loaded."""
    columns, n_rows = table.columns, len(table.rows)
    if isinstance(columns, ArrowColumns):
        keys, load = filter(columns.holds_numbers, columns), columns.numbers
    else:
        keys = filter(lambda name: holds_numbers(columns[name]), columns)

        def load(names: Sequence[str]) -> dict[str, FloatArray]:
            return {name: as_numbers(columns[name]) if name in columns else np.full(n_rows, math.nan) for name in names}

    return Log(table.source, reader, n_rows, tuple(keys), load, run=label, files=(file,), notes=notes)


def melt_charts(table: Table, notes: list[str]) -> Table | None:
    """Return an export of charts, ``<run> - <metric>`` a column, with one row for each run and step.

    The ``__MIN`` and ``__MAX`` columns beside each metric are left out; where they differ from it, the export was
    thinned or smoothed, and a note says so. None for any other table.
    """
    axis, *others = table.columns
    charts = {name: CHART.fullmatch(name) for name in others}
    if axis.strip().lower() not in CHART_AXES or not charts or not all(charts.values()):
        return None
    n_edges = sum(match["edge"] is not None for match in charts.values() if match)
    if n_edges:
        n_different = sum(
            _edges_differ(table, name, match) for name, match in charts.items() if match and not match["edge"]
        )
        notes.append(f"Left out {n_edges} columns __MIN and __MAX.")
        if n_different:
            notes.append(
                f"In {n_different} rows __MIN and __MAX differ from the value between them: the chart was smoothed or "
                "thinned before it was exported; export the run's history instead."
            )
    columns: dict[str, list[object]] = {axis: [], "run": []}
    metrics = list(dict.fromkeys(m["metric"] for m in charts.values() if m and not m["edge"]))
    runs = list(dict.fromkeys(m["run"] for m in charts.values() if m))
    columns |= {metric: [] for metric in metrics}
    rows: list[int] = []
    for run in runs:
        columns_of_run = {metric: table.columns.get(f"{run} - {metric}") for metric in metrics}
        for i, number in enumerate(table.rows):
            cells = {metric: cells[i] if cells is not None else "" for metric, cells in columns_of_run.items()}
            if all(str(cell).strip() == "" for cell in cells.values()):
                continue  # wide exports are ragged: only another run has a value at this step
            rows.append(number)
            columns[axis].append(table.columns[axis][i])
            columns["run"].append(run)
            for metric, cell in cells.items():
                columns[metric].append(cell)
    return dataclasses.replace(table, columns=columns, rows=rows)


def _edges_differ(table: Table, name: str, match: re.Match[str]) -> int:
    low, high = (table.columns.get(f"{name}{edge}") for edge in ("__MIN", "__MAX"))
    if low is None or high is None:
        return 0
    return sum(a != b for a, b in zip(low, high, strict=True))
