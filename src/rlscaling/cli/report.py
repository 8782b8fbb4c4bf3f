"""``rlscaling report``."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.cli import options, output
from rlscaling.cli.arguments import add_renamed
from rlscaling.cli.exit_codes import EXIT_CODES, REFUSED
from rlscaling.cli.inputs import ReportRequest, find_runs, recipe_names, report_request
from rlscaling.errors import RLScalingError, RLScalingWarning
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.option_fields import positive
from rlscaling.report.make import Report, make_report
from rlscaling.traces.trace import Trace
from rlscaling.version import __version__

EXAMPLES = f"""\
examples:
  rlscaling report "runs/*/trace.jsonl" -o report.html
  rlscaling report wandb/ --by recipe --compute 50000 100000 -o report.html --title "Recipes, week 48"

{EXIT_CODES}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    options.add_paths(parser, "traces, logs, folders, quoted globs, or fits saved with --save")
    group = parser.add_argument_group("report")
    group.add_argument("-o", "--out", metavar="FILE", required=True, help="HTML file to write")
    group.add_argument("--overwrite", action="store_true", help="let --out replace a file (default: no)")
    group.add_argument("--title", default="RL compute scaling", help="title of the page (default: RL compute scaling)")
    options.add_json(group)
    group = parser.add_argument_group("comparison")
    add_renamed(
        group, "--compute", ("--at",), dest="budgets", metavar="C", nargs="+", type=positive,
        help="budgets at which to forecast and compare; the first decides (default: 100000 for GPU-hours, none for "
        "other units)",
    )  # fmt: skip
    options.add_comparison_options(group, by="run")
    options.add_fit_options(parser)
    options.add_reading_options(parser, without=("compute_unit", "device_factor"))


def run(args: argparse.Namespace) -> int:
    """Fit, forecast, backtest, plan and compare runs, write one HTML file and return the exit code."""
    request = report_request(args)
    report = _report(request)
    report.write(request.out, overwrite=request.output.overwrite)
    for name, error in report.refused:
        print(f"rlscaling: error: {name}: {error}", file=sys.stderr)
    if request.output.json:
        output.print_json(_record(report, request.out))
    else:
        n, kilobytes = len(report.runs), request.out.stat().st_size / 1e3
        print(f"wrote {request.out}: {n} run{'s' * (n != 1)}, {kilobytes:,.0f} kB")
    return REFUSED if report.refused else 0


def _report(request: ReportRequest) -> Report:
    runs = find_runs(request.inputs)
    sources: dict[str, Trace | SigmoidFit] = {run.name: run.source for run in runs if run.source is not None}
    refused = {run.name: run.error for run in runs if run.source is None}
    if not sources:
        raise RLScalingError("no run could be read: " + "; ".join(f"{name}: {why}" for name, why in refused.items()))
    recipes = recipe_names({name: run.metadata for name, run in sources.items()}, request.by)
    with output.progress(len(sources), 0) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", RLScalingWarning)  # they stand among the notes
        return make_report(
            sources, compute=request.budgets, recipes=recipes, refused=refused, title=request.title,
            on_progress=lambda done, of: bar.run_done(), **request.comparison.arguments(), **request.fit,
        )  # fmt: skip


def _record(report: Report, path: Path) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION, "version": __version__, "seed": report.seed, "out": str(path),
        "bytes": path.stat().st_size, "at": list(report.compute),
        "verdicts": {run.name: str(run.fit.verdict) for run in report.runs},
        "best": None if report.comparison is None else report.comparison.leader,
        "not_compared": report.not_compared,
        "refused": [{"run": name, "error": why} for name, why in report.refused],
    }  # fmt: skip
