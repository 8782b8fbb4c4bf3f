"""``rlscaling fit`` and ``rlscaling extrapolate``, with or without a table."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION, Analysis, AnalysisOptions, FailedAnalysis, analyse, document
from rlscaling.batch.fit_many import fit_table
from rlscaling.batch.fit_table import FitTable, Row
from rlscaling.batch.fit_table_writer import check_out, files_of, journal_of
from rlscaling.batch.sources import RunSource
from rlscaling.cli import options, output
from rlscaling.cli.arguments import UsageError, add_renamed
from rlscaling.cli.exit_codes import EXIT_CODES, NOT_IDENTIFIED, REFUSED
from rlscaling.cli.figures import save_figure
from rlscaling.cli.inputs import FitOutput, FitRequest, check_new, find_runs, fit_request
from rlscaling.errors import RLScalingError, WorkersError
from rlscaling.fitting.saved import save_fit
from rlscaling.fitting.verdict import Verdict
from rlscaling.option_fields import add_options, positive
from rlscaling.version import __version__

EXAMPLES = f"""\
examples (after 'rlscaling demo', which writes the file):
  rlscaling fit rlscaling-demo/scalerl.jsonl --compute 100000 --plot fit.png
  rlscaling fit rlscaling-demo/scalerl.jsonl --max-compute 8000 --cutoffs --json

{EXIT_CODES}"""
EXTRAPOLATE_EXAMPLES = f"""\
examples (after 'rlscaling demo', which writes the file):
  rlscaling extrapolate rlscaling-demo/scalerl.jsonl
  rlscaling extrapolate rlscaling-demo/scalerl.jsonl --compute 20000 50000 100000 --confidence-level 0.9 --json

{EXIT_CODES}"""

Result = Analysis | FailedAnalysis


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rlscaling fit``."""
    parser.epilog = EXAMPLES
    _add_shared(parser, "also forecast the pass rate at these budgets (default: no forecast)")


def add_extrapolate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rlscaling extrapolate``."""
    parser.epilog = EXTRAPOLATE_EXAMPLES
    _add_shared(parser, "budgets to forecast (default: 100000 for GPU-hours, none for other units)")


def _add_shared(parser: argparse.ArgumentParser, budgets_help: str) -> None:
    options.add_paths(
        parser, "trace (JSON lines, CSV, Parquet, JSON), log or folder of a trainer or logger, quoted glob, or fit "
        "saved with --save; may be several",
    )  # fmt: skip
    add_renamed(
        parser, "--compute", ("--extrapolate", "--to"), dest="budgets", metavar="C", nargs="+", type=positive,
        help=budgets_help,
    )  # fmt: skip
    options.add_fit_options(parser)
    options.add_reading_options(parser)
    options.add_interval_options(parser)
    group = parser.add_argument_group("output")
    add_options(group, AnalysisOptions, ("reach", "cutoffs"), defaults=True)
    options.add_json(group)
    group.add_argument(
        "--plot", metavar="FILE", help="draw a figure (.png, .svg, .pdf), with a panel for each run (default: none)"
    )
    group.add_argument(
        "--save", metavar="FILE", help="save the fit (.json); for several runs a folder (default: not saved)"
    )
    group.add_argument(
        "--out", metavar="FILE",
        help="write a table of all runs (.parquet), row by row as they finish, and print a summary instead of every "
        "result (default: no table)",
    )  # fmt: skip
    group.add_argument(
        "--continue", dest="resume_table", action="store_true",
        help="continue an unfinished table of --out, with the same runs, options and seed (default: no)",
    )  # fmt: skip
    group.add_argument(
        "--overwrite", action="store_true", help="let --plot, --save and --out replace files (default: no)"
    )
    group.add_argument(
        "--require-identified", action="store_true",
        help="exit with 4 unless every verdict is identified or approximate (default: no)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run ``rlscaling fit`` and return the exit code."""
    return _run(fit_request(args, forecast_first=False))


def run_extrapolate(args: argparse.Namespace) -> int:
    """Run ``rlscaling extrapolate`` and return the exit code."""
    return _run(fit_request(args, forecast_first=True))


def _run(request: FitRequest) -> int:
    _check_table(request)
    if request.output.table is not None:
        return _run_table(request, request.output.table)
    runs = find_runs(request.inputs)
    targets = _save_targets(request.output, runs)
    with output.progress(len(runs), request.analysis.n_resamples) as bar:
        results = analyse(runs, request.analysis, on_progress=bar.reached, on_replicates=bar.replicates)
    return _write(results, targets, request)


def _write(results: Sequence[Result], targets: Mapping[str, Path], request: FitRequest) -> int:
    for result in results:
        output.print_messages(result)
    try:
        _write_files(results, targets, request.output)
    finally:  # the results are printed even when a file cannot be written
        if request.output.json:
            output.print_json(document(results, request.analysis))
        else:
            forecast_first = request.output.forecast_first
            output.Printer(sys.stdout).analyses(results, request.analysis, forecast_first=forecast_first)
    verdicts = [result.fit.verdict for result in results if isinstance(result, Analysis)]
    return _exit_code(any(isinstance(result, FailedAnalysis) for result in results), verdicts, request.output)


def _exit_code(failed: bool, verdicts: Sequence[Verdict], outputs: FitOutput) -> int:
    if failed:
        return REFUSED
    identified = all(verdict.identifies_ceiling for verdict in verdicts)
    return 0 if identified or not outputs.require_identified else NOT_IDENTIFIED


# --- files to write: checked before the work, written after it ---------------------------------------------------


def _save_targets(outputs: FitOutput, runs: Sequence[RunSource]) -> dict[str, Path]:
    """Return where the fit of each run is to be saved, by its name."""
    save = outputs.save
    if save is None:
        return {}
    folder = Path(save).is_dir() or save.endswith("/")
    if not folder and len(runs) > 1:
        raise UsageError(
            f"--save {save}: {len(runs)} fits do not go into one file; give one run, or a folder, e.g. --save fits/"
        )
    if not folder:
        targets = {runs[0].name: Path(save)}
        if Path(save).suffix != ".json":
            raise UsageError(f"--save {save}: a fit is saved as JSON; end the name in .json")
    else:
        Path(save).mkdir(parents=True, exist_ok=True)
        targets = {run.name: Path(save) / f"{_file_name(run.name)}.json" for run in runs}
        if len(set(targets.values())) < len(targets):
            raise UsageError(f"--save {save}: two runs would be saved under the same name; save them one by one")
    for path in targets.values():
        check_new(path, "--save", outputs.overwrite)
    return targets


def _file_name(run: str) -> str:
    return re.sub(r"[^\w.()+-]+", "_", run).lstrip(".") or "run"


def _write_files(results: Sequence[Result], targets: Mapping[str, Path], outputs: FitOutput) -> None:
    analyses = [result for result in results if isinstance(result, Analysis)]
    for result in analyses:
        if result.name in targets:
            path = save_fit(result.fit, targets[result.name], overwrite=outputs.overwrite)
            print(f"rlscaling: saved {path}", file=sys.stderr)
    if outputs.plot is not None and analyses:
        save_figure(analyses, outputs.plot)
        print(f"rlscaling: drew {outputs.plot}", file=sys.stderr)
    elif outputs.plot is not None:
        print(f"rlscaling: {outputs.plot} was not drawn: no run was answered", file=sys.stderr)


# --- a table of all runs, written as they finish -----------------------------------------------------------------


def _check_table(request: FitRequest) -> None:
    """Refuse a table that could not be written, or options that do not go with it, before any work is done."""
    wanted, analysis = request.output, request.analysis
    if wanted.table is None:
        if wanted.resume:
            raise UsageError("--continue is about a table that was begun; name it with --out FILE")
        return
    single = {"plot": wanted.plot, "save": wanted.save, "cutoffs": analysis.cutoffs, "reach": analysis.reach}
    options = [f"--{name}" for name, value in single.items() if value]
    if options:
        raise UsageError(f"{options[0]} is about single answers, --out writes a table of all; give one of them")
    if analysis.seed >= 2**64:
        raise UsageError(f"--seed {analysis.seed} is too large for the table's column of seeds; give one below 2**64")
    try:
        check_out(wanted.table, resume=wanted.resume, overwrite=wanted.overwrite)
    except RLScalingError as error:
        raise UsageError(str(error)) from None


def _run_table(request: FitRequest, out: Path) -> int:
    """Write a row for every run, print a summary and return the exit code."""
    runs = find_runs(request.inputs, leave_out=files_of(out))
    try:
        with output.progress(len(runs), request.analysis.n_resamples) as bar:
            table = fit_table(
                runs, request.analysis, out=out, resume=request.output.resume, overwrite=request.output.overwrite,
                on_row=_print_error, on_progress=bar.reached,
            )  # fmt: skip
    except (WorkersError, OSError, KeyboardInterrupt):
        if journal_of(out).exists():
            print(f"rlscaling: what is finished stands in {journal_of(out)}; --continue goes on", file=sys.stderr)
        raise
    if request.output.json:
        output.print_json(_summary(table, out))
    else:
        printer = output.Printer(sys.stdout)
        printer.table(["verdict", "runs"], [[name, f"{n:,}"] for name, n in table.verdicts.items()])
        printer.line(f"wrote {out}: {len(table):,} run{'s' * (len(table) != 1)}")
    verdicts = [Verdict(name) for name in table.verdicts if name != "refused"]
    return _exit_code(bool(table.refused), verdicts, request.output)


def _print_error(row: Row) -> None:
    if row["error"] is not None:
        print(f"rlscaling: error: {row['run']}: {row['error']}", file=sys.stderr)


def _summary(table: FitTable, out: Path) -> dict[str, Any]:
    """Return the JSON object of a table."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "seed": table.options["seed"],
        "out": str(out),
        "n_runs": len(table),
        "verdicts": table.verdicts,
        "refused": [{"run": name, "error": error} for name, error in table.refused.items()],
    }
