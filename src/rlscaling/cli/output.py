"""Printing: rich tables on a terminal, plain text in a pipe, one JSON object for programs, progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rlscaling.batch.analysis import Analysis, AnalysisOptions, FailedAnalysis, Progress
from rlscaling.fitting.sigmoid_fit import not_identified, parameter_rows, provenance, twice_lines
from rlscaling.forecasting.results import forecast_rows, reach_text
from rlscaling.printing.document import text_table
from rlscaling.printing.numbers import interval, number, unit_text
from rlscaling.uncertainty.bootstrap import bootstrap_rows

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


COLORS = {
    "identified": "bold green",
    "approximate": "bold cyan",
    "weak": "bold yellow",
    "ceiling-given": "bold blue",
    "refused": "bold red",
}
MANY_REPLICATES = 5000  # from here on one run takes long enough for a bar
NEW_RUN = "'new run' adds the spread between seeds: sd {:g} of A; 'this run' is what more of this run would show"


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout."""
    print(json.dumps(value, allow_nan=False, indent=2))


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
        """Write the name of what follows."""
        self.line(text, "bold")

    def verdict(self, given: Analysis) -> None:
        """Write the verdict in its colour, the run and the reason."""
        verdict, name, reason = str(given.fit.verdict), given.name, given.fit.reason
        if self.console is None:
            self.line(f"{verdict} [{name}]: {reason}")
            return
        from rich.text import Text

        self.console.print(Text.assemble((verdict, _color(verdict)), (f" [{name}]", "bold"), f": {reason}"))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], verdict_column: int | None = None) -> None:
        """Write a table: the first column to the left, the others to the right."""
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
            cells = [Text(cell, _color(cell) if i == verdict_column else "") for i, cell in enumerate(row)]
            table.add_row(*cells)
        self.console.print(table)

    def answers(
        self, answers: Sequence[Analysis | FailedAnalysis], request: AnalysisOptions, *, forecast_first: bool
    ) -> None:
        """Write every answer, and an overview when there are several."""
        for given in answers:
            if isinstance(given, Analysis):
                self.answer(given, request, forecast_first=forecast_first)
                if len(answers) > 1:
                    self.line()
        if any(isinstance(given, Analysis) and given.bootstrap is not None for given in answers):
            self.line("  " + NEW_RUN.format(request.seed_sd), "dim")
        if len(answers) > 1:
            self.line()
            self.overview(answers, request)

    def answer(self, given: Analysis, request: AnalysisOptions, *, forecast_first: bool = False) -> None:
        """Write the answer on one run, the verdict first."""
        self.verdict(given)
        parts = [self._parameters, self._forecast]
        for part in reversed(parts) if forecast_first else parts:
            part(given, request)
        for text in _reach_lines(given):
            self.line("  " + text)
        if given.cutoffs is not None:
            self._cutoffs(given)
        for note in given.notes:
            if note not in given.messages:
                self.line(f"  note: {note}", "dim")

    def _parameters(self, given: Analysis, request: AnalysisOptions) -> None:
        boot = given.bootstrap
        if boot is None:
            self.table(["", "estimate", "", ""], parameter_rows(given.fit))
            self.line("  " + provenance(given.fit), "dim")
            return
        level = f"{100 * request.confidence_level:g} %"
        self.table(["", "estimate", f"{level} this run", f"{level} new run", ""], bootstrap_rows(boot))
        for text in twice_lines(given.fit):
            self.line(text)
        how = f"{boot.n_resamples:,} replicates ({boot.scheme}, seed {request.seed})"
        self.line(f"  {how}; {provenance(given.fit)}", "dim")

    def _forecast(self, given: Analysis, request: AnalysisOptions) -> None:
        level = f"{100 * request.confidence_level:g} %"
        header = [unit_text(given.fit.compute_unit), "of data", "pass rate", f"{level} this run", f"{level} new run"]
        if given.forecast is not None:
            self.table(header, forecast_rows(given.forecast))
        elif given.budgets:
            last = given.fit.compute_range[1]
            self.table(header, [[number(c), f"{c / last:.3g}x", "not identified", "", ""] for c in given.budgets])

    def _cutoffs(self, given: Analysis) -> None:
        title, *_ = str(given.cutoffs).splitlines()
        self.line(f"  {title}")
        if self.console is None:
            for text in str(given.cutoffs).splitlines()[1:]:
                self.line("  " + text)
            return
        rows = []
        assert given.cutoffs is not None
        for row in given.cutoffs.rows:
            ci = interval(row["ci_low"], row["ci_high"]) if row["ci_low"] is not None else ""
            ceiling = number(row["A"], 3) if row["A"] is not None else ""
            rows.append([number(row["min_compute"]), str(row["n_points"]), ceiling, ci, row["verdict"] or row["error"]])
        self.table(["min_compute", "points", "A", "95 % interval", "verdict"], rows, verdict_column=4)
        if given.cutoffs.warning:
            self.line("  " + given.cutoffs.warning, "yellow")

    def overview(self, answers: Sequence[Analysis | FailedAnalysis], request: AnalysisOptions) -> None:
        """Write one row a run: verdict, interval of A, points."""
        rows = []
        for given in answers:
            if isinstance(given, FailedAnalysis):
                rows.append([given.name, "refused", "", "", ""])
                continue
            ci = given.bootstrap.confidence_interval["A"] if given.bootstrap is not None else None
            ceiling = "" if not_identified(given.fit, "A") else number(given.fit.A, 3)
            span = interval(*ci) if ci is not None and ci[0] != ci[1] else ""
            rows.append([given.name, str(given.fit.verdict), ceiling, span, str(given.fit.n_points)])
        self.heading("Overview")
        header = ["run", "verdict", "A", f"{100 * request.confidence_level:g} % this run", "points"]
        self.table(header, rows, verdict_column=1)


def _reach_lines(given: Analysis) -> list[str]:
    """Return a line for each pass rate that was to be reached; without intervals where there are too few points."""
    unit = unit_text(given.fit.compute_unit)
    if given.bootstrap is None:
        at = [(pass_rate, float(given.fit.compute_to_reach(pass_rate))) for pass_rate in given.reach_targets]
        return [f"pass rate {pass_rate:g} at {number(compute)} {unit}, no interval" for pass_rate, compute in at]
    return [reach_text(reach) for reach in given.reach]


def _color(verdict: str) -> str:
    return COLORS.get(verdict, "bold red")


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
