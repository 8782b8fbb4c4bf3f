"""`RunSource`: a trace, a saved fit or an error; `find_runs` makes them from paths, each file on its own."""

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
    """A run to analyse: a trace, a saved fit, or the error with which it could not be read.

    Attributes
    ----------
    messages : tuple of str
        What the user should know about how the run was read.
    """

    name: str
    source: Trace | SigmoidFit | None = None
    error: str = ""
    messages: tuple[str, ...] = ()

    def fit(self, options: dict[str, Any], compute_unit: str | None) -> SigmoidFit:
        """Fit the trace; take a saved fit as it is, or refit its data if options are given."""
        if isinstance(self.source, SigmoidFit):
            changes = options | ({"compute_unit": compute_unit} if compute_unit else {})
            fit = refit(self.source, **changes) if changes else self.source
        elif self.source is not None:
            fit = fit_trace(self.source, **options)
        else:
            raise RLScalingError(self.error)
        return dataclasses.replace(fit, name=self.name)

    def trace(self) -> Trace:
        """Return the trace, under the name of the run.

        Raises
        ------
        RLScalingError
            If it could not be read, or is a saved fit.
        """
        if isinstance(self.source, Trace):
            return dataclasses.replace(self.source, name=self.name)
        if self.source is None:
            raise RLScalingError(self.error)
        raise RLScalingError("a saved fit holds no trace; give the log it was made from")


def find_runs(
    paths: Iterable[str], reading: ReadOptions, explicit: Sequence[str] = (), leave_out: Iterable[Path] = ()
) -> list[RunSource]:
    """Return every run that the paths name, in order, those that could not be read with the error.

    Parameters
    ----------
    paths : iterable of str
        Files, folders and globs.
    reading : ReadOptions
        How to read files.
    explicit : sequence of str
        Names of the reading options that the user set: they have no effect on saved fits, which have a message on it.
    leave_out : iterable of Path
        Files that are no inputs, even if a folder or glob contains them.
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
        runs += [entry] if isinstance(entry, RunSource) else _read(entry[1], next(names), reading, explicit)
    return _tell_apart(runs)


def _files(item: str) -> list[RunSource | tuple[Path, Path]]:
    """Return (the path that names it, the file) for each file of a path or glob, or a failed run in its place."""
    try:
        matches = matches_of(item)
    except (OSError, RLScalingError) as error:
        return [RunSource(item, error=message_of(error))]
    files: list[RunSource | tuple[Path, Path]] = []
    for match in matches:
        try:
            files += expand(match)
        except Exception as error:
            files.append(RunSource(str(match), error=message_of(error)))
    return files


def _read(file: Path, name: str, reading: ReadOptions, explicit: Sequence[str]) -> list[RunSource]:
    try:
        if is_saved_fit(file):
            options = ", ".join("--" + option.replace("_", "-") for option in explicit)
            messages = (f"{name}: a saved fit; {options} has no effect on it",) if explicit else ()
            fit = load_fit(file)
            return [RunSource(fit.name or name, fit, messages=messages)]
    except Exception as error:
        return [RunSource(name, error=message_of(error))]
    return _build(name, lambda: parts_of(file, reading))


def _build(name: str, read: Callable[[], Parts]) -> list[RunSource]:
    """Return every run that a reader finds; one that cannot be built does not affect the others."""
    try:
        parts = read()
    except Exception as error:
        return [RunSource(name, error=message_of(error))]
    runs = []
    for label, build in parts.items():
        key = f"{name}:{label}" if label else name
        try:
            runs.append(RunSource(key, dataclasses.replace(build(), name=key)))
        except Exception as error:
            runs.append(RunSource(key, error=message_of(error)))
    return runs


def message_of(error: Exception) -> str:
    """Return the message of an error that concerns one run; an unexpected one must not stop the others."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    if isinstance(error, RLScalingError):
        return str(error)
    return f"{type(error).__name__}: {error}; this is a fault of rlscaling, please report it"


def _tell_apart(runs: list[RunSource]) -> list[RunSource]:
    """Return the runs with unique names: a saved fit has its own name, which another run may have as well."""
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
