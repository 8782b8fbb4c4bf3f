"""`render`: the page of a report, from its content and the template."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from rlscaling.comparing.tables import ceiling_line
from rlscaling.fitting.sigmoid_fit import at_twice_text, not_identified, provenance
from rlscaling.fitting.verdict import THRESHOLDS, threshold_text
from rlscaling.plotting.comparisons import plot_comparison
from rlscaling.plotting.plans import plot_backtest
from rlscaling.plotting.runs import plot_fit, plot_forecast
from rlscaling.printing.document import Table
from rlscaling.printing.numbers import interval, number, plus_minus, unit_text
from rlscaling.report.figures import SINGLE, WIDE, svg
from rlscaling.solver.intervals import half_width_68
from rlscaling.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rlscaling.comparing.compare import Comparison
    from rlscaling.report.content import ReportContent, RunReport


MOST_ROWS = 1000  # of the overview: beyond, a page is no longer read


def render(content: ReportContent) -> str:
    """Return the page of a report."""
    return str(
        _template().render(
            report=content, version=__version__, unit=unit_text(content.runs[0].fit.compute_unit),
            thresholds={str(verdict): threshold_text(width).lstrip("±") for verdict, width in THRESHOLDS.items()},
            budgets=", ".join(number(budget) for budget in content.compute), lead=_lead(content),
            overview=_overview(content),
            comparison=None if content.comparison is None else _comparison(content.comparison),
            runs=[_run(run, k) for k, run in enumerate(content.runs) if run.detailed],
            undetailed=sum(not run.detailed for run in content.runs),
            receipts=[(run.name, _receipt(run)) for run in content.runs if run.receipt],
        )
    )  # fmt: skip


@functools.cache
def _template() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("rlscaling.report", "")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")


def _lead(content: ReportContent) -> list[tuple[str, str]]:
    """Return the sentences that open the page, each with its kind: good, open or bad."""
    lead = []
    if content.comparison is not None:
        c = content.comparison
        lead = [("good" if c.decided else "open", c.headline), ("open", ceiling_line(c))]
    elif len(content.runs) == 1:
        fit = content.runs[0].fit
        lead = [(_kind(content.runs[0]), f"{fit.verdict}: {fit.reason}")]
    if content.not_compared:
        lead.append(("bad", f"not compared: {content.not_compared}"))
    if content.refused:
        n = len(content.refused)
        lead.append(("bad", f"{n} run{'s' * (n > 1)} could not be used"))
    return lead


def _kind(run: RunReport) -> str:
    verdict = run.fit.verdict
    return "good" if verdict.identifies_ceiling else "open" if verdict.has_curve else "bad"


def _overview(content: ReportContent) -> Table:
    """Return one row per run: verdict, ceiling with its interval, pass rate at the first budget."""
    level = f"{100 * _level(content):g} %"
    header = ["run", "verdict", "points", "A", level]
    header += [f"R at {number(content.compute[0])}", level] if content.compute else []
    rows = []
    for run in content.runs[:MOST_ROWS]:
        fit, boot = run.fit, run.bootstrap
        row = [run.name, str(fit.verdict), str(fit.n_points)]
        if boot is None:
            row += ["not identified", ""]
        else:
            error = half_width_68(boot.distribution[:, 0])
            row.append("not identified" if not_identified(fit, "A") else plus_minus(fit.A, error))
            row.append(interval(*boot.confidence_interval["A"]))
        if content.compute:
            row += ["", ""] if run.forecast is None else run.forecast.tables()[0].rows[0][2:4]
        rows.append(row)
    return Table.of(header, rows)


def _level(content: ReportContent) -> float:
    return next((run.bootstrap.confidence_level for run in content.runs if run.bootstrap is not None), 0.95)


def _comparison(c: Comparison) -> dict[str, Any]:
    return {
        "figure": svg(lambda ax: plot_comparison(c, ax), WIDE, f"curves of the recipes; {c.headline}", "compare"),
        "tables": c.tables(), "lines": c.footnotes(),
    }  # fmt: skip


def _run(run: RunReport, k: int) -> dict[str, Any]:
    fit, boot, forecast = run.fit, run.bootstrap, run.forecast

    def draw(ax: Axes) -> None:
        if forecast is None:
            plot_fit(fit, ax, bootstrap=boot)
        else:
            plot_forecast(forecast, ax, bootstrap=boot)

    return {
        "name": run.name, "kind": _kind(run), "verdict": f"{fit.verdict}: {fit.reason}",
        "figure": svg(draw, SINGLE, f"pass rate of {run.name} against compute, with the fit", f"run{k}"),
        "parameters": (fit if boot is None else boot).tables()[0],
        "forecast": None if forecast is None else forecast.tables()[0],
        "lines": [*at_twice_text(fit), provenance(fit)],
        "backtest": _backtest(run, k), "plan": _plan(run),
        "notes": fit.notes if forecast is None else forecast.notes,
    }  # fmt: skip


def _backtest(run: RunReport, k: int) -> dict[str, Any]:
    backtest = run.backtest
    if backtest is None or isinstance(backtest, str):
        return {"headline": f"no backtest: {backtest}", "tables": [], "figure": ""}
    return {
        "headline": backtest.headline, "tables": backtest.tables(),
        "figure": svg(lambda ax: plot_backtest(backtest, ax), SINGLE, f"earlier forecasts of {run.name}", f"back{k}"),
    }  # fmt: skip


def _plan(run: RunReport) -> dict[str, Any]:
    plan = run.plan
    if plan is None or isinstance(plan, str):
        return {"headline": f"no plan: {plan}", "tables": [], "lines": []}
    return {
        "headline": plan.headline, "tables": [table for table in plan.tables() if table.rows],
        "lines": [plan.stop_advice, plan.seed_advice] if plan.fit.verdict.has_curve else [],
    }  # fmt: skip


def _receipt(run: RunReport) -> list[tuple[str, str]]:
    """Return what the reader used, assumed and left out, as (name, text)."""
    lines = []
    for key, value in run.receipt.items():
        if isinstance(value, dict):
            text = "; ".join(f"{name}: {what}" for name, what in value.items())
        elif key == "files":
            text = "; ".join(f"{file['name']} ({file['bytes']:,} bytes, sha256 {file['sha256']})" for file in value)
        elif key == "warnings":
            text = "; ".join(f"{warning['what']} ({warning['remedy']})" for warning in value)
        else:
            text = str(value)
        if text:
            lines.append((key.replace("_", " "), text))
    return lines
