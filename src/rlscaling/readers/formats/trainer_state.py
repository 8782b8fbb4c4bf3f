"""``trainer_state.json`` of transformers and TRL: the log of a run, kept with every checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from rlscaling.errors import TraceError
from rlscaling.readers.logs.log import Log, LogBuilder
from rlscaling.readers.options import ReadOptions

NAME = "trainer_state.json"
SET = re.compile(r"eval_(.+)_(?:loss|runtime)")


def matches(path: Path, data: bytes) -> bool:
    """Return whether the file is the state of a Trainer."""
    return path.suffix == ".json" and b'"log_history"' in data


def in_folder(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the newest state in a folder or in its checkpoints."""
    state = newest(folder)
    return [] if state is None else [state]


def is_in(folder: Path) -> bool:
    """Return whether a folder, or a checkpoint in it, holds a state."""
    return newest(folder) is not None


def newest(folder: Path) -> Path | None:
    """Return the state in a folder, or that of its checkpoint with the highest number.

    Numbers are compared as numbers: ``checkpoint-12`` is newer than ``checkpoint-6``.
    """
    if (folder / NAME).is_file():
        return folder / NAME
    numbered = {}
    for path in folder.glob(f"checkpoint-*/{NAME}"):
        number = path.parent.name.partition("-")[2]
        if number.isascii() and number.isdigit():
            numbered[int(number)] = path
    return numbered[max(numbered)] if numbered else None


def logs(path: Path, data: bytes, options: ReadOptions) -> list[Log]:
    """Return the run in the file."""
    try:
        state = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"{path.name} is not readable as JSON ({error}); give the state of another checkpoint"
        ) from None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list) or not history or not all(isinstance(row, dict) for row in history):
        raise TraceError(f"{path.name} holds no log_history; log with logging_steps, or give another checkpoint")
    builder = LogBuilder(path.name, NAME)
    for row in history:
        builder.add(row, domain=evaluation_set(row))
    return [builder.log(files=(path,))]


def evaluation_set(row: dict[str, object]) -> str | None:
    """Return which of several evaluation sets a row belongs to.

    With several sets, TRL gives their rewards the same keys; only loss and runtime have the name of the set.
    """
    named = {match[1] for key in row if (match := SET.fullmatch(str(key)))}
    return next(iter(named)) if len(named) == 1 else None
