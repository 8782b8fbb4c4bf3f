"""``rlscaling fit`` and ``rlscaling extrapolate``: check what was asked, answer every run, print, draw, save."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rlscaling.batch.analysis import Analysis, AnalysisOptions, FailedAnalysis, document
from rlscaling.batch.analysis import analyse as analyse_runs
from rlscaling.batch.fit_table_writer import files_of
from rlscaling.batch.sources import RunSource
from rlscaling.cli import output
from rlscaling.cli.inputs import UsageError, find_runs, fit_options
from rlscaling.cli.pictures import PICTURES, save_picture
from rlscaling.cli.table import known_ceilings, out_of, write_table
from rlscaling.files import check_not_there
from rlscaling.fitting.saved import save_fit

REFUSED, NOT_IDENTIFIED = 3, 4


def analyse(args: argparse.Namespace, *, forecast_first: bool) -> int:
    """Answer every run on the command line and return the exit code."""
    budgets = None if args.budgets is None and not forecast_first else tuple(args.budgets or ())
    request = AnalysisOptions(
        options=fit_options(args), compute_unit=args.compute_unit, budgets=budgets, reach=tuple(args.reach),
        cutoffs=args.cutoffs, scheme=args.scheme, forecast=args.forecast,
        n_resamples=args.resamples, confidence_level=args.confidence_level,
        seed_sd=args.seed_sd, seed=args.seed, n_jobs=args.n_jobs,
    )  # fmt: skip
    check_plot(args.plot, args.overwrite)
    out = out_of(args)
    if out is not None:
        table = write_table(find_runs(args, leave_out=files_of(out)), request, args, out)
        return _code(bool(table.refused), known_ceilings(table.verdicts), args.require_identified)
    runs = find_runs(args)
    targets = _save_targets(args.save, runs, args.overwrite)
    with output.progress(len(runs), request.n_resamples) as bar:
        answers = analyse_runs(runs, request, on_progress=bar.reached, on_replicates=bar.replicates)
    for given in answers:
        _say(given)
    try:
        _write(answers, targets, args)
    finally:  # what was found is said even when a file cannot be written
        if args.json:
            output.print_json(document(answers, request))
        else:
            output.Printer(sys.stdout).answers(answers, request, forecast_first=forecast_first)
    return _exit_code(answers, args.require_identified)


def _say(given: Analysis | FailedAnalysis) -> None:
    """Write on stderr what the reader guessed, or why a run was refused."""
    if isinstance(given, FailedAnalysis):
        where = "" if given.name in given.error else f"{given.name}: "
        print(f"rlscaling: error: {where}{given.error}", file=sys.stderr)
        return
    for note in given.messages:
        print(f"rlscaling: {given.name}: {note}", file=sys.stderr)


def _exit_code(answers: Sequence[Analysis | FailedAnalysis], require_identified: bool) -> int:
    known = all(given.fit.verdict.identifies_ceiling for given in answers if isinstance(given, Analysis))
    return _code(any(isinstance(given, FailedAnalysis) for given in answers), known, require_identified)


def _code(refused: bool, known: bool, require_identified: bool) -> int:
    if refused:
        return REFUSED
    return 0 if known or not require_identified else NOT_IDENTIFIED


# --- files to write: checked before the work, written after it ---------------------------------------------------


def check_new(path: Path, option: str, overwrite: bool) -> None:
    """Refuse a file that could not be written, before any work is done."""
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file")
    check_not_there(path, overwrite, option=option, error=UsageError)


def check_plot(plot: str | None, overwrite: bool) -> None:
    """Refuse a picture that could not be written, before any work is done."""
    if plot is None:
        return
    if Path(plot).suffix.lower() not in PICTURES:
        raise UsageError(f"--plot {plot}: the suffix says the format; choose one of {', '.join(PICTURES)}")
    check_new(Path(plot), "--plot", overwrite)


def _save_targets(save: str | None, runs: Sequence[RunSource], overwrite: bool) -> dict[str, Path]:
    """Return where the fit of each run is to be saved, by its name."""
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
        check_new(path, "--save", overwrite)
    return targets


def _file_name(run: str) -> str:
    return re.sub(r"[^\w.()+-]+", "_", run).lstrip(".") or "run"


def _write(answers: Sequence[Analysis | FailedAnalysis], targets: dict[str, Path], args: argparse.Namespace) -> None:
    done = [given for given in answers if isinstance(given, Analysis)]
    for given in done:
        if given.name in targets:
            path = save_fit(given.fit, targets[given.name], overwrite=args.overwrite)
            print(f"rlscaling: saved {path}", file=sys.stderr)
    if args.plot is not None and done:
        save_picture(done, Path(args.plot))
        print(f"rlscaling: drew {args.plot}", file=sys.stderr)
    elif args.plot is not None:
        print(f"rlscaling: {args.plot} was not drawn: no run was answered", file=sys.stderr)
