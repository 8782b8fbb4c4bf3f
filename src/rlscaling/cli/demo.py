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

REAL, WHOLE, OTHER = "scalerl-8b", "scalerl", "batch-2048"
SEEN, BUDGET = 50_000.0, 100_000.0  # GPU-hours: the part of the real run that is fitted, and the question
ABOUT = (
    "The first run is real: the 8B run of Figure 1 of arXiv 2510.13786 (CC BY 4.0), read off the picture. The two\n"
    "others are simulated, not real training: curves from its Table 1 (R0 = 0.35 assumed), evaluated as often as\n"
    "there, with the noise of 1,000 prompts x 16 samples and the slow drift of real runs."
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
    """Forecast a real run from its first half, compare two recipes, write the files and return the exit code."""
    out = Path(args.out)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; name a folder")
    real, simulated = datasets.figure1(), datasets.load_demo()
    pair = {name: simulated[name] for name in (WHOLE, OTHER)}
    fits = {name: fit_trace(trace) for name, trace in pair.items()} | {REAL: fit_trace(real[REAL].up_to(SEEN))}
    boots = {name: bootstrap(fit, rng=args.seed) for name, fit in fits.items()}
    forecast = extrapolate(fits[REAL], BUDGET, bootstrap=boots[REAL])
    check = _early_check(forecast, fit_trace(real[REAL]), real[REAL])
    comparison = compare({name: fits[name] for name in pair}, compute=BUDGET, rng=args.seed)
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
        printer.heading(f"1. A real run, seen to {number(SEEN)} GPU-hours: what will it reach?")
        printer.document(forecast)
        printer.line(check["sentence"])
        printer.line()
        printer.heading(f"2. Two simulated recipes: which one for {number(BUDGET)} GPU-hours?")
        _print_comparison(printer, comparison)
    out.mkdir(parents=True, exist_ok=True)
    (out / "demo.json").write_text(json.dumps(result, allow_nan=False, indent=2) + "\n", encoding="utf-8")
    for trace in (*real.values(), pair[WHOLE]):
        write_trace(trace, out / f"{trace.name}.jsonl", overwrite=True)
    _draw(forecast, boots, real[REAL], out / "demo.png")
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
    """Return the forecast for the budget beside what the run showed later."""
    later = trace.compute > forecast.fit.compute_range[1]
    error = float(np.mean(forecast.fit.predict(trace.compute[later]) - trace.pass_rate[later]))
    expected, ci = float(forecast.pass_rate[0]), forecast.confidence_interval.at(0)
    observed = float(whole.predict(BUDGET))
    place = "inside" if ci.low <= observed <= ci.high else "outside"
    sentence = (
        f"The run went on to {number(trace.compute[-1])} GPU-hours; fitted to its end it gives {number(observed, 3)} "
        f"at {number(BUDGET)}:\n{place} the forecast interval {interval(*ci)}. The curve is off by {error:+.4f} on "
        f"average over\nthe {int(later.sum())} later evaluations, which the fit never saw."
    )
    return {
        "from_run": trace.name,
        "compute": BUDGET,
        "forecast": expected,
        "ci": list(ci),
        "observed": observed,
        "n_later_evaluations": int(later.sum()),
        "mean_error": error,
        "sentence": sentence,
    }


def _print_next_steps(out: Path, stream: TextIO) -> None:
    files = [out / name for name in ("demo.png", "report.html", "demo.json", "scalerl.jsonl")]
    real, moe = out / f"{REAL}.jsonl", out / "scalerl-moe.jsonl"
    print(
        f"\nWrote {', '.join(map(str, files))}, {real} and {moe}. Try next:\n"
        f"  rlscaling fit {real} --compute 100000 --plot fit.png\n"
        f"  rlscaling fit {moe} --max-compute 8000 --compute 100000   (too early: it says so)\n"
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
    plot_forecast(forecast, left, bootstrap=boots[REAL])
    plot_runs({name: boots[name] for name in (WHOLE, OTHER)}, right, compute=BUDGET)
    right.set_title("two simulated recipes, each fitted to its whole run", loc="left", fontsize=10)
    figure.suptitle("A real run (Figure 1) and two simulated ones (Table 1) of arXiv 2510.13786", fontsize=11)
    write_figure(figure, path)
