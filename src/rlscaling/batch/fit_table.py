"""`FitTable`: the fits of many runs, one row per run; its columns, and how a row is made."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscaling.batch.analysis import Analysis, AnalysisOptions, FailedAnalysis, Progress, analyse_run
from rlscaling.batch.sources import RunSource
from rlscaling.curves.sigmoid import PARAMETER_NAMES
from rlscaling.fitting.budgets import DEFAULT_COMPUTE
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.printing.document import Document
from rlscaling.serialization import plain
from rlscaling.version import __version__

if TYPE_CHECKING:
    import pandas as pd


Row = dict[str, Any]
METADATA_KEY = "rlscaling-fits"
IN_FORECAST = ("", "_low", "_high", "_new_run_low", "_new_run_high", "_supported")


def budgets_of(options: AnalysisOptions) -> tuple[float, ...]:
    """Return the budgets that have columns; none without a forecast."""
    if options.budgets is None:
        return ()
    return options.budgets or (DEFAULT_COMPUTE,)


def budget_name(budget: float) -> str:
    """Return the column of a budget: ``R_100000``."""
    return f"R_{int(budget) if float(budget).is_integer() else repr(float(budget))}"


def columns_of(options: AnalysisOptions) -> dict[str, str]:
    """Return the columns of the table, each with its type, a key of the types in `arrow_schema`."""
    columns = {"run": "text", "verdict": "text", "reason": "text"}
    for name in PARAMETER_NAMES:
        columns |= {name: "number", f"{name}_low": "number", f"{name}_high": "number", f"{name}_se": "number"}
    columns |= {"A_new_run_low": "number", "A_new_run_high": "number", "R0_source": "text"}
    for budget in budgets_of(options):
        column = budget_name(budget)
        columns |= {column + part: "flag" if part == "_supported" else "number" for part in IN_FORECAST}
    columns |= {"n_points": "count", "compute_first": "number", "compute_last": "number", "compute_unit": "text"}
    columns |= {"min_compute": "number", "max_compute": "number", "ssr": "number"}
    columns |= {"at_bound": "texts", "notes": "texts", "error": "text"}
    return columns | {"version": "text", "seed": "seed", "options": "text", "input": "text"}


def analysis_options(options: AnalysisOptions) -> dict[str, Any]:
    """Return everything that the numbers of a run depend on, besides the run, the seed and the version."""
    return {name: value for name, value in plain(asdict(options)).items() if name not in ("seed", "n_jobs")}


def hash_of(value: Any) -> str:
    """Return 16 hexadecimal digits that identify a JSON-ready value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def input_hash(run: RunSource) -> str:
    """Return 16 hexadecimal digits that identify the data of a run, to the last bit."""
    if run.source is None:
        return hash_of(run.error)
    if isinstance(run.source, SigmoidFit):
        return hash_of(run.source.to_dict())
    trace = run.source
    digest = hashlib.sha256(json.dumps([trace.compute_unit, trace.scale, *trace.notes]).encode())
    for name, values in (("compute", trace.compute), ("pass_rate", trace.pass_rate), *sorted(trace.columns.items())):
        numbers = values.dtype.kind in "fiub"
        digest.update(name.encode() + (np.ascontiguousarray(values).tobytes() if numbers else repr(values).encode()))
    digest.update(json.dumps(plain(trace.metadata.get("first_epoch_end"))).encode())
    return digest.hexdigest()[:16]


def row_of(analysis: Analysis | FailedAnalysis, options: AnalysisOptions, options_hash: str, source_hash: str) -> Row:
    """Return the row of an analysis; that of a failed one holds the name and the error only."""
    row: Row = dict.fromkeys(columns_of(options)) | {
        "run": analysis.name, "version": __version__, "seed": options.seed, "options": options_hash,
        "input": source_hash,
    }  # fmt: skip
    if isinstance(analysis, FailedAnalysis):
        return row | {"error": analysis.error, "at_bound": [], "notes": []}
    fit = analysis.fit
    row |= {"verdict": str(fit.verdict), "reason": fit.reason, "R0_source": fit.R0_source, "n_points": fit.n_points}
    row |= {name: getattr(fit.params, name) for name in PARAMETER_NAMES}
    row |= {"compute_first": fit.compute_range[0], "compute_last": fit.compute_range[1]}
    row |= {"compute_unit": fit.compute_unit, "min_compute": fit.options.min_compute}
    row |= {"max_compute": fit.options.max_compute, "ssr": fit.ssr}
    row |= {"at_bound": list(fit.at_bound), "notes": list(analysis.notes)}
    return plain(row | _intervals(analysis) | _forecast(analysis))  # type: ignore[no-any-return]


def _intervals(analysis: Analysis) -> Row:
    if analysis.bootstrap is None:
        return {}
    boot, row = analysis.bootstrap, {}
    for name in PARAMETER_NAMES:
        row[f"{name}_low"], row[f"{name}_high"] = boot.confidence_interval[name]
        row[f"{name}_se"] = boot.half_width_68[name]
    row["A_new_run_low"], row["A_new_run_high"] = boot.confidence_interval_new_run["A"]
    return row


def _forecast(analysis: Analysis) -> Row:
    row: Row = {}
    for i, budget in enumerate(analysis.budgets):
        column = budget_name(budget)
        if analysis.forecast is None:  # too few points for intervals, as in the command's JSON
            row |= {column: float(analysis.fit.predict(budget)), column + "_supported": False}
            continue
        f = analysis.forecast
        ends = (*f.confidence_interval.at(i), *f.confidence_interval_new_run.at(i))
        values = (float(f.pass_rate[i]), *map(float, ends), bool(f.supported[i]))
        row |= {column + part: value for part, value in zip(IN_FORECAST, values, strict=True)}
    return row


def arrow_schema(columns: dict[str, str], metadata: dict[str, Any]) -> Any:
    """Return the schema of the table, with the options in its metadata."""
    import pyarrow as pa

    types = {
        "text": pa.string(), "texts": pa.list_(pa.string()), "number": pa.float64(), "count": pa.int64(),
        "flag": pa.bool_(), "seed": pa.uint64(),
    }  # fmt: skip
    fields = [pa.field(name, types[kind]) for name, kind in columns.items()]
    return pa.schema(fields, metadata={METADATA_KEY: json.dumps(metadata, sort_keys=True)})


def verdict_counts(rows: Sequence[Row]) -> dict[str, int]:
    """Return the number of runs with each verdict, the most frequent first, ``refused`` last."""
    counts = Counter(row["verdict"] for row in rows if row["error"] is None)
    ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    refused = sum(row["error"] is not None for row in rows)
    return ordered | ({"refused": refused} if refused else {})


@dataclass(frozen=True, eq=False, repr=False)
class FitTable(Document):
    """The fits of many runs, one row per run.

    Attributes
    ----------
    rows : tuple of dict
        In the order of the runs: ``run``, ``verdict``, ``A``, ``A_low``, ``A_high`` ... (docs/batch.md has them all);
        None where there is no value.
    columns : dict
        Name of each column, with its type.
    options : dict
        Version, seed, options and the hash of each run's data.
    path : Path or None
        The Parquet file.
    """

    rows: tuple[Row, ...]
    columns: Mapping[str, str]
    options: Mapping[str, Any]
    path: Path | None = None

    @property
    def refused(self) -> dict[str, str]:
        """The runs that were not fitted, each with the error."""
        return {row["run"]: row["error"] for row in self.rows if row["error"] is not None}

    @property
    def verdicts(self) -> dict[str, int]:
        """The number of runs with each verdict; ``refused`` are those that were not fitted."""
        return verdict_counts(self.rows)

    def to_arrow(self) -> Any:
        """Return a pyarrow Table."""
        import pyarrow as pa

        return pa.Table.from_pylist(list(self.rows), schema=arrow_schema(dict(self.columns), dict(self.options)))

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame, indexed by run."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame.set_index("run")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def headline(self) -> str:
        """The number of runs, and of those with each verdict."""
        counts = ", ".join(f"{n:,} {verdict}" for verdict, n in self.verdicts.items())
        return f"{len(self):,} runs: {counts}" + (f"; {self.path}" if self.path is not None else "")

    def _record(self) -> dict[str, Any]:
        return {"verdicts": self.verdicts, "path": self.path, "options": self.options, "rows": self.rows}


def row_of_run(run: RunSource, options: AnalysisOptions, on_progress: Progress | None, *, options_hash: str) -> Row:
    """Return the row of one run."""
    return row_of(analyse_run(run, options, on_progress), options, options_hash, input_hash(run))


def options_of(runs: Sequence[RunSource], options: AnalysisOptions) -> dict[str, Any]:
    """Return what a table is made of: two tables with the same have the same rows."""
    return {
        "version": __version__,
        "seed": options.seed,
        "options": analysis_options(options),
        "inputs": [[run.name, input_hash(run)] for run in runs],
    }
