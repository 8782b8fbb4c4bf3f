"""``rlscaling fit RUNS --out FILE``: a table of all runs, written as they finish, and a summary."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION, AnalysisOptions
from rlscaling.batch.fit_many import fit_table
from rlscaling.batch.fit_table import FitTable, Row
from rlscaling.batch.fit_table_writer import check_out, journal_of
from rlscaling.batch.sources import RunSource
from rlscaling.cli import output
from rlscaling.cli.inputs import UsageError
from rlscaling.errors import RLScalingError, WorkersError
from rlscaling.fitting.verdict import Verdict
from rlscaling.version import __version__

ELSEWHERE = ("plot", "save", "cutoffs", "reach")  # options that are about single answers


def out_of(args: argparse.Namespace) -> Path | None:
    """Return where the table goes, checked before any work is done; None where none was asked for.

    Raises
    ------
    UsageError
        For a file that cannot be written, or options that do not go with a table.
    """
    if args.out is None:
        if args.go_on:
            raise UsageError("--continue is about a table that was begun; name it with --out FILE")
        return None
    given = [f"--{name}" for name in ELSEWHERE if getattr(args, name)]
    if given:
        raise UsageError(f"{given[0]} is about single answers, --out writes a table of all; give one of them")
    if args.seed >= 2**64:
        raise UsageError(f"--seed {args.seed} is too large for the table's column of seeds; give one below 2**64")
    out = Path(args.out)
    try:
        check_out(out, resume=args.go_on, overwrite=args.overwrite)
    except RLScalingError as error:
        raise UsageError(str(error)) from None
    return out


def write_table(runs: Sequence[RunSource], request: AnalysisOptions, args: argparse.Namespace, out: Path) -> FitTable:
    """Answer every run into the table, and print what it came to."""

    def tell(row: Row) -> None:
        if row["error"] is not None:
            print(f"rlscaling: error: {row['run']}: {row['error']}", file=sys.stderr)

    try:
        with output.progress(len(runs), request.n_resamples) as bar:
            table = fit_table(
                runs,
                request,
                out=out,
                resume=args.go_on,
                overwrite=args.overwrite,
                on_row=tell,
                on_progress=bar.reached,
            )
    except (WorkersError, OSError, KeyboardInterrupt):
        if journal_of(out).exists():
            print(f"rlscaling: what is finished stands in {journal_of(out)}; --continue goes on", file=sys.stderr)
        raise
    if args.json:
        output.print_json(summary(table, out))
    else:
        _print(output.Printer(sys.stdout), table, out)
    return table


def summary(table: FitTable, out: Path) -> dict[str, Any]:
    """Return the JSON object of the command."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "seed": table.options["seed"],
        "out": str(out),
        "n_runs": len(table),
        "verdicts": table.verdicts,
        "refused": [{"run": name, "error": error} for name, error in table.refused.items()],
    }


def _print(printer: output.Printer, table: FitTable, out: Path) -> None:
    printer.table(["verdict", "runs"], [[name, f"{n:,}"] for name, n in table.verdicts.items()], verdict_column=0)
    printer.line(f"wrote {out}: {len(table):,} runs")


def known_ceilings(verdicts: Mapping[str, int]) -> bool:
    """Return whether the ceiling of every run that was answered is known well enough."""
    return all(Verdict(name).identifies_ceiling for name in verdicts if name != "refused")
