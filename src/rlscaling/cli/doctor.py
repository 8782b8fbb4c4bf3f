"""``rlscaling doctor``: what would go wrong with these logs, each with its remedy."""

from __future__ import annotations

import argparse
import sys

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.batch.sources import RunSource
from rlscaling.cli.commands import REFUSED
from rlscaling.cli.inputs import find_runs
from rlscaling.cli.output import Printer, print_json
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.readers.diagnose import examine, identical_inputs
from rlscaling.readers.receipt import Finding
from rlscaling.traces.trace import Trace
from rlscaling.version import __version__

STYLES = {"decide": "bold red", "warn": "yellow"}


def doctor(args: argparse.Namespace) -> int:
    """Examine every run and return the exit code: 3 when something must be decided."""
    runs = find_runs(args, receipts=True)
    found = {run.name: _examine(run) for run in runs}
    receipts = [(run.name, run.source.metadata.get("receipt") or {}) for run in runs if isinstance(run.source, Trace)]
    for name, finding in identical_inputs(receipts):
        found[name].append(finding)
    if args.json:
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        records = [{"run": name, "findings": [one._asdict() for one in findings]} for name, findings in found.items()]
        print_json(head | {"runs": records})
    else:
        _print(Printer(sys.stdout), found)
    return REFUSED if any(one.severity == "decide" for findings in found.values() for one in findings) else 0


def _examine(run: RunSource) -> list[Finding]:
    """Return the findings of one run; one that cannot be read has its error, which says what to do."""
    if isinstance(run.source, SigmoidFit):
        return [Finding("decide", "a saved fit, not a log", "give the log it was made from")]
    if run.source is None:
        what, _, remedy = run.error.rpartition("; ")
        return [Finding("decide", what or remedy, remedy if what else "give another file")]
    return examine(run.source)


def _print(printer: Printer, found: dict[str, list[Finding]]) -> None:
    for name, findings in found.items():
        printer.heading(f"{name}: {'nothing found' if not findings else f'{len(findings)} found'}")
        for finding in sorted(findings, key=lambda one: one.severity):
            printer.line(f"  {finding.severity}: {finding.what}", STYLES[finding.severity])
            printer.line(f"    -> {finding.remedy}")
