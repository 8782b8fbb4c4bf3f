"""Folders as loggers leave them: which of their files, or which folder inside, is a log."""

from __future__ import annotations

import os
from pathlib import Path

from . import mlflow_store, tfevents, trackio_db, trl_state, verl_file, wandb_history
from .wandb_offline import SUFFIX as WANDB_SUFFIX

MAX_DEPTH = 6
MAX_ENTRIES = 100_000
HEAD = 4096
NAMED = ("metrics.jsonl", "trace.jsonl")
LINES = (verl_file, wandb_history)


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in a folder: our trace, or what a logger that we know left there, also further down.

    Links to folders are not followed.
    """
    if (folder / "trace.jsonl").is_file():
        return [folder / "trace.jsonl"]
    found: list[Path] = []
    seen = 0
    for at, inner, names in os.walk(folder, followlinks=False):
        here = Path(at)
        seen += len(names) + len(inner)
        found += _logs_here(here, names)
        if seen > MAX_ENTRIES:
            break
        stop = len(here.relative_to(folder).parts) >= MAX_DEPTH or mlflow_store.is_store(here)
        state = trl_state.newest(here)
        inner[:] = [] if stop or state is not None else sorted(name for name in inner if not name.startswith("."))
    return found


def _logs_here(here: Path, names: list[str]) -> list[Path]:
    """Return the logs directly in a folder."""
    found: list[Path] = []
    if mlflow_store.is_store(here):
        return [here]
    state = trl_state.newest(here)
    if state is not None:
        found.append(state)
    if any(tfevents.is_event_file(name) for name in names):
        found.append(here)
    for name in sorted(names):
        path = here / name
        suffix = path.suffix
        # of databases only those of a logger: others lie beside logs, too
        database = suffix == ".db" and any(store.matches(path, _head(path)) for store in (mlflow_store, trackio_db))
        lines = name in NAMED or (suffix == ".jsonl" and any(kind.matches(path, _head(path)) for kind in LINES))
        if suffix == WANDB_SUFFIX or database or lines:
            found.append(path)
    return found


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(HEAD)
    except OSError:
        return b""
