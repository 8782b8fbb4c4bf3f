"""``rlscaling ingest``: read logs, print a receipt for every run, keep the evaluations with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.batch.sources import RunSource
from rlscaling.cli.commands import REFUSED, check_new
from rlscaling.cli.inputs import UsageError, find_runs
from rlscaling.cli.output import Printer, print_json
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.printing.numbers import unit_text
from rlscaling.readers.receipt import receipt_lines
from rlscaling.traces.trace import Trace
from rlscaling.traces.trace_files import write_trace, write_traces
from rlscaling.version import __version__

SUMMARY = ("Read as ", "Resumes: ")
"""How the notes begin that tell a receipt in short."""


def ingest(args: argparse.Namespace) -> int:
    """Read every run, print the receipts, write the file, and return the exit code."""
    out = Path(args.out) if args.out is not None else None
    if out is not None:
        check_new(out, "--out", args.overwrite)
        if out.suffix not in (".parquet", ".jsonl", ".csv"):
            raise UsageError(f"--out {out}: end the name in .parquet (or .jsonl or .csv for a single run)")
    runs = [_without_fit(run) for run in find_runs(args, receipts=True)]
    traces = {run.name: run.source for run in runs if isinstance(run.source, Trace)}
    if out is not None and traces:
        _write(traces, out, args.overwrite)
    for run in runs:
        if run.error:
            print(f"rlscaling: error: {run.name}: {run.error}", file=sys.stderr)
    if args.json:
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        print_json(head | {"out": str(out) if out and traces else None, "runs": [_record(run) for run in runs]})
    else:
        _print(Printer(sys.stdout), runs)
        if out is not None and traces:
            print(f"rlscaling: wrote {len(traces)} run{'s' * (len(traces) > 1)} to {out}", file=sys.stderr)
    return REFUSED if len(traces) < len(runs) else 0


def _without_fit(run: RunSource) -> RunSource:
    if isinstance(run.source, SigmoidFit):
        return RunSource(run.name, error="a saved fit, not a log; give the log it was made from")
    return run


def _write(traces: dict[str, Trace], out: Path, overwrite: bool) -> None:
    if len(traces) == 1:
        write_trace(next(iter(traces.values())), out, overwrite=overwrite)
    elif out.suffix == ".parquet":
        write_traces(traces, out, overwrite=overwrite)
    else:
        raise UsageError(f"--out {out}: {len(traces)} runs go into a Parquet file only; end the name in .parquet")


def _record(run: RunSource) -> dict[str, Any]:
    """Return the JSON object of one run; a refused run is ``{"run", "error"}``."""
    trace = run.source
    if not isinstance(trace, Trace):
        return {"run": run.name, "error": run.error}
    return {
        "run": run.name,
        "n_evaluations": len(trace),
        "compute_unit": trace.compute_unit,
        "compute_range": [float(trace.compute[0]), float(trace.compute[-1])],
        "pass_rate_range": [float(trace.pass_rate.min()), float(trace.pass_rate.max())],
        "receipt": trace.metadata.get("receipt"),
        "notes": list(trace.notes),
    }


def _print(printer: Printer, runs: Sequence[RunSource]) -> None:
    for run in runs:
        trace = run.source
        if not isinstance(trace, Trace):
            printer.line(f"refused [{run.name}]: {run.error}", "red")
            continue
        first, last = trace.compute[0], trace.compute[-1]
        printer.heading(
            f"{run.name}: {len(trace)} evaluations, {first:,.6g} to {last:,.6g} {unit_text(trace.compute_unit)}, "
            f"pass rate {trace.pass_rate[0]:.3g} to {trace.pass_rate[-1]:.3g}"
        )
        receipt = trace.metadata.get("receipt")
        for line in receipt_lines(receipt) if receipt else ():
            printer.line(f"  {line}")
        told = [finding["what"] for finding in receipt["warnings"]] if receipt else []
        for note in trace.notes:
            if note not in told and not note.startswith(SUMMARY):
                printer.line(f"  note: {note}")
