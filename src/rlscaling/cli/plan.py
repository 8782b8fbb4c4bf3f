"""``rlscaling backtest`` and ``rlscaling plan``: answer every run, print, draw."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION, AnalysisOptions, FailedAnalysis, analyse
from rlscaling.batch.sources import RunSource
from rlscaling.cli import output
from rlscaling.cli.commands import REFUSED, check_plot
from rlscaling.cli.inputs import UsageError, find_runs, fit_options
from rlscaling.cli.pictures import save_wide
from rlscaling.errors import FitError
from rlscaling.forecasting.allocate import Allocation, allocate
from rlscaling.forecasting.backtest import Backtest, backtest
from rlscaling.forecasting.plan import Plan, plan
from rlscaling.plotting.plans import plot_backtest, plot_plan
from rlscaling.printing.document import Document
from rlscaling.version import __version__


def backtest_runs(args: argparse.Namespace) -> int:
    """Answer ``rlscaling backtest`` and return the exit code."""
    options, runs = fit_options(args), _runs(args)

    def work(run: RunSource) -> Backtest:
        return backtest(run.trace(), cutoffs=args.cutoffs, models=args.models, rng=args.seed, **options)

    answers = _answer(runs, work)
    code = _write(args, answers)
    if args.plot is not None and isinstance(found := answers[0], Backtest):
        save_wide(Path(args.plot), lambda ax: plot_backtest(found, ax))
    return code


def plan_runs(args: argparse.Namespace) -> int:
    """Answer ``rlscaling plan`` and return the exit code."""
    options, runs = fit_options(args), _runs(args)

    def work(run: RunSource) -> Plan:
        fit = run.fit(options, args.compute_unit)
        return plan(fit, target_half_width=args.target, at=args.at, next_compute=args.next, rng=args.seed)

    answers = _answer(runs, work)
    split = None
    if args.split is not None:
        fits = {given.fit.name: given.fit for given in answers if isinstance(given, Plan)}
        if len(fits) < 2:
            raise FitError(
                f"--split {args.split:g}: {len(fits)} of {len(answers)} runs could be planned; give two or more"
            )
        split = allocate(fits, args.split, at=args.at, rng=args.seed)
    code = _write(args, answers, split)
    if args.plot is not None and isinstance(found := answers[0], Plan):
        save_wide(Path(args.plot), lambda ax: plot_plan(found, ax))
    return code


def _runs(args: argparse.Namespace) -> list[RunSource]:
    """Return the runs; a picture is of one, and could be written."""
    check_plot(args.plot, args.overwrite)
    runs = find_runs(args)
    if args.plot is not None and len(runs) > 1:
        raise UsageError(f"--plot {args.plot}: {len(runs)} runs; draw them one by one")
    return runs


def _answer(runs: list[RunSource], work: Callable[[RunSource], Any]) -> list[Any]:
    with output.progress(len(runs), 0) as bar:
        return analyse(runs, AnalysisOptions(), work=lambda run, *_: work(run), on_progress=bar.reached)


def _write(args: argparse.Namespace, answers: list[Any], split: Allocation | None = None) -> int:
    """Write every answer, and how a budget is split over them, and return the exit code."""
    refused = [given for given in answers if isinstance(given, FailedAnalysis)]
    for one in refused:
        print(f"rlscaling: error: {one.name}: {one.error}", file=sys.stderr)
    if args.json:
        records = [
            a.to_dict() if not isinstance(a, FailedAnalysis) else {"run": a.name, "error": a.error} for a in answers
        ]
        head: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "version": __version__, "seed": args.seed}
        head |= {} if split is None else {"split": split.to_dict()}
        output.print_json(records[0] | head if len(records) == 1 else {**head, "runs": records})
        return REFUSED if refused else 0
    printer = output.Printer(sys.stdout)
    if split is not None:
        _print(printer, split, "")
    for given in answers:
        if not isinstance(given, FailedAnalysis):
            name = given.trace.name if isinstance(given, Backtest) else given.fit.name
            _print(printer, given, f"[{name}] ")
    return REFUSED if refused else 0


def _print(printer: output.Printer, found: Document, name: str) -> None:
    printer.line(name + found.headline, "bold")
    for table in found.tables():
        if table.rows:
            printer.table(table.header, table.rows)
    for text in found.footnotes():
        printer.line(f"  {text}")
