"""`fit_many`: many runs, fitted on all cores or a cluster and collected in one table that survives a kill."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rlscaling.arrays import as_floats
from rlscaling.batch.analysis import AnalysisOptions, Progress, over_runs
from rlscaling.batch.fit_table import FitTable, Row, columns_of, hash_of, options_of, row_of_run
from rlscaling.batch.fit_table_writer import FitTableWriter, check_out, files_of, journal_of
from rlscaling.batch.sources import RunSource, find_runs
from rlscaling.errors import FitError, TraceError, WorkersError
from rlscaling.fitting.options import EPOCH, resolve_options
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.option_fields import check_options
from rlscaling.parallel import check_main_is_guarded
from rlscaling.readers.options import ReadOptions
from rlscaling.solver.resampling import SCHEME
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import RngLike, check_level, check_n_jobs, check_seed_sd, entropy_of

Source = Trace | SigmoidFit | str | os.PathLike[str]


def fit_many(
    runs: Source | Iterable[Source] | Mapping[str, Trace | SigmoidFit],
    *,
    compute: float | Sequence[float] | None = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    scheme: str = SCHEME,
    seed_sd: float = SEED_SD,
    rng: RngLike = 0,
    n_jobs: int = 1,
    on_error: str = "record",
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    read: ReadOptions | Mapping[str, Any] | None = None,
    on_progress: Progress | None = None,
    **options: Any,
) -> FitTable:
    """Fit many runs and return a table with verdict, intervals and forecast: one row per run.

    Each row equals the results of ``fit_trace(trace, **options)`` and ``bootstrap(fit, rng=seed)``, bit for bit, on any
    number of workers of one kind of machine; it does not depend on the other runs.

    Parameters
    ----------
    runs : mapping of name to Trace, or paths, or traces
        A mapping; a file, folder or glob, or several; or several traces or fits with different names.
    compute : float or sequence of float, optional
        Budgets to forecast, in the unit of the runs. None: no forecast.
    n_resamples, confidence_level, scheme, seed_sd
        As in `bootstrap`.
    rng : int, Generator, SeedSequence or None
        Seed of the replicates of every run. The default is a fixed seed, as ``resume`` continues a table with the
        same seed only.
    n_jobs : int
        1: this process. Else workers of the active joblib backend (loky, Dask, Ray ...); -1: all of them.
    on_error : {"record", "raise"}
        Whether a run that cannot be fitted becomes a row with ``error``, or raises.
    out : path, optional
        Parquet file for the table. Until it is complete, the rows are in ``<out>.journal``.
    resume : bool
        Continue the table at ``out``, with the same runs, options and seed; begin one if there is none.
    overwrite : bool
        Discard the table at ``out``.
    read : ReadOptions or mapping, optional
        How to read paths: the options of `read_traces`.
    on_progress : callable, optional
        Called with (runs done, runs in all).
    **options
        Of `fit_sigmoid`, for every run.

    Returns
    -------
    FitTable

    Raises
    ------
    FitError
        For an invalid option, runs without a name or with the same name, and with ``on_error="raise"``.
    WorkersError
        When worker processes die repeatedly, or the script lacks its ``if __name__ == "__main__":``. The rows so far
        are kept.
    RLScalingError
        When ``out`` cannot be written, or is a table of other runs or options.

    Examples
    --------
    >>> from rlscaling import datasets, fit_many
    >>> table = fit_many(datasets.load_demo(), compute=100_000, n_resamples=50)
    >>> table.rows[0]["run"], table.rows[0]["verdict"]
    ('batch-2048', 'approximate')
    >>> table.rows[0]["R_100000_low"] < table.rows[0]["R_100000"] < table.rows[0]["R_100000_high"]
    True
    """
    check_main_is_guarded("fit_many")
    if on_error not in ("record", "raise"):
        raise FitError(f'on_error={on_error!r} is unknown; choose "record" or "raise"')
    budgets = None if compute is None else _budgets(compute)
    analysis = AnalysisOptions(
        options=_checked(options), budgets=budgets, scheme=scheme, n_resamples=n_resamples,
        confidence_level=check_level(confidence_level), seed_sd=seed_sd, seed=_seed(rng), n_jobs=check_n_jobs(n_jobs),
    )  # fmt: skip
    _check_replicates(analysis)
    target = None if out is None else Path(out)
    if target is not None:
        check_out(target, resume=resume, overwrite=overwrite)
    elif resume or overwrite:
        raise FitError("resume= and overwrite= are about the table at out=; name one")
    sources = _runs_of(runs, read, () if target is None else files_of(target))
    return fit_table(
        sources, analysis, on_error=on_error, out=target, resume=resume, overwrite=overwrite, on_progress=on_progress
    )


def fit_table(
    runs: Sequence[RunSource],
    options: AnalysisOptions,
    *,
    on_error: str = "record",
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_progress: Progress | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> FitTable:
    """Analyse runs that were read, with options that were checked; the rest is as in `fit_many`."""
    _check_names(runs)
    columns, table_options = columns_of(options), options_of(runs, options)

    def take(row: Row) -> None:
        if on_error == "raise" and row["error"] is not None:
            raise FitError(f"{row['run']}: {row['error']}")
        if on_row is not None:
            on_row(row)

    with ExitStack() as stack:
        writer = None
        if out is not None:
            writer = FitTableWriter(out, table_options, columns, resume=resume, overwrite=overwrite)
            stack.enter_context(writer)
        done: dict[str, Row] = {} if writer is None else dict(writer.done)
        for row in done.values():
            take(row)
        rest = [run for run in runs if run.name not in done]
        work = partial(row_of_run, options_hash=hash_of(table_options["options"]))
        try:
            for some in stack.enter_context(closing(over_runs(work, rest, options))):
                rows = [row for _, row in some]
                if writer is not None:
                    writer.add(rows)
                done |= {row["run"]: row for row in rows}
                for row in rows:
                    take(row)
                if on_progress is not None:
                    on_progress(len(done), len(runs))
        except WorkersError as error:
            if out is None:
                raise
            kept = f"{len(done)} of {len(runs)} runs are kept in {journal_of(out)}: go on with resume=True (--continue)"
            raise WorkersError(f"{error}. {kept}") from error
        in_order = [done[run.name] for run in runs] if writer is None else writer.finish()
    return FitTable(tuple(in_order), columns, table_options, out)


# --- inputs and options -------------------------------------------------------------------------------------------


def _runs_of(runs: Any, read: ReadOptions | Mapping[str, Any] | None, leave_out: Iterable[Path]) -> list[RunSource]:
    if isinstance(runs, Mapping):
        items = [(str(name), source) for name, source in runs.items()]
    else:
        sources: list[Any] = [runs] if isinstance(runs, str | os.PathLike | Trace | SigmoidFit) else list(runs)
        if sources and all(isinstance(item, str | os.PathLike) for item in sources):
            return find_runs([str(os.fspath(item)) for item in sources], _read_options(read), (), leave_out)
        items = [(getattr(source, "name", ""), source) for source in sources]
    if read is not None:
        raise FitError("read= says how files are read, and these are no paths; leave it out")
    for number, (name, source) in enumerate(items, start=1):
        if not isinstance(source, Trace | SigmoidFit):
            kind = type(source).__name__
            raise FitError(f"run {number} is a {kind}: fit_many takes Traces or fits, or paths, not both in one call")
        if not name:
            raise FitError(f"run {number} has no name; give a mapping of name to trace, or Trace(..., name=)")
    return [RunSource(name, source) for name, source in items]


def _read_options(read: ReadOptions | Mapping[str, Any] | None) -> ReadOptions:
    if isinstance(read, ReadOptions):
        return read
    names = [field.name for field in fields(ReadOptions)]
    unknown = sorted(set(read or {}) - {*names, "compute"})  # compute: the former name of compute_from
    if unknown:
        raise TraceError(f"read={{{unknown[0]!r}: ...}} is unknown; the options of reading are {', '.join(names)}")
    return ReadOptions(**(read or {}))


def _check_names(runs: Sequence[RunSource]) -> None:
    if not runs:
        raise FitError("no runs were given; name at least one")
    twice = [name for name, n in Counter(run.name for run in runs).items() if n > 1]
    if twice:
        raise FitError(f"{len(twice)} names stand for two runs or more, {twice[0]!r} first; give each run its own")


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a fit; those that are invalid for every run raise here."""
    for name in ("weights", "on_failure"):
        if name in options:
            raise FitError(f"{name}= is an option of one fit; fit_many has no such option")
    checkable = {name: value for name, value in options.items() if (name, value) != ("min_compute", EPOCH)}
    resolve_options({"A_max": np.inf, "min_compute": 0.0} | checkable)
    return options


def _budgets(compute: float | Sequence[float]) -> tuple[float, ...]:
    budgets = as_floats(np.atleast_1d(compute) if np.ndim(compute) == 0 else compute, "compute")
    bad = budgets[~((budgets > 0) & (budgets < np.inf))]
    if len(bad) or not len(budgets):
        raise FitError(f"compute={compute!r}: a budget is a positive, finite amount; for no forecast leave it out")
    return tuple(dict.fromkeys(budgets.tolist()))


def _seed(rng: RngLike) -> int:
    entropy = entropy_of(np.random.default_rng() if rng is None else rng)
    if entropy >= 2**64:
        raise FitError(f"rng={rng!r} is too large for the table's column of seeds; give one below 2**64")
    return entropy


def _check_replicates(options: AnalysisOptions) -> None:
    n = options.n_resamples
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise FitError(f"n_resamples={n!r} must be a whole number of 2 or more; 1000 is usual")
    check_seed_sd(options.seed_sd)
    check_options(options, FitError)
