"""From a report to its page: the values that the template prints, and the template."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from rlscaling.comparing.tables import ceiling_line, headline, shown_pairs, tables, tail_lines
from rlscaling.fitting.sigmoid_fit import not_identified, parameter_rows, provenance, twice_lines
from rlscaling.forecasting.results import forecast_rows
from rlscaling.plotting.comparisons import plot_comparison
from rlscaling.plotting.plans import plot_backtest
from rlscaling.plotting.runs import plot_fit, plot_forecast
from rlscaling.printing.numbers import interval, number, plus_minus, unit_text
from rlscaling.report.figures import SINGLE, WIDE, svg
from rlscaling.solver.intervals import half_width_68
from rlscaling.uncertainty.bootstrap import bootstrap_rows
from rlscaling.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rlscaling.comparing.compare import Comparison
    from rlscaling.report.content import ReportContent, RunReport


MOST_ROWS = 1000  # of the overview: beyond, a page is no longer read


class Table(NamedTuple):
    """A table of text; the first column is a name."""

    title: str
    header: list[str]
    rows: list[list[str]]


def render(report: ReportContent) -> str:
    """Return the page of a report."""
    return str(
        _template().render(
            report=report, version=__version__, unit=unit_text(report.runs[0].fit.compute_unit),
            budgets=", ".join(number(budget) for budget in report.at), lead=_lead(report), overview=_overview(report),
            comparison=None if report.comparison is None else _comparison(report.comparison),
            runs=[_run(run, k) for k, run in enumerate(report.runs) if run.detailed],
            undetailed=sum(not run.detailed for run in report.runs),
            receipts=[(run.name, _receipt(run)) for run in report.runs if run.receipt],
        )
    )  # fmt: skip


@functools.cache
def _template() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("rlscaling.report", "")
    found = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
                               lstrip_blocks=True)  # fmt: skip
    return found.get_template("page.html.j2")


def _lead(report: ReportContent) -> list[tuple[str, str]]:
    """Return the sentences that open the page, each with what it stands for: good, open or bad."""
    found = []
    if report.comparison is not None:
        c = report.comparison
        found = [("good" if c.decided else "open", headline(c)), ("open", ceiling_line(c))]
    elif len(report.runs) == 1:
        fit = report.runs[0].fit
        found = [(_kind(report.runs[0]), f"{fit.verdict}: {fit.reason}")]
    if report.not_compared:
        found.append(("bad", f"not compared: {report.not_compared}"))
    if report.refused:
        n = len(report.refused)
        found.append(("bad", f"{n} run{'s' * (n > 1)} could not be used"))
    return found


def _kind(run: RunReport) -> str:
    verdict = run.fit.verdict
    return "good" if verdict.identifies_ceiling else "open" if verdict.has_curve else "bad"


def _overview(report: ReportContent) -> Table:
    """Return one row a run: verdict, ceiling with its interval, pass rate at the first budget."""
    level = f"{100 * _level(report):g} %"
    header = ["run", "verdict", "points", "A", level]
    header += [f"R at {number(report.at[0])}", level] if report.at else []
    rows = []
    for run in report.runs[:MOST_ROWS]:
        fit, boot = run.fit, run.bootstrap
        row = [run.name, str(fit.verdict), str(fit.n_points)]
        if boot is None:
            row += ["not identified", ""]
        else:
            error = half_width_68(boot.distribution[:, 0])
            row.append("not identified" if not_identified(fit, "A") else plus_minus(fit.A, error))
            row.append(interval(*boot.confidence_interval["A"]))
        if report.at:
            row += ["", ""] if run.forecast is None else forecast_rows(run.forecast)[0][2:4]
        rows.append(row)
    return Table("", header, rows)


def _level(report: ReportContent) -> float:
    return next((run.bootstrap.confidence_level for run in report.runs if run.bootstrap is not None), 0.95)


def _comparison(c: Comparison) -> dict[str, Any]:
    matches = shown_pairs(c)
    return {
        "picture": svg(lambda ax: plot_comparison(c, ax), WIDE, f"curves of the recipes; {headline(c)}", "compare"),
        "tables": [Table(*found) for found in tables(c, matches)],
        "seeds": [] if c.spread is None else str(c.spread).splitlines(),
        "lines": tail_lines(c, matches),
    }


def _run(run: RunReport, k: int) -> dict[str, Any]:
    fit, boot, forecast = run.fit, run.bootstrap, run.forecast

    def draw(ax: Axes) -> None:
        if forecast is None:
            plot_fit(fit, boot, ax)
        else:
            plot_forecast(forecast, ax, bootstrap=boot)

    level = f"{100 * (0.95 if boot is None else boot.confidence_level):g} %"
    if boot is None:
        parameters = Table("", ["", "estimate", "95 % interval", ""], parameter_rows(fit))
    else:
        parameters = Table("", ["", "estimate", f"{level} this run", f"{level} new run", ""], bootstrap_rows(boot))
    budgets = ["compute", "of data", "pass rate", f"{level} this run", f"{level} new run"]
    return {
        "name": run.name, "kind": _kind(run), "verdict": f"{fit.verdict}: {fit.reason}",
        "picture": svg(draw, SINGLE, f"pass rate of {run.name} against compute, with the fit", f"run{k}"),
        "parameters": parameters,
        "forecast": None if forecast is None else Table("", budgets, forecast_rows(forecast)),
        "lines": [*(line.strip() for line in twice_lines(fit)), provenance(fit)],
        "backtest": _backtest(run, k), "plan": _plan(run),
        "notes": fit.notes if forecast is None else forecast.notes,
    }  # fmt: skip


def _backtest(run: RunReport, k: int) -> dict[str, Any]:
    found = run.backtest
    if found is None or isinstance(found, str):
        return {"headline": f"no backtest: {found}", "table": None, "picture": ""}
    return {
        "headline": found.headline, "table": found.tables()[0],
        "picture": svg(lambda ax: plot_backtest(found, ax), SINGLE, f"earlier forecasts of {run.name}", f"back{k}"),
    }  # fmt: skip


def _plan(run: RunReport) -> dict[str, Any]:
    found = run.plan
    if found is None or isinstance(found, str):
        return {"headline": f"no plan: {found}", "table": None, "lines": []}
    return {
        "headline": found.headline, "table": found.tables()[0] if found.ways else None,
        "lines": [found.stop_advice, found.seed_advice] if found.fit.verdict.has_curve else [],
    }  # fmt: skip


def _receipt(run: RunReport) -> list[tuple[str, str]]:
    """Return what the reader took, assumed and left out, as (name, text)."""
    found = []
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
            found.append((key.replace("_", " "), text))
    return found
