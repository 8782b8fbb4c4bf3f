"""Text on a terminal, plain text in a pipe, JSON for programs, progress on stderr."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rlscaling.batch.analysis import SCHEMA_VERSION, Analysis, AnalysisOptions, FailedAnalysis, Progress
from rlscaling.fitting.sigmoid_fit import at_twice_text, not_identified, provenance
from rlscaling.fitting.verdict import Verdict
from rlscaling.forecasting.cutoffs import CutoffSensitivity
from rlscaling.printing.document import Document, as_text, text_table
from rlscaling.printing.numbers import interval, number, percent, rough, unit_text
from rlscaling.uncertainty.bootstrap import NEW_RUN
from rlscaling.version import __version__

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


COLORS = {str(verdict): "bold red" for verdict in Verdict} | {
    "identified": "bold green",
    "approximate": "bold cyan",
    "weak": "bold yellow",
    "ceiling-given": "bold blue",
    "refused": "bold red",
}
MANY_REPLICATES = 5000  # from here on one run takes long enough for a bar


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout."""
    print(json.dumps(value, allow_nan=False, indent=2))


def print_messages(result: Analysis | FailedAnalysis) -> None:
    """Write on stderr what the reader assumed, or why a run was not analysed."""
    if isinstance(result, FailedAnalysis):
        name = "" if result.name in result.error else f"{result.name}: "
        print(f"rlscaling: error: {name}{result.error}", file=sys.stderr)
        return
    for note in result.messages:
        print(f"rlscaling: {result.name}: {note}", file=sys.stderr)


def write_documents(
    results: Sequence[tuple[str, Document | FailedAnalysis]], *, json: bool, seed: int, split: Document | None = None
) -> bool:
    """Write the result of every run, and before them how a budget is split; return whether a run failed."""
    failures = [result for _, result in results if isinstance(result, FailedAnalysis)]
    for failure in failures:
        print(f"rlscaling: error: {failure.name}: {failure.error}", file=sys.stderr)
    if json:
        records = [
            {"run": result.name, "error": result.error} if isinstance(result, FailedAnalysis) else result.to_dict()
            for _, result in results
        ]
        head: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "version": __version__, "seed": seed}
        head |= {} if split is None else {"split": split.to_dict()}
        print_json(records[0] | head if len(records) == 1 else {**head, "runs": records})
        return bool(failures)
    printer = Printer(sys.stdout)
    if split is not None:
        printer.document(split)
    for name, result in results:
        if not isinstance(result, FailedAnalysis):
            printer.document(result, f"[{name}] ")
    return bool(failures)


class Printer:
    """Writes headings, tables and remarks to a stream: through rich where it is a terminal, else as plain text."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.console: Console | None = None
        if stream.isatty():
            from rich.console import Console

            self.console = Console(file=stream, highlight=False, markup=False, emoji=False)

    def line(self, text: str = "", style: str = "") -> None:
        """Write a line."""
        if self.console is None:
            print(text, file=self.stream)
        else:
            self.console.print(text, style=style or None, soft_wrap=False)

    def heading(self, text: str) -> None:
        """Write a line in bold; a verdict at its beginning has its colour."""
        verdict, rest = _verdict_first(text)
        if self.console is None or not verdict:
            self.line(text, "bold")
            return
        from rich.text import Text

        self.console.print(Text.assemble((verdict, COLORS[verdict]), (rest, "bold")))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table: the first column to the left, the others to the right, verdicts in their colours."""
        if self.console is None:
            self.line(text_table(rows, header))
            return
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=True, header_style="bold")
        for i, name in enumerate(header):
            table.add_column(Text(name), justify="left" if i == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, COLORS.get(cell, "")) for cell in row))
        self.console.print(table)

    def tables(self, document: Document) -> None:
        """Write the tables of a result."""
        for table in document.tables():
            if table.rows:
                if table.title:
                    self.line(f"  {table.title}")
                self.table(table.header, table.rows)

    def document(self, document: Document, name: str = "") -> None:
        """Write a result that prints itself, its headline in bold; ``name`` comes before the headline."""
        if self.console is None:
            self.line(name + as_text(document))
            return
        self.heading(name + document.headline)
        self.tables(document)
        for text in document.footnotes():
            self.line(f"  {text}", "dim")

    def analyses(
        self, analyses: Sequence[Analysis | FailedAnalysis], options: AnalysisOptions, *, forecast_first: bool
    ) -> None:
        """Write every analysis, and an overview when there are several."""
        for analysis in analyses:
            if isinstance(analysis, Analysis):
                self.analysis(analysis, options, forecast_first=forecast_first)
                if len(analyses) > 1:
                    self.line()
        if any(isinstance(analysis, Analysis) and analysis.bootstrap is not None for analysis in analyses):
            self.line("  " + NEW_RUN.format(options.seed_sd), "dim")
        if len(analyses) > 1:
            self.line()
            self.overview(analyses, options)

    def analysis(self, analysis: Analysis, options: AnalysisOptions, *, forecast_first: bool = False) -> None:
        """Write the analysis of one run, the verdict first."""
        self.heading(f"{analysis.fit.verdict} [{analysis.name}]: {analysis.fit.reason}")
        parts = [self._parameters, self._forecast]
        for part in reversed(parts) if forecast_first else parts:
            part(analysis, options)
        for text in _reach_lines(analysis):
            self.line("  " + text)
        if analysis.cutoffs is not None:
            self._cutoffs(analysis.cutoffs)
        for note in analysis.notes:
            if note not in analysis.messages:
                self.line(f"  note: {note}", "dim")

    def _parameters(self, analysis: Analysis, options: AnalysisOptions) -> None:
        if (boot := analysis.bootstrap) is None:
            self.tables(analysis.fit)
            self.line("  " + provenance(analysis.fit), "dim")
            return
        self.tables(boot)
        for text in at_twice_text(analysis.fit):
            self.line("  " + text)
        replicates = f"{boot.n_resamples:,} replicates ({boot.scheme}, seed {options.seed})"
        self.line(f"  {replicates}; {provenance(analysis.fit)}", "dim")

    def _forecast(self, analysis: Analysis, options: AnalysisOptions) -> None:
        if analysis.forecast is not None:
            self.tables(analysis.forecast)
            if analysis.forecast.past is not None:
                self.line(f"  {analysis.forecast.past.sentence}", "dim")
        elif analysis.budgets:  # too few points for intervals
            level, last = percent(options.confidence_level), analysis.fit.compute_range[1]
            header = [
                unit_text(analysis.fit.compute_unit),
                "of data",
                "pass rate",
                f"{level} this run",
                f"{level} new run",
            ]
            rows = [[number(c), f"{rough(c / last, 3)}x", "not identified", "", ""] for c in analysis.budgets]
            self.table(header, rows)

    def _cutoffs(self, cutoffs: CutoffSensitivity) -> None:
        if self.console is None:
            self.line(textwrap.indent(as_text(cutoffs), "  "))
            return
        self.line(f"  {cutoffs.headline}")
        self.tables(cutoffs)
        if cutoffs.warning:
            self.line(f"  {cutoffs.warning}", "yellow")

    def overview(self, analyses: Sequence[Analysis | FailedAnalysis], options: AnalysisOptions) -> None:
        """Write one row a run: verdict, interval of A, points."""
        rows = []
        for analysis in analyses:
            if isinstance(analysis, FailedAnalysis):
                rows.append([analysis.name, "refused", "", "", ""])
                continue
            ci = analysis.bootstrap.confidence_interval["A"] if analysis.bootstrap is not None else None
            ceiling = "" if not_identified(analysis.fit, "A") else number(analysis.fit.A, 3)
            span = interval(*ci) if ci is not None and ci[0] != ci[1] else ""
            rows.append([analysis.name, str(analysis.fit.verdict), ceiling, span, str(analysis.fit.n_points)])
        self.heading("Overview")
        self.table(["run", "verdict", "A", f"{percent(options.confidence_level)} this run", "points"], rows)


def _verdict_first(text: str) -> tuple[str, str]:
    """Return the verdict with which a line begins, or nothing, and the rest of the line."""
    word = re.match(r"[\w-]*", text)[0]  # type: ignore[index]
    return (word, text[len(word) :]) if word in COLORS else ("", text)


def _reach_lines(analysis: Analysis) -> list[str]:
    """Return a line for each pass rate to reach; without intervals where there are too few points."""
    unit = unit_text(analysis.fit.compute_unit)
    if analysis.bootstrap is None:
        at = [(pass_rate, float(analysis.fit.compute_to_reach(pass_rate))) for pass_rate in analysis.reach_targets]
        return [f"pass rate {pass_rate:g} at {number(compute)} {unit}, no interval" for pass_rate, compute in at]
    return [reach.sentence for reach in analysis.reach]


class Bar:
    """Progress over runs and replicates; does nothing without a terminal."""

    def __init__(self, rich: RichProgress | None, n_runs: int) -> None:
        self.rich = rich
        self.runs = rich.add_task("runs", total=n_runs) if rich is not None and n_runs > 1 else None
        self.task: TaskID | None = None

    def replicates(self, name: str) -> Progress | None:
        """Return the callback for the replicates of one run."""
        rich = self.rich
        if rich is None:
            return None
        if self.task is None:
            self.task = rich.add_task(name, total=None)
        task = self.task
        rich.update(task, description=name, completed=0)
        return lambda done, total: rich.update(task, completed=done, total=total)

    def run_done(self) -> None:
        """Count one run."""
        if self.rich is not None and self.runs is not None:
            self.rich.advance(self.runs)

    def reached(self, done: int, total: int) -> None:
        """Say how many runs are done."""
        if self.rich is not None and self.runs is not None:
            self.rich.update(self.runs, completed=done, total=total)


@contextmanager
def progress(n_runs: int, n_resamples: int) -> Iterator[Bar]:
    """Show a progress bar on stderr where it is a terminal and the work is long enough to notice."""
    if not sys.stderr.isatty() or (n_runs < 2 and n_resamples < MANY_REPLICATES):
        yield Bar(None, n_runs)
        return
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    with RichProgress(console=Console(stderr=True), transient=True) as rich:
        yield Bar(rich, n_runs)
