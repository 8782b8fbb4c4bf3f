"""``rlscaling ingest``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.batch.sources import RunSource
from rlscaling.cli import options
from rlscaling.cli.arguments import UsageError
from rlscaling.cli.exit_codes import EXIT_CODES_OF_LOGS, REFUSED
from rlscaling.cli.inputs import find_runs, ingest_request
from rlscaling.cli.output import Printer, print_json
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.printing.numbers import unit_text
from rlscaling.readers.receipt import receipt_lines
from rlscaling.traces.trace import Trace
from rlscaling.traces.trace_files import write_trace, write_traces
from rlscaling.version import __version__

SUMMARY = ("Read as ", "Resumes: ")
"""How the notes begin that summarize a receipt."""


EXAMPLES = f"""\
examples:
  rlscaling ingest checkpoints/proj/exp.jsonl -o runs.parquet
  rlscaling ingest wandb/ --metric "val-core/*/acc/mean@*" -o runs.parquet
  rlscaling ingest tb/run-1 tb/run-2 --stitch --n-gpus 64 --json

{EXIT_CODES_OF_LOGS}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    options.add_log_inputs(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--out", metavar="FILE",
        help="write the runs with their receipts: .parquet, or for a single run .jsonl, or .csv (without a receipt) "
        "(default: not written)",
    )  # fmt: skip
    group.add_argument("--overwrite", action="store_true", help="let --out replace a file (default: no)")
    options.add_json(group)


def run(args: argparse.Namespace) -> int:
    """Read every run, print the receipts, write the file, and return the exit code."""
    request = ingest_request(args)
    runs = [_without_fit(run) for run in find_runs(request.inputs)]
    traces = {run.name: run.source for run in runs if isinstance(run.source, Trace)}
    out = request.out if traces else None
    if out is not None:
        _write(traces, out, request.output.overwrite)
    for run in runs:
        if run.error:
            print(f"rlscaling: error: {run.name}: {run.error}", file=sys.stderr)
    if request.output.json:
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        print_json(head | {"out": None if out is None else str(out), "runs": [_record(run) for run in runs]})
    else:
        _print(Printer(sys.stdout), runs)
        if out is not None:
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
        warned = [finding["what"] for finding in receipt["warnings"]] if receipt else []
        for note in trace.notes:
            if note not in warned and not note.startswith(SUMMARY):
                printer.line(f"  note: {note}")
