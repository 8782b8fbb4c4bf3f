"""Runs on W&B's servers: the history of ``wandb://entity/project/run`` is saved as JSON lines and read from these.

The first line describes the run, its configuration included; each line after it is a row from `scan_history`, which
returns all rows, where ``history()`` returns 500 and ``scan_history(keys=...)`` only rows that have every key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.decoding.values import files_that_match, flatten, parsed, whole_lines
from rlscaling.readers.logs.log import STEP, Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "W&B run"
SCHEME = "wandb://"
KIND = "wandb_history"
START = re.compile(rb'\{"kind": "' + KIND.encode() + rb'"')


def matches(path: Path, data: bytes) -> bool:
    """Return whether the first line is that of a history written by `fetch`."""
    return START.match(data) is not None


def in_folder(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the histories among the files of a folder."""
    return files_that_match(folder, names, ".jsonl", matches)


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    whole, notes = whole_lines(data, path.name)
    builder, broken = LogBuilder(path.name, NAME), 0
    first, *lines = whole.split(b"\n")
    header = parsed(first) or {}
    for line in filter(None, lines):
        row = parsed(line)
        if row is None:
            broken += 1
        else:
            builder.add(flatten(row))
    if broken:
        notes += (f"{broken} of the lines of {path.name} are not objects and were left out.",)
    if not builder.n_rows:
        raise TraceError(f"{path.name} holds no history; {' '.join(notes) or 'the run logged nothing'}")
    last, reached = header.get("last_step"), builder.log().column(STEP).max(initial=-1)
    if isinstance(last, int) and not reached >= last:
        lost = f"W&B says that the last step is {last}, but its history ends at {reached:g}: rows are missing"
        notes += (f"{lost} (wandb {header.get('wandb_version')}; versions 0.27.1 and 0.27.2 lost some).",)
    config = flatten(header.get("config") or {})
    run = str(header.get("name") or header.get("id") or path.stem)
    return [builder.log(run=run, files=(path,), content=data, config=config, notes=notes)]


def fetch(address: str, folder: Path) -> Path:
    """Write the history of a run into a folder, or those of a project's runs, and return the file, or the folder.

    Parameters
    ----------
    address
        ``wandb://entity/project/run``, the run by its identifier (the last part of its page's address), or
        ``wandb://entity/project`` for all runs of a project.
    folder
        Where to write; exists.

    Raises
    ------
    TraceError
        Without wandb, or when W&B does not return the run.
    """
    path = address.removeprefix(SCHEME).strip("/")
    parts = [part for part in path.split("/") if part != "runs"]  # as in the address of the run's page
    if len(parts) not in (2, 3):
        raise TraceError(
            f"{address} is not a W&B run; write wandb://entity/project/run, or wandb://entity/project for all its runs"
        )
    try:
        import wandb
    except ModuleNotFoundError:
        raise TraceError(
            f"{address} needs wandb: pip install 'rlscaling[wandb]' and log in; or give the run's .wandb file"
        ) from None
    try:
        api = wandb.Api()
        runs = [api.run("/".join(parts))] if len(parts) == 3 else list(api.runs("/".join(parts)))
        target = folder / parts[1]
        target.mkdir()
        files = [_write(run, target / _file_name(run, len(runs)), wandb.__version__) for run in runs]
    except Exception as error:  # wandb, requests and GraphQL raise errors of their own
        raise TraceError(
            f"cannot read {address}: {type(error).__name__}: {error}; check the address, and your login (wandb login)"
        ) from None
    if not files:
        raise TraceError(f"{address} holds no runs; check the address")
    return files[0] if len(parts) == 3 else target


def _file_name(run: Any, n_runs: int) -> str:
    """Return a file name made of the run's name, with its identifier where runs of a project may share a name."""
    name = re.sub(r"[^\w.()+-]+", "_", str(run.name or run.id)).lstrip(".")[:100]
    return f"{name or run.id}.jsonl" if n_runs == 1 else f"{name}-{run.id}.jsonl"


def _write(run: Any, target: Path, version: str) -> Path:
    header = {
        "kind": KIND, "id": run.id, "name": run.name, "state": run.state, "config": dict(run.config),
        "last_step": run.lastHistoryStep, "wandb_version": version,
    }  # fmt: skip
    with target.open("w", encoding="utf-8") as out:
        out.write(json.dumps(header, default=str) + "\n")
        out.writelines(json.dumps(row, default=str) + "\n" for row in _rows(run, target.with_suffix("")))
    return target


def _rows(run: Any, exports: Path) -> Iterator[dict[str, Any]]:
    """Yield all rows: from the history or, if W&B returns none of it, from an export written into a folder."""
    empty = True
    for row in run.scan_history():
        empty = False
        yield row
    if empty and run.lastHistoryStep >= 0 and hasattr(run, "download_history_exports"):
        import pyarrow.parquet as pq

        for path in run.download_history_exports(exports).paths:
            for batch in pq.ParquetFile(path).iter_batches():
                yield from batch.to_pylist()
