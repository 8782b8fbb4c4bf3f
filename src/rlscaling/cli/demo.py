"""``rlscaling demo``: a script over the public functions."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rlscaling import datasets
from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.cli import options, output
from rlscaling.cli.arguments import UsageError
from rlscaling.cli.figures import write_figure
from rlscaling.comparing.compare import Comparison, compare
from rlscaling.fitting.fit import fit_trace
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.forecasting.extrapolate import extrapolate
from rlscaling.forecasting.results import Forecast
from rlscaling.printing.numbers import interval, number
from rlscaling.report.make import make_report
from rlscaling.traces.trace import Trace
from rlscaling.traces.trace_files import write_trace
from rlscaling.uncertainty.bootstrap import Bootstrap, bootstrap
from rlscaling.version import __version__

EARLY, WHOLE, OTHER = "scalerl-8k", "scalerl", "batch-2048"
BUDGET, CHECK = 100_000.0, 16_000.0  # GPU-hours: the question, and the end of the run that the early forecast is for
ABOUT = (
    "These runs are simulated, not real training: curves from Table 1 of arXiv 2510.13786 (R0 = 0.35 assumed),\n"
    "with the noise of 1,000 prompts x 16 samples and the slow drift of real runs."
)
EXAMPLES = """\
examples:
  rlscaling demo
  rlscaling demo --out my-demo --json
"""
DEFAULT_OUT = "rlscaling-demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--out", metavar="DIR", default=DEFAULT_OUT, help=f"folder to write to (default: {DEFAULT_OUT})"
    )
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Forecast a run from its first half, compare two recipes, write four files and return the exit code."""
    out = Path(args.out)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; name a folder")
    traces = datasets.load_demo()
    fits = {name: fit_trace(traces[name]) for name in (EARLY, WHOLE, OTHER)}
    boots = {name: bootstrap(fit, rng=args.seed) for name, fit in fits.items()}
    forecast = extrapolate(fits[EARLY], [CHECK, BUDGET], bootstrap=boots[EARLY])
    check = _early_check(forecast, fits[WHOLE], traces[WHOLE])
    comparison = compare({name: fits[name] for name in (WHOLE, OTHER)}, compute=BUDGET, rng=args.seed)
    result = {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "seed": args.seed,
        "about": ABOUT.replace("\n", " "),
        "early_forecast": check | {"verdict": str(forecast.verdict), "extrapolation": forecast.to_dict()},
        "comparison": comparison.to_dict(),
    }
    if args.json:
        output.print_json(result)
    else:
        printer = output.Printer(sys.stdout)
        printer.line(ABOUT)
        printer.line()
        printer.heading("1. Half of a run, 8,000 GPU-hours: what will it reach?")
        printer.document(forecast)
        printer.line(check["sentence"])
        printer.line()
        printer.heading("2. Two recipes: which one for 100,000 GPU-hours?")
        _print_comparison(printer, comparison)
    out.mkdir(parents=True, exist_ok=True)
    (out / "demo.json").write_text(json.dumps(result, allow_nan=False, indent=2) + "\n", encoding="utf-8")
    write_trace(traces[WHOLE], out / "scalerl.jsonl", overwrite=True)
    _draw(forecast, boots, traces[WHOLE], out / "demo.png")
    pair = {name: traces[name] for name in (WHOLE, OTHER)}
    report = make_report(
        pair, compute=BUDGET, title="Two simulated recipes of arXiv 2510.13786, Table 1", rng=args.seed
    )
    report.write(out / "report.html", overwrite=True)
    _print_next_steps(out, sys.stderr if args.json else sys.stdout)
    return 0


def _print_comparison(printer: output.Printer, comparison: Comparison) -> None:
    """Print which recipe leads at the budget and where the curves cross; the report has the other tables."""
    printer.heading(comparison.headline)
    at_the_budget = comparison.tables()[0]
    printer.table(at_the_budget.header, at_the_budget.rows)
    printer.line(f"  {comparison.crossover(OTHER, WHOLE)}")
    printer.line("  'new runs': with the spread between training runs; ceilings and exponents are in the report")


def _early_check(forecast: Forecast, whole: SigmoidFit, trace: Trace) -> dict[str, Any]:
    """Return the forecast for the end of the run beside what the run reached."""
    later = trace.compute > forecast.fit.compute_range[1]
    error = float(np.mean(forecast.fit.predict(trace.compute[later]) - trace.pass_rate[later]))
    expected, ci = float(forecast.pass_rate[0]), forecast.confidence_interval.at(0)
    observed = float(whole.predict(CHECK))
    place = "inside" if ci.low <= observed <= ci.high else "outside"
    sentence = (
        f"The run went on to {number(CHECK)} GPU-hours and reached {number(observed, 3)}: {place} the forecast "
        f"interval {interval(*ci)}.\nThe curve is off by {error:+.4f} on average over the {int(later.sum())} later "
        "evaluations, which the fit never saw."
    )
    return {
        "from_run": EARLY,
        "compute": CHECK,
        "forecast": expected,
        "ci": list(ci),
        "observed": observed,
        "n_later_evaluations": int(later.sum()),
        "mean_error": error,
        "sentence": sentence,
    }


def _print_next_steps(out: Path, stream: TextIO) -> None:
    trace = out / "scalerl.jsonl"
    print(
        f"\nWrote {out / 'demo.png'}, {out / 'report.html'}, {out / 'demo.json'} and {trace}. Try next:\n"
        f"  rlscaling fit {trace} --compute 100000 --plot fit.png\n"
        f"  rlscaling fit {trace} --max-compute 3000 --compute 100000   (too early: it says so)\n"
        "  rlscaling fit YOUR_RUN.csv",
        file=stream,
    )


def _draw(forecast: Forecast, boots: dict[str, Bootstrap], trace: Trace, path: Path) -> None:
    from matplotlib.figure import Figure

    from rlscaling.plotting.runs import plot_forecast, plot_runs

    figure = Figure(figsize=(14, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    later = trace.compute > forecast.fit.compute_range[1]
    left.plot(
        trace.compute[later], trace.pass_rate[later], "^", mfc="none", mec="#222222", ms=5, mew=0.8, zorder=3.5,
        label=f"{int(later.sum())} later evaluations, not fitted",
    )  # fmt: skip
    plot_forecast(forecast, left, bootstrap=boots[EARLY])
    plot_runs({name: boots[name] for name in (WHOLE, OTHER)}, right, compute=BUDGET)
    right.set_title("two recipes, each fitted to its whole run", loc="left", fontsize=10)
    figure.suptitle("Simulated runs from Table 1 of arXiv 2510.13786", fontsize=11)
    write_figure(figure, path)
