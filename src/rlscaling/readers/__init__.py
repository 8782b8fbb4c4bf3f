"""Read evaluations from files: our own traces, CSV, Parquet and JSON with any column names."""

from __future__ import annotations

import dataclasses
import glob
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rlscaling.errors import TraceError
from rlscaling.trace import Trace

from .own import PARQUET_MAGIC, parts_of_jsonl, parts_of_parquet
from .table import Parts, ReadOptions, nearest, parts_of_table
from .text import decode, table_of_csv, table_of_json

__all__ = ["READERS", "ReadOptions", "Reader", "read_trace", "read_traces"]

_SUFFIXES = (".jsonl", ".parquet", ".csv", ".tsv", ".json", ".ndjson", ".pq", ".txt")


class Reader(NamedTuple):
    """One kind of file: how to recognise it by path and content, and how to read it."""

    name: str
    matches: Callable[[Path, bytes], bool]
    parts: Callable[[Path, bytes, ReadOptions], Parts]


def _is_parquet(path: Path, data: bytes) -> bool:
    return path.suffix in (".parquet", ".pq") or data.startswith(PARQUET_MAGIC)


def _is_json_lines(path: Path, data: bytes) -> bool:
    """Whether there is one object a line; a single object or a list is JSON."""
    start = data.lstrip(b"\xef\xbb\xbf \r\n\t")
    if path.suffix in (".jsonl", ".ndjson"):
        return not start.startswith(b"[")
    first, _, rest = start.partition(b"\n")
    return first.startswith(b"{") and bool(rest.strip()) and _parses(first)


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _is_json(path: Path, data: bytes) -> bool:
    return path.suffix == ".json" or data.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] in (b"{", b"[")


def _read_json(path: Path, data: bytes, options: ReadOptions) -> Parts:
    return parts_of_table(table_of_json(decode(data, path.name), path.name), options)


def _read_json_lines(path: Path, data: bytes, options: ReadOptions) -> Parts:
    decode(data.rsplit(b"\n", 1)[0] or data, path.name)  # the last line may be torn inside a character
    return parts_of_jsonl(data.removeprefix(b"\xef\xbb\xbf"), path.name, options)


READERS: list[Reader] = [
    Reader("parquet", _is_parquet, lambda path, data, options: parts_of_parquet(path, options)),
    Reader("json lines", _is_json_lines, _read_json_lines),
    Reader("json", _is_json, _read_json),
    Reader(
        "csv",
        lambda path, data: True,
        lambda path, data, options: parts_of_table(table_of_csv(decode(data, path.name), path.name), options),
    ),
]
"""Tried in this order; the first that matches reads the file."""


def read_trace(
    path: str | os.PathLike[str],
    *,
    compute_column: str | None = None,
    pass_rate_column: str | None = None,
    compute_unit: str | None = None,
    scale: str = "fraction",
    run: str | int | None = None,
    run_column: str | None = None,
    domain: str | None = None,
    drop_missing: bool = False,
) -> Trace:
    r"""Read one run's evaluations from a file.

    What was guessed or left out is said in ``Trace.notes``.

    Parameters
    ----------
    path
        A trace of this package (JSON lines or Parquet), a CSV, Parquet or JSON file with any column names,
        or a folder that holds ``trace.jsonl``.
    compute_column, pass_rate_column
        The columns to take; by default ``compute`` or ``compute_gpu_hours`` and ``pass_rate``, else the ones
        whose names say most plainly that they are meant.
    compute_unit
        One of ``COMPUTE_UNITS``; by default what the file or the column's name says, else GPU-hours.
    scale
        What the scores are: ``"fraction"``, ``"percent"``, ``"pm1"`` (from -1 to 1), ``"reward"`` (not
        bounded), or ``"auto"``: fraction, but reward where values from 0 to 2 can be neither fraction nor
        percent.
    run
        The run to take from a file that holds several.
    run_column
        The column that tells runs apart; by default ``run``, ``run_id``, ``run_name``, or ``recipe``,
        ``name`` and ``seed`` together.
    domain
        The domain to take from a file that holds several.
    drop_missing
        Leave rows without a pass rate or compute out, and say how many.

    Returns
    -------
    Trace
        The evaluations, pass rates as fractions unless the scale is ``"reward"``.

    Raises
    ------
    TraceError
        When the file cannot be used as it stands; the message says where, why and what to do.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run7.csv"
    >>> _ = path.write_text("gpu_hours,accuracy\n0,0.31\n100,0.35\n200,0.38\n")
    >>> trace = read_trace(path)
    >>> trace
    Trace('run7': 3 evaluations, 0 to 200 gpu-hours, pass rate 0.31 to 0.38)
    >>> trace.notes
    ("Took column 'accuracy' as the pass rate; pass_rate_column= / --pass-rate-column chooses.",)
    """
    options = ReadOptions(
        compute_column=compute_column,
        pass_rate_column=pass_rate_column,
        compute_unit=compute_unit,
        scale=scale,
        run=run,
        run_column=run_column,
        domain=domain,
        drop_missing=drop_missing,
    )
    file = _find_file(Path(path))
    parts = parts_of(file, options)
    if len(parts) > 1:
        raise TraceError(
            f"{file.name} holds {len(parts)} runs or domains: {', '.join(list(parts)[:20])}; choose with "
            "run= / --run (or domain= / --domain), or read all of them with read_traces"
        )
    trace = next(iter(parts.values()))()
    return trace if trace.name else dataclasses.replace(trace, name=_stem(Path(path), file))


def read_traces(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], **options: Any) -> dict[str, Trace]:
    """Read every run of some files.

    Parameters
    ----------
    paths
        A file, a folder that holds ``trace.jsonl``, a glob such as ``"runs/*/trace.jsonl"``, or several of
        these.
    **options
        As for ``read_trace``; they hold for every file.

    Returns
    -------
    dict of str to Trace
        By file stem, with as much of the folder as makes it unique; ``stem:run`` and ``stem:domain`` where
        one file holds several.

    Raises
    ------
    TraceError
        When one of the files cannot be used as it stands.
    """
    wanted = ReadOptions(**options)
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise TraceError("no files were given; name at least one")
    found = {file.resolve(): (path, file) for item in given for path, file in expand(item)}
    names = unique_names(list(found.values()))
    traces = {}
    for name, (_, file) in zip(names, found.values(), strict=True):
        for label, build in parts_of(file, wanted).items():
            key = f"{name}:{label}" if label else name
            traces[key] = dataclasses.replace(build(), name=key)
    return traces


def parts_of(file: Path, options: ReadOptions) -> Parts:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {file}: {error.strerror}; check its permissions") from None
    if not data.strip():
        raise TraceError(f"{file.name} is empty; give a file with evaluations")
    return next(reader for reader in READERS if reader.matches(file, data)).parts(file, data, options)


def expand(item: str | os.PathLike[str]) -> list[tuple[Path, Path]]:
    """Return (what to name it by, the file) for each file that a path or a glob stands for."""
    path = Path(item)
    if path.exists() or not glob.has_magic(os.fspath(item)):
        return [(path, _find_file(path))]
    matches = [Path(match) for match in sorted(glob.glob(os.fspath(item), recursive=True))]
    # rows that a resume threw away are part of no run
    matches = [match for match in matches if not match.name.endswith(".discarded.jsonl")]
    if not matches:
        raise TraceError(f"no file matches {os.fspath(item)!r}; check the pattern")
    return [(match, _find_file(match)) for match in matches]


def _find_file(path: Path) -> Path:
    """Return the file that a path stands for: itself, or the trace in a folder."""
    if path.is_dir():
        if (path / "trace.jsonl").is_file():
            return path / "trace.jsonl"
        usable = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.suffix in _SUFFIXES)
        inside = f"it holds {', '.join(usable[:10])}" if usable else "it holds no CSV, JSON or Parquet file either"
        raise TraceError(f"{path} is a folder without trace.jsonl; {inside}; name a file")
    if not path.exists():
        there = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = nearest(path.name, there) or ("" if there else f"; there is no folder {path.parent} with files either")
        raise TraceError(f"no such file: {path}{hint or '; check the path'}")
    return path


def _stem(path: Path, file: Path) -> str:
    return path.resolve().name if path.is_dir() else file.stem


def unique_names(files: list[tuple[Path, Path]]) -> list[str]:
    """Return the stems, each with as many parent folders as tell it from the others."""
    names = [_stem(path, file) for path, file in files]
    parents = [list(path.resolve().parents) for path, _ in files]
    depth = 0
    while len(set(names)) < len(names) and depth < max(map(len, parents)):
        names = [
            f"{parents[i][depth].name}/{name}" if names.count(name) > 1 and depth < len(parents[i]) else name
            for i, name in enumerate(names)
        ]
        depth += 1
    # run.csv beside run.jsonl: only the suffix tells them apart
    return [f"{name}{files[i][1].suffix}" if names.count(name) > 1 else name for i, name in enumerate(names)]
