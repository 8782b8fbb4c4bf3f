"""``rlscaling demo``: bundled simulated runs, an early forecast checked against the rest, two recipes compared."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlscaling import datasets
from rlscaling.arrays import Array
from rlscaling.batch.analysis import SCHEMA_VERSION, Analysis, AnalysisOptions, FailedAnalysis, analyse_run, record
from rlscaling.batch.sources import RunSource
from rlscaling.cli.inputs import UsageError
from rlscaling.cli.output import NEW_RUN, Printer, print_json
from rlscaling.cli.pictures import write_figure
from rlscaling.printing.numbers import interval, number, plus_minus, rough
from rlscaling.report.make import make_report
from rlscaling.solver.intervals import half_width_68, percentile_interval
from rlscaling.traces.trace import Trace
from rlscaling.traces.trace_files import write_trace
from rlscaling.version import __version__

EARLY, WHOLE, OTHER = "scalerl-8k", "scalerl", "batch-2048"
BUDGET, CHECK = 100_000.0, 16_000.0  # GPU-hours: the question, and the end of the run that the early forecast foresees
DECIDED = 0.975  # share of draws from which on a recipe is called ahead
ABOUT = (
    "These runs are simulated, not real training: curves from Table 1 of arXiv 2510.13786 (R0 = 0.35 assumed),\n"
    "with the noise of 1,000 prompts x 16 samples and the wander of real runs."
)


class Comparison(NamedTuple):
    """Two recipes at one budget: the second minus the first, over all pairs of their draws, which are independent."""

    difference: float
    ci: tuple[float, float]
    share: float
    ci_new_run: tuple[float, float]
    share_new_run: float
    crossover: float | None
    conclusion: str


class EarlyCheck(NamedTuple):
    """What the first half said about the end of the run, and what came."""

    forecast: float
    ci: tuple[float, float]
    came: float
    n_later: int
    mean_error: float
    sentence: str


def demo(args: argparse.Namespace) -> int:
    """Run the demo, write its four files and return the exit code."""
    out = Path(args.out)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; name a folder")
    traces = datasets.load_demo()
    early_request = AnalysisOptions(budgets=(CHECK, BUDGET), seed=args.seed)
    request = AnalysisOptions(budgets=(BUDGET,), seed=args.seed)
    early = _answered(traces[EARLY], early_request)
    first, second = (_answered(traces[name], request) for name in (WHOLE, OTHER))
    check = _early_check(early, first, traces[WHOLE])
    comparison = compare_two(first, second)
    result = {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "seed": args.seed,
        "about": ABOUT.replace("\n", " "),
        "runs": [record(given, request) for given in (early, first, second)],
        "early_forecast": _check_record(check),
        "comparison": _comparison_record(comparison, first, second),
    }
    if args.json:
        print_json(result)
    else:
        _tell(early, first, second, request, check, comparison)
    out.mkdir(parents=True, exist_ok=True)
    (out / "demo.json").write_text(json.dumps(result, allow_nan=False, indent=2) + "\n", encoding="utf-8")
    write_trace(traces[WHOLE], out / "scalerl.jsonl", overwrite=True)
    _draw(early, first, second, traces[WHOLE], out / "demo.png")
    pair = {name: traces[name] for name in (WHOLE, OTHER)}
    report = make_report(
        pair, compute=BUDGET, title="Two simulated recipes of arXiv 2510.13786, Table 1", rng=args.seed
    )
    report.write(out / "report.html", overwrite=True)
    _next_steps(out, sys.stderr if args.json else sys.stdout)
    return 0


def _answered(trace: Trace, request: AnalysisOptions) -> Analysis:
    given = analyse_run(RunSource(trace.name, trace), request)
    assert not isinstance(given, FailedAnalysis), given.error
    return given


def _draws(given: Analysis, *, new_run: bool = False) -> Array:
    """Return the draws of the pass rate at the last budget of the forecast."""
    assert given.forecast is not None
    draws = given.forecast.distribution_new_run if new_run else given.forecast.distribution
    return draws[:, -1]


def _pair(values: Array) -> tuple[float, float]:
    return float(values[0]), float(values[1])


# --- the early forecast ---------------------------------------------------------------------------------------


def _early_check(early: Analysis, whole: Analysis, trace: Trace) -> EarlyCheck:
    assert early.forecast is not None
    ahead = trace.compute > early.fit.compute_range[1]
    error = float(np.mean(early.fit.predict(trace.compute[ahead]) - trace.pass_rate[ahead]))
    forecast, ci = float(early.forecast.pass_rate[0]), _pair(early.forecast.confidence_interval[0])
    came = float(whole.fit.predict(CHECK))
    where = "inside" if ci[0] <= came <= ci[1] else "OUTSIDE"
    sentence = (
        f"After 8,000 GPU-hours the forecast for {number(CHECK)} was {number(forecast, 3)}, 95 % {interval(*ci)}; "
        f"the run came to {number(came, 3)}: {where} the interval."
    )
    return EarlyCheck(forecast, ci, came, int(ahead.sum()), error, sentence)


def _check_record(check: EarlyCheck) -> dict[str, Any]:
    return {
        "from_run": EARLY,
        "compute": CHECK,
        "forecast": check.forecast,
        "ci": list(check.ci),
        "came": check.came,
        "n_later_evaluations": check.n_later,
        "mean_error": check.mean_error,
        "sentence": check.sentence,
    }


# --- two recipes ----------------------------------------------------------------------------------------------


def compare_two(first: Analysis, second: Analysis) -> Comparison:
    """Compare two runs at the last budget of their forecasts."""
    assert first.forecast is not None
    assert second.forecast is not None
    level = first.forecast.confidence_level
    spans, shares = [], []
    for new_run in (False, True):
        pairs = np.subtract.outer(_draws(second, new_run=new_run), _draws(first, new_run=new_run)).ravel()
        spans.append(_pair(percentile_interval(pairs, level)))
        shares.append(float(np.mean(pairs > 0)))
    difference = float(second.forecast.pass_rate[-1] - first.forecast.pass_rate[-1])
    budget = float(first.forecast.compute[-1])
    cross = _crossover(first, second, budget)
    sentence = _conclusion(first.name, second.name, difference, spans[0], shares, cross, budget)
    return Comparison(difference, spans[0], shares[0], spans[1], shares[1], cross, sentence)


def _crossover(first: Analysis, second: Analysis, budget: float) -> float | None:
    """Return the last compute below ``budget`` at which the two fitted curves cross."""
    grid = np.geomspace(min(first.fit.compute_range[0], second.fit.compute_range[0]), budget, 2000)
    gap = second.fit.predict(grid) - first.fit.predict(grid)
    changes = np.flatnonzero(np.signbit(gap[1:]) != np.signbit(gap[:-1]))
    return float(grid[changes[-1]]) if len(changes) else None


def _conclusion(
    first: str, second: str, difference: float, ci: tuple[float, float], shares: list[float], cross: float | None,
    budget: float,
) -> str:  # fmt: skip
    at = f"at {number(budget)} GPU-hours"
    best, other = (second, first) if difference > 0 else (first, second)
    share, share_new = (shares[0], shares[1]) if difference > 0 else (1 - shares[0], 1 - shares[1])
    low, high = sorted(abs(value) for value in ci)
    if share < DECIDED:
        return f"Undecided: {at} {best} is ahead of {other} in {100 * share:.0f} % of the draws only."
    text = f"Bet on {best}: {at} it is ahead of {other} by {abs(difference):.3f} (95 %: {low:.3f} to {high:.3f})"
    if cross is not None:
        text += f", although {other} leads up to about {rough(cross)} GPU-hours"
    return f"{text}; between new runs of both it would be ahead with probability {share_new:.2f}."


def _comparison_record(comparison: Comparison, first: Analysis, second: Analysis) -> dict[str, Any]:
    return {
        "recipes": [first.name, second.name],
        "compute": BUDGET,
        "difference": comparison.difference,
        "ci": list(comparison.ci),
        "probability_second_ahead": comparison.share,
        "ci_new_run": list(comparison.ci_new_run),
        "probability_second_ahead_new_run": comparison.share_new_run,
        "crossover": comparison.crossover,
        "conclusion": comparison.conclusion,
    }


# --- printed --------------------------------------------------------------------------------------------------


def _tell(
    early: Analysis,
    first: Analysis,
    second: Analysis,
    request: AnalysisOptions,
    check: EarlyCheck,
    comparison: Comparison,
) -> None:
    to = Printer(sys.stdout)
    to.line(ABOUT)
    to.line()
    to.heading("1. Half of a run: what do 8,000 GPU-hours tell?")
    to.answer(early, request)
    to.line()
    to.line(check.sentence)
    to.line(
        f"Over the {check.n_later} evaluations that came later it was off by {check.mean_error:+.4f} on average "
        "(the fit never saw them)."
    )
    to.line()
    to.heading("2. Two recipes, whole runs")
    for given in (first, second):
        to.answer(given, request)
        to.line()
    to.line("  " + NEW_RUN.format(request.seed_sd), "dim")
    to.line()
    to.heading("3. Which recipe for 100,000 GPU-hours?")
    to.table(["95 % this run", first.name, second.name], _side_by_side(first, second))
    to.line()
    to.table(
        [f"{second.name} minus {first.name} at 100,000", "difference", "95 % interval", "ahead in"],
        [
            ["these two runs", number(comparison.difference, 3), interval(*comparison.ci), _percent(comparison.share)],
            ["a new run of each", "", interval(*comparison.ci_new_run), _percent(comparison.share_new_run)],
        ],
    )
    to.line("  B and C_mid depend on R0: compare them only where R0 agrees", "dim")
    to.line()
    to.line(comparison.conclusion, "bold")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} % of draws"


def _side_by_side(first: Analysis, second: Analysis) -> list[list[str]]:
    rows = []
    for j, name in enumerate(("A", "B", "C_mid", "R0")):
        cells = []
        for given in (first, second):
            assert given.bootstrap is not None
            draws = given.bootstrap.distribution[:, j]
            cells.append(_cell(getattr(given.fit.params, name), draws, given.bootstrap.confidence_interval[name]))
        rows.append([name, *cells])
    cells = []
    for given in (first, second):
        assert given.forecast is not None
        value = float(given.forecast.pass_rate[-1])
        cells.append(_cell(value, _draws(given), _pair(given.forecast.confidence_interval[-1])))
    return [*rows, ["R at 100,000", *cells]]


def _cell(value: float, draws: Array, ci: tuple[float, float]) -> str:
    return f"{plus_minus(value, half_width_68(draws))}  {interval(*ci)}"


def _next_steps(out: Path, stream: Any) -> None:
    trace = out / "scalerl.jsonl"
    print(
        f"\nWrote {out / 'demo.png'}, {out / 'report.html'}, {out / 'demo.json'} and {trace}. Try next:\n"
        f"  rlscaling fit {trace} --extrapolate 100000 --plot fit.png\n"
        f"  rlscaling fit {trace} --max-compute 3000 --extrapolate 100000   (too early: it says so)\n"
        "  rlscaling fit YOUR_RUN.csv",
        file=stream,
    )


def _draw(early: Analysis, first: Analysis, second: Analysis, whole: Trace, path: Path) -> None:
    from matplotlib.figure import Figure

    from rlscaling.plotting.runs import plot_forecast, plot_runs

    assert early.forecast is not None
    figure = Figure(figsize=(14, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    later = whole.compute > early.fit.compute_range[1]
    label = f"came later ({int(later.sum())}), not fitted"
    came = (whole.compute[later], whole.pass_rate[later])
    left.plot(*came, "^", mfc="none", mec="#222222", ms=5, mew=0.8, label=label, zorder=3.5)
    plot_forecast(early.forecast, left, bootstrap=early.bootstrap)
    both = {given.name: given.bootstrap for given in (first, second) if given.bootstrap is not None}
    plot_runs(both, right, compute=BUDGET)
    right.set_title("two recipes, each fitted to its whole run", loc="left", fontsize=10)
    figure.suptitle("Simulated runs from Table 1 of arXiv 2510.13786", fontsize=11)
    write_figure(figure, path)
