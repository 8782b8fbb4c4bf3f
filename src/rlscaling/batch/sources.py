"""From paths to runs: every file and every run in it on its own, so that one bad file refuses nobody else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rlscaling.errors import RLScalingError
from rlscaling.fitting.fit import fit_trace, refit
from rlscaling.fitting.saved import is_saved_fit, load_fit
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.paths import expand, matches_of, unique_names
from rlscaling.readers.registry import parts_of, stitched_parts
from rlscaling.readers.table import Parts
from rlscaling.traces.trace import Trace


@dataclasses.dataclass(frozen=True)
class RunSource:
    """One run to answer: a trace, a saved fit, or the reason why it was refused."""

    name: str
    source: Trace | SigmoidFit | None = None
    error: str = ""
    told: tuple[str, ...] = ()  # what was done with it that nobody asked for

    def fit(self, options: dict[str, Any], compute_unit: str | None) -> SigmoidFit:
        """Fit the trace; take a saved fit as it is, or fit its data again where options were given."""
        if isinstance(self.source, SigmoidFit):
            changes = options | ({"compute_unit": compute_unit} if compute_unit else {})
            fitted = refit(self.source, **changes) if changes else self.source
        elif self.source is not None:
            fitted = fit_trace(self.source, **options)
        else:
            raise RLScalingError(self.error)
        return dataclasses.replace(fitted, name=self.name)

    def trace(self) -> Trace:
        """Return the trace, under the name of the run.

        Raises
        ------
        RLScalingError
            Where it was refused, or is a saved fit.
        """
        if isinstance(self.source, Trace):
            return dataclasses.replace(self.source, name=self.name)
        if self.source is None:
            raise RLScalingError(self.error)
        raise RLScalingError("a saved fit holds no trace; give the log it was made from")


def find_runs(
    paths: Iterable[str], reading: ReadOptions, given: Sequence[str] = (), leave_out: Iterable[Path] = ()
) -> list[RunSource]:
    """Return every run that the paths stand for, in order, the refused ones with their reason.

    Parameters
    ----------
    paths : iterable of str
        Files, folders and globs.
    reading : ReadOptions
        How files are to be read.
    given : sequence of str
        Names of the reading options that were given: they have no effect on a saved fit, and it says so.
    leave_out : iterable of Path
        Files that a folder or glob may hold, but that are no inputs.
    """
    entries: list[RunSource | tuple[Path, Path]] = []
    seen = {path.resolve() for path in leave_out}
    for item in paths:
        for entry in _files(item):
            if isinstance(entry, tuple):
                resolved = entry[1].resolve()
                if resolved in seen:
                    continue
                seen.add(resolved)
            entries.append(entry)
    logs = [entry for entry in entries if isinstance(entry, tuple)]
    names = iter(unique_names(logs))
    runs: list[RunSource] = []
    if reading.stitch and len(logs) > 1:
        runs = [entry for entry in entries if isinstance(entry, RunSource)]
        if runs:
            name = next(names)
            return [*runs, RunSource(name, error="another piece of the run could not be read, so none are stitched")]
        runs += _build(next(names), lambda: stitched_parts([file for _, file in logs], reading))
        return _tell_apart(runs)
    for entry in entries:
        runs += [entry] if isinstance(entry, RunSource) else _read(entry[1], next(names), reading, given)
    return _tell_apart(runs)


def _files(item: str) -> list[RunSource | tuple[Path, Path]]:
    """Return (what to name it by, the file) for each file of a path or glob, or a refused run in its place."""
    try:
        matches = matches_of(item)
    except (OSError, RLScalingError) as error:
        return [RunSource(item, error=said(error))]
    found: list[RunSource | tuple[Path, Path]] = []
    for match in matches:
        try:
            found += expand(match)
        except Exception as error:
            found.append(RunSource(str(match), error=said(error)))
    return found


def _read(file: Path, name: str, reading: ReadOptions, given: Sequence[str]) -> list[RunSource]:
    try:
        if is_saved_fit(file):
            options = ", ".join("--" + option.replace("_", "-") for option in given)
            told = (f"{name}: a saved fit; {options} has no effect on it",) if given else ()
            fit = load_fit(file)
            return [RunSource(fit.name or name, fit, told=told)]
    except Exception as error:
        return [RunSource(name, error=said(error))]
    return _build(name, lambda: parts_of(file, reading))


def _build(name: str, read: Callable[[], Parts]) -> list[RunSource]:
    """Return every run that a reader finds, each on its own."""
    try:
        parts = read()
    except Exception as error:
        return [RunSource(name, error=said(error))]
    runs = []
    for label, build in parts.items():
        key = f"{name}:{label}" if label else name
        try:
            runs.append(RunSource(key, dataclasses.replace(build(), name=key)))
        except Exception as error:
            runs.append(RunSource(key, error=said(error)))
    return runs


def said(error: Exception) -> str:
    """Return what to tell of an error that refuses one run; one that nobody foresaw must not take the batch with it."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    if isinstance(error, RLScalingError):
        return str(error)
    return f"{type(error).__name__}: {error}; this is a fault of rlscaling, please report it"


def _tell_apart(runs: list[RunSource]) -> list[RunSource]:
    """Return the runs with names of their own: saved fits bring theirs, which another run may have too."""
    taken: set[str] = set()
    result = []
    for run in runs:
        name, n = run.name, 1
        while name in taken:
            n += 1
            name = f"{run.name} ({n})"
        taken.add(name)
        result.append(dataclasses.replace(run, name=name))
    return result
