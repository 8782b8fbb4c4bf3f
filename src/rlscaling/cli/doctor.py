"""``rlscaling doctor``."""

from __future__ import annotations

import argparse
import sys

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.batch.sources import RunSource
from rlscaling.cli import options
from rlscaling.cli.exit_codes import EXIT_CODES_OF_LOGS, REFUSED
from rlscaling.cli.inputs import doctor_request, find_runs
from rlscaling.cli.output import Printer, print_json
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.readers.diagnose import examine, identical_inputs
from rlscaling.readers.receipt import Finding
from rlscaling.traces.trace import Trace
from rlscaling.version import __version__

STYLES = {"decide": "bold red", "warn": "yellow"}


EXAMPLES = f"""\
examples:
  rlscaling doctor checkpoints/proj/exp.jsonl
  rlscaling doctor "logs/*" --json

{EXIT_CODES_OF_LOGS}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    options.add_log_inputs(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Examine every run and return the exit code: 3 when something must be decided."""
    request = doctor_request(args)
    runs = find_runs(request.inputs)
    findings = {run.name: _examine(run) for run in runs}
    receipts = [(run.name, run.source.metadata.get("receipt") or {}) for run in runs if isinstance(run.source, Trace)]
    for name, finding in identical_inputs(receipts):
        findings[name].append(finding)
    if request.output.json:
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        records = [{"run": name, "findings": [one._asdict() for one in some]} for name, some in findings.items()]
        print_json(head | {"runs": records})
    else:
        _print(Printer(sys.stdout), findings)
    return REFUSED if any(one.severity == "decide" for some in findings.values() for one in some) else 0


def _examine(run: RunSource) -> list[Finding]:
    """Return the findings of one run; one that cannot be read has its error, which says what to do."""
    if isinstance(run.source, SigmoidFit):
        return [Finding("decide", "a saved fit, not a log", "give the log it was made from")]
    if run.source is None:
        what, _, remedy = run.error.rpartition("; ")
        return [Finding("decide", what or remedy, remedy if what else "give another file")]
    return examine(run.source)


def _print(printer: Printer, by_run: dict[str, list[Finding]]) -> None:
    for name, findings in by_run.items():
        printer.heading(f"{name}: {'nothing found' if not findings else f'{len(findings)} found'}")
        for finding in sorted(findings, key=lambda one: one.severity):
            printer.line(f"  {finding.severity}: {finding.what}", STYLES[finding.severity])
            printer.line(f"    -> {finding.remedy}")
