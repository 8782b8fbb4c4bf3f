"""``rlscaling report``: fit, forecast, backtest, plan and compare runs, and write one HTML file."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.cli import output
from rlscaling.cli.commands import REFUSED, check_new
from rlscaling.cli.compare import comparison_options, recipe_names
from rlscaling.cli.inputs import UsageError, find_runs, fit_options
from rlscaling.errors import RLScalingError, RLScalingWarning
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.report.make import Report, make_report
from rlscaling.traces.trace import Trace
from rlscaling.version import __version__

PAGES = (".html", ".htm")


def report_runs(args: argparse.Namespace) -> int:
    """Answer ``rlscaling report`` and return the exit code."""
    options, path = fit_options(args), Path(args.out)
    if path.suffix.lower() not in PAGES:
        raise UsageError(f"--out {path}: a report is an HTML file; end the name in .html")
    check_new(path, "--out", args.overwrite)
    runs = find_runs(args, receipts=True)
    sources: dict[str, Trace | SigmoidFit] = {run.name: run.source for run in runs if run.source is not None}
    refused = {run.name: run.error for run in runs if run.source is None}
    if not sources:
        raise RLScalingError("no run could be read: " + "; ".join(f"{name}: {why}" for name, why in refused.items()))
    recipes = recipe_names({name: run.metadata for name, run in sources.items()}, args.by)
    with output.progress(len(sources), 0) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", RLScalingWarning)  # they stand among the notes
        report = make_report(
            sources, compute=args.budgets, recipes=recipes, refused=refused, title=args.title,
            on_progress=lambda done, of: bar.run_done(), **comparison_options(args), **options,
        )  # fmt: skip
    report.write(path, overwrite=args.overwrite)
    for name, why in report.refused:
        print(f"rlscaling: error: {name}: {why}", file=sys.stderr)
    if args.json:
        output.print_json(_record(report, path))
    else:
        print(f"wrote {path}: {len(report.runs)} runs, {path.stat().st_size / 1e3:,.0f} kB")
    return REFUSED if report.refused else 0


def _record(report: Report, path: Path) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION, "version": __version__, "seed": report.seed, "out": str(path),
        "bytes": path.stat().st_size, "at": list(report.compute),
        "verdicts": {run.name: str(run.fit.verdict) for run in report.runs},
        "best": None if report.comparison is None else report.comparison.leader,
        "not_compared": report.not_compared,
        "refused": [{"run": name, "error": why} for name, why in report.refused],
    }  # fmt: skip
