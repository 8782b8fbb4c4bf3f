"""One run's evaluations: the object every fit starts from, and how it is written to a file.

The file of a run that still goes on is in ``journal.py``; the columns it may hold are in ``schema.py``.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlscaling.errors import TraceError
from rlscaling.journal import HEADER_KEYS, TraceWriter, read_jsonl, replace_unless_written, rewind
from rlscaling.schema import (
    COLUMNS,
    COMPUTE_UNITS,
    SCHEMA_VERSION,
    FloatArray,
    as_floats,
    check_series,
    json_line,
    objects,
    plain,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "COMPUTE_UNITS",
    "SCHEMA_VERSION",
    "Trace",
    "TraceWriter",
    "as_floats",
    "check_series",
    "read_jsonl",
    "rewind",
    "write_trace",
]

_COUNT_UNITS = ("steps", "tokens", "rollouts", "prompts", "samples")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The evaluations of one run in one domain.

    Parameters
    ----------
    compute
        Compute of each evaluation in ``compute_unit``, shape (n,), strictly increasing.
    pass_rate
        Pass rate of each evaluation as a fraction, shape (n,); any real score with
        ``metadata={"scale": "reward"}``.
    compute_unit
        One of ``COMPUTE_UNITS``.
    name
        Name of the run.
    columns
        Other values of each evaluation, shape (n,) each, such as ``step``, ``n_prompts``, ``pass_rate_se``.
    metadata
        What the header of the file says about the run.
    notes
        What was assumed or recovered while reading, one sentence each.

    Raises
    ------
    TraceError
        When the series cannot be used as it stands.

    Examples
    --------
    >>> Trace([0, 100, 200], [0.3, 0.35, 0.39], name="run7")
    Trace('run7': 3 evaluations, 0 to 200 gpu-hours, pass rate 0.3 to 0.39)
    """

    compute: FloatArray
    pass_rate: FloatArray
    compute_unit: str = "gpu-hours"
    name: str = ""
    columns: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.compute_unit not in COMPUTE_UNITS:
            raise TraceError(f"compute_unit={self.compute_unit!r} is unknown; choose one of {', '.join(COMPUTE_UNITS)}")
        C, y = check_series(self.compute, self.pass_rate, bounded=self.scale != "reward")
        columns = {str(key): _column(values, str(key), len(C)) for key, values in self.columns.items()}
        for array in (C, y, *columns.values()):
            array.flags.writeable = False
        for field, value in (("compute", C), ("pass_rate", y), ("columns", columns)):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "metadata", {"scale": "fraction", **self.metadata})
        object.__setattr__(self, "notes", tuple(self.notes))

    @property
    def scale(self) -> str:
        """Scale the scores were logged in; fractions here whatever it says, except for ``"reward"``."""
        return str(self.metadata.get("scale", "fraction"))

    @property
    def n_prompts(self) -> FloatArray | None:
        """Prompts of each evaluation, shape (n,), or None when not recorded."""
        return self.columns.get("n_prompts")

    @property
    def n_samples(self) -> FloatArray | None:
        """Completions per prompt of each evaluation, shape (n,), or None when not recorded."""
        return self.columns.get("n_samples")

    @property
    def pass_rate_se(self) -> FloatArray | None:
        """Standard error of each evaluation, shape (n,), or None when not recorded."""
        return self.columns.get("pass_rate_se")

    def __len__(self) -> int:
        return len(self.compute)

    def __repr__(self) -> str:
        C, y = self.compute, self.pass_rate
        count = f"{len(self)} evaluation{'s' if len(self) != 1 else ''}"
        span = f"{C[0]:g} to {C[-1]:g} {self.compute_unit}"
        return f"Trace({self.name!r}: {count}, {span}, pass rate {y[0]:.3g} to {y[-1]:.3g})"

    def named(self, name: str) -> Trace:
        """Return the same evaluations under another name."""
        other = copy.copy(self)
        object.__setattr__(other, "name", name)
        return other

    def up_to(self, compute: float) -> Trace:
        """Return the evaluations at or below ``compute``."""
        keep = self.compute <= compute
        if not keep.any():
            raise TraceError(
                f"no evaluation at or below {compute:g} {self.compute_unit}: the first is at "
                f"{self.compute[0]:g}; ask for at least that"
            )
        columns = {key: values[keep] for key, values in self.columns.items()}
        return dataclasses.replace(self, compute=self.compute[keep], pass_rate=self.pass_rate[keep], columns=columns)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame, one row per evaluation; name, unit and metadata are in its ``attrs``."""
        import pandas as pd

        frame = pd.DataFrame({"compute": self.compute, "pass_rate": self.pass_rate, **self.columns})
        frame.attrs = {
            "name": self.name,
            "compute_unit": self.compute_unit,
            "metadata": dict(self.metadata),
            "notes": self.notes,
        }
        return frame

    @classmethod
    def from_frame(cls, frame: Any, *, compute: str = "compute", pass_rate: str = "pass_rate", **fields: Any) -> Trace:
        """Return the trace held by a pandas or polars frame.

        Parameters
        ----------
        frame
            One row per evaluation; columns beyond the two named ones are kept.
        compute, pass_rate
            Names of the two columns.
        **fields
            Other fields of the trace; those not given are taken from ``frame.attrs`` where it has them.
        """
        names = [str(column) for column in frame.columns]
        for wanted in (compute, pass_rate):
            if wanted not in names:
                raise TraceError(
                    f"the frame has no column {wanted!r}; it has {', '.join(names)}; name it with compute= / pass_rate="
                )
        attrs = getattr(frame, "attrs", {})
        known = {key: attrs[key] for key in ("name", "compute_unit", "metadata", "notes") if key in attrs}
        columns = {name: frame[name] for name in names if name not in (compute, pass_rate)}
        return cls(frame[compute], frame[pass_rate], columns=columns, **{**known, **fields})


def _column(values: Any, name: str, n: int) -> NDArray[Any]:
    """Return numbers as floats (None is NaN); anything else, such as text, as it is."""
    try:
        array: NDArray[Any] = as_floats(values, name)
    except TraceError:
        items = values.tolist() if hasattr(values, "tolist") else list(values)
        if all(item is None or type(item) in (int, float) for item in items):
            array = np.array([math.nan if item is None else item for item in items], dtype=np.float64)
        else:
            # pandas marks a missing text by NaN, polars by None
            array = objects([None if isinstance(item, float) and math.isnan(item) else item for item in items])
    if len(array) != n:
        raise TraceError(f"column {name!r} has {len(array)} values for {n} evaluations; pass one per evaluation")
    return array


def write_trace(trace: Trace, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a trace to a ``.jsonl``, ``.parquet`` or ``.csv`` file.

    JSON lines and Parquet keep everything; CSV keeps the columns only.

    Parameters
    ----------
    trace
        The trace.
    path
        The file; its suffix decides the format.
    overwrite
        Replace a file that is there.

    Raises
    ------
    TraceError
        When the file is there already, or its suffix is none of the three.
    """
    if not isinstance(trace, Trace):
        raise TraceError(f"write_trace takes a Trace, not {type(trace).__name__}")
    path = Path(path)
    formats = {".jsonl": _jsonl_bytes, ".parquet": _parquet_bytes, ".csv": _csv_bytes}
    if path.suffix not in formats:
        raise TraceError(f"cannot write a trace to {path.name!r}: end the name in .jsonl, .parquet or .csv")
    if path.exists() and not overwrite:
        raise TraceError(f"{path} is there already and was left as it is; choose another name or pass overwrite=True")
    replace_unless_written(path, formats[path.suffix](trace))


def _header(trace: Trace) -> dict[str, Any]:
    metadata = {key: value for key, value in trace.metadata.items() if key not in HEADER_KEYS}
    return {
        "kind": "header",
        "schema_version": SCHEMA_VERSION,
        "name": trace.name,
        "compute_unit": trace.compute_unit,
        "compute_column": _compute_column(trace),
        "notes": list(trace.notes),
        **metadata,
    }


def _compute_column(trace: Trace) -> str:
    return "compute_gpu_hours" if trace.compute_unit == "gpu-hours" else "compute"


def _columns(trace: Trace) -> dict[str, NDArray[Any]]:
    """Every column as it is stored, compute and pass rate first."""
    first = {_compute_column(trace): trace.compute, "pass_rate": trace.pass_rate}
    return {**first, **{key: values for key, values in trace.columns.items() if key not in (*first, "kind")}}


def _stored(name: str, values: NDArray[Any]) -> list[Any]:
    """Return the cells, counts as integers: a file says 1000 prompts and not 1000.0."""
    unit = COLUMNS.get(name, ("", ""))[0]
    listed: list[Any] = values.tolist()
    if unit not in _COUNT_UNITS:
        return listed
    return [int(v) if isinstance(v, float) and v.is_integer() and abs(v) < 2**53 else v for v in listed]


def _jsonl_bytes(trace: Trace) -> bytes:
    columns = {key: _stored(key, values) for key, values in _columns(trace).items()}
    rows = [{"kind": "eval", **dict(zip(columns, cells, strict=True))} for cells in zip(*columns.values(), strict=True)]
    return b"".join(json_line(row) for row in [_header(trace), *rows])


def _parquet_bytes(trace: Trace) -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, encoded = {}, []
    for key, values in _columns(trace).items():
        cells = values.tolist()
        if values.dtype == object and not all(isinstance(cell, str | None) for cell in cells):
            cells = [json.dumps(plain(cell)) for cell in cells]
            encoded.append(key)
        columns[key] = cells if values.dtype == object else values
    header = json_line({**_header(trace), "json_columns": encoded}).strip()
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata({b"rlscaling": header}), buffer)
    return buffer.getvalue()


def _csv_bytes(trace: Trace) -> bytes:
    import csv
    import io

    columns = {key: _stored(key, values) for key, values in _columns(trace).items()}
    # a CSV has no header line to name the unit, so the column's name does
    names = [f"compute_{trace.compute_unit.replace('-', '_')}" if key == "compute" else key for key in columns]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(
        ["" if cell is None or cell != cell else cell for cell in row] for row in zip(*columns.values(), strict=True)
    )
    return text.getvalue().encode()
