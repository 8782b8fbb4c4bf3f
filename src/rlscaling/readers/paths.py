"""From a path, a folder, a glob or a URL to what is read: files, and folders that are one log."""

from __future__ import annotations

import functools
import glob
import os
import tempfile
from pathlib import Path, PurePosixPath

from rlscaling.errors import TraceError
from rlscaling.readers.formats import wandb_cloud
from rlscaling.readers.registry import logs_here
from rlscaling.readers.table import nearest

_SUFFIXES = (".jsonl", ".parquet", ".csv", ".tsv", ".json", ".ndjson", ".pq", ".txt", ".log")


def expand(item: str | os.PathLike[str]) -> list[tuple[Path, Path]]:
    """Return (what names it, what is read) for each log that a path or a glob stands for."""
    return [log for path in matches_of(item) for log in _logs_at(_local(path))]


def matches_of(item: str | os.PathLike[str]) -> list[str | os.PathLike[str]]:
    """Return the paths that a glob stands for; any other path as it is.

    ``folder/**`` is everything below a folder: the logs, or the tables where there are none.

    Raises
    ------
    TraceError
        When nothing matches a glob.
    """
    pattern = os.fspath(item)
    if is_remote(pattern) or Path(pattern).exists() or not glob.has_magic(pattern):
        return [item]
    matches = _below(pattern) if pattern.endswith("**") else sorted(glob.glob(pattern, recursive=True))
    # rows discarded by a resume belong to no run
    matches = [match for match in matches if not match.endswith(".discarded.jsonl")]
    if not matches:
        raise TraceError(f"no file matches {pattern!r}; check the pattern")
    return list(matches)


def _below(pattern: str) -> list[str]:
    """Return the logs below the folders that ``pattern/**`` names, or, where there are none, the tables."""
    folders = [Path(folder) for folder in sorted(glob.glob(pattern.removesuffix("**") or ".", recursive=True))]
    folders = [folder for folder in folders if folder.is_dir()]
    paths = [log for folder in folders for log in logs_in(folder)]
    if not paths:
        paths = [
            file
            for folder in folders
            for file in sorted(folder.rglob("*"))
            if file.suffix in _SUFFIXES and file.is_file()
        ]
    return [str(path) for path in paths]


def _local(item: str | os.PathLike[str]) -> Path:
    """Return a path on this machine; a remote one is copied."""
    name = os.fspath(item)
    return fetch(name) if isinstance(item, str) and is_remote(name) else Path(name)


def find_one(item: str | os.PathLike[str]) -> Path:
    """Return the one log that a path stands for.

    Raises
    ------
    TraceError
        When it stands for none, or for several.
    """
    path = _local(item)
    logs = _logs_at(path)
    if len(logs) > 1:
        names = ", ".join(_relative(file, path) for _, file in logs[:10])
        raise TraceError(f"{path} holds {len(logs)} logs: {names}; name one, or read all of them with read_traces")
    return logs[0][1]


def _logs_at(path: Path) -> list[tuple[Path, Path]]:
    """Return (what names it, what is read): the path itself, or the logs in a folder."""
    if path.is_dir():
        logs = logs_in(path)
        if len(logs) == 1:
            return [(path, logs[0])]
        if logs:
            return [(file, file) for file in logs]
        files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.suffix in _SUFFIXES)
        inside = f"it holds {', '.join(files[:10])}" if files else "it holds no CSV, JSON or Parquet file either"
        raise TraceError(f"{path} is a folder without a trace or a log; {inside}; name a file")
    if not path.exists():
        names = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = nearest(path.name, names) or ("" if names else f"; there is no folder {path.parent} with files either")
        raise TraceError(f"no such file: {path}{hint or '; check the path'}")
    return [(path, path)]


def _relative(file: Path, folder: Path) -> str:
    return str(file.relative_to(folder)) if file.is_relative_to(folder) and file != folder else file.name


def stem(path: Path, file: Path) -> str:
    """Return the name of a log: that of the folder, if one was named, or of the file without its suffix."""
    return path.resolve().name if path.is_dir() else file.stem


def unique_names(files: list[tuple[Path, Path]]) -> list[str]:
    """Return the stems, each with as many parent folders as distinguish it from the others."""
    names = [stem(path, file) for path, file in files]
    parents = [list(path.resolve().parents) for path, _ in files]
    depth = 0
    while len(set(names)) < len(names) and depth < max(map(len, parents)):
        names = [
            f"{parents[i][depth].name}/{name}" if names.count(name) > 1 and depth < len(parents[i]) else name
            for i, name in enumerate(names)
        ]
        depth += 1
    # run.csv beside run.jsonl: only the suffix distinguishes them
    return [f"{name}{files[i][1].suffix}" if names.count(name) > 1 else name for i, name in enumerate(names)]


MAX_DEPTH = 6
MAX_ENTRIES = 100_000


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in a folder: its ``trace.jsonl``, or else whatever a reader recognises there or further down.

    Links to folders are not followed.
    """
    if (folder / "trace.jsonl").is_file():
        return [folder / "trace.jsonl"]
    logs: list[Path] = []
    n_entries = 0
    for path, folders, names in os.walk(folder, followlinks=False):
        here = Path(path)
        n_entries += len(names) + len(folders)
        logs_of_folder, owned = logs_here(here, names)
        logs += logs_of_folder
        if n_entries > MAX_ENTRIES:
            break
        stop = owned or len(here.relative_to(folder).parts) >= MAX_DEPTH
        folders[:] = [] if stop else sorted(name for name in folders if not name.startswith("."))
    return logs


def is_remote(item: str) -> bool:
    """Return whether a path names a protocol."""
    return "://" in item


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of the copies; it is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="rlscaling-")


def forget() -> None:
    """Drop all copies, so that they are fetched again."""
    if _folder.cache_info().currsize:
        _folder().cleanup()
    _folder.cache_clear()
    fetch.cache_clear()


@functools.cache
def fetch(item: str) -> Path:
    """Return a copy of a remote file, or of a folder with all that is in it.

    Raises
    ------
    TraceError
        Without the package of the protocol, or when the file cannot be fetched.
    """
    if item.startswith(wandb_cloud.SCHEME):
        return wandb_cloud.fetch(item, Path(tempfile.mkdtemp(dir=_folder().name)))
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError:
        raise TraceError(
            f"{item} needs fsspec: pip install 'rlscaling[remote]' and the package of its protocol, such as s3fs; or "
            "copy it to this machine"
        ) from None
    name = PurePosixPath(item.partition("://")[2]).name or "remote"
    target = Path(tempfile.mkdtemp(dir=_folder().name)) / name
    try:
        system, path = url_to_fs(item)
        system.get(path, str(target), recursive=system.isdir(path))
    except Exception as error:  # every protocol raises errors of its own
        raise TraceError(
            f"cannot read {item}: {type(error).__name__}: {error}; check the address and your login"
        ) from None
    return target
