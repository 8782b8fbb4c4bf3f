"""``rlscaling backtest`` and ``rlscaling plan``: answer every run, print, draw."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlscaling import __version__
from rlscaling.backtesting import Backtest, backtest
from rlscaling.errors import FitError, RLScalingError
from rlscaling.planning import Plan, plan
from rlscaling.plot import plot_backtest
from rlscaling.trace import Trace

from . import output
from .answers import SCHEMA_VERSION, Refusal
from .commands import REFUSED, check_plot
from .inputs import Run, UsageError, find_runs, fit_options, said
from .pictures import write_figure

WIDE = (9.0, 5.0)  # inches


def backtest_runs(args: argparse.Namespace) -> int:
    """Answer ``rlscaling backtest`` and return the exit code."""
    options = fit_options(args)
    check_plot(args.plot, args.overwrite)
    runs = find_runs(args)
    if args.plot is not None and len(runs) > 1:
        raise UsageError(f"--plot {args.plot}: {len(runs)} runs; draw them one by one")

    def work(run: Run) -> Backtest:
        trace = dataclasses.replace(trace_of(run), name=run.name)
        return backtest(trace, cutoffs=args.cutoffs, models=args.models, rng=args.seed, **options)

    answers = _answer(runs, work)
    code = _write(args, answers)
    if args.plot is not None and isinstance(answers[0], Backtest):
        from matplotlib.figure import Figure

        figure = Figure(figsize=WIDE, layout="constrained")
        plot_backtest(answers[0], figure.add_subplot())
        write_figure(figure, Path(args.plot))
        print(f"rlscaling: drew {args.plot}", file=sys.stderr)
    return code


def plan_runs(args: argparse.Namespace) -> int:
    """Answer ``rlscaling plan`` and return the exit code."""
    options = fit_options(args)

    def work(run: Run) -> Plan:
        fit = run.fit(options, args.compute_unit)
        return plan(fit, target_half_width=args.target, at=args.at, next_compute=args.next, rng=args.seed)

    return _write(args, _answer(find_runs(args), work))


def trace_of(run: Run) -> Trace:
    """Return the trace of a run.

    Raises
    ------
    RLScalingError
        Where it was refused, or is a saved fit.
    """
    if isinstance(run.source, Trace):
        return run.source
    if run.source is None:
        raise RLScalingError(run.error)
    raise FitError("a saved fit holds no trace; give the log it was made from")


def _answer(runs: list[Run], work: Callable[[Run], Any]) -> list[Any]:
    answers = []
    with output.progress(len(runs), 0) as bar:
        for run in runs:
            try:
                answers.append(work(run))
            except Exception as error:
                answers.append(Refusal(run.name, said(error)))
            bar.run_done()
    return answers


def _write(args: argparse.Namespace, answers: list[Any]) -> int:
    """Write every answer and return the exit code."""
    refused = [given for given in answers if isinstance(given, Refusal)]
    for one in refused:
        print(f"rlscaling: error: {one.name}: {one.error}", file=sys.stderr)
    if args.json:
        records = [a.to_dict() if not isinstance(a, Refusal) else {"run": a.name, "error": a.error} for a in answers]
        head = {"schema_version": SCHEMA_VERSION, "version": __version__, "seed": args.seed}
        output.print_json(records[0] | head if len(records) == 1 else {**head, "runs": records})
        return REFUSED if refused else 0
    printer = output.Printer(sys.stdout)
    for given in answers:
        if isinstance(given, Refusal):
            continue
        name = given.trace.name if isinstance(given, Backtest) else given.fit.name
        printer.line(f"[{name}] {given.headline}", "bold")
        if rows := given.rows():
            printer.table(given.header, rows)
        for text in given.foot():
            printer.line(f"  {text}")
    return REFUSED if refused else 0
