"""Pieces of one run in several logs: in which order they belong together, or why that cannot be told."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.errors import TraceError
from rlscaling.readers.logs.cumulative_compute import steps_of
from rlscaling.readers.logs.frameworks import UNKNOWN, framework_of
from rlscaling.readers.logs.log import Log
from rlscaling.readers.receipt import Receipt

DATED = 1e8
"""Seconds since 1970; a clock that shows less counts from the start of its run, and orders no pieces."""


class LogPiece(NamedTuple):
    """A log, and the steps and times from its first row to its last; NaN where its rows do not say them."""

    log: Log
    begin: float
    end: float
    since: float
    until: float


def stitched(logs: Sequence[Log]) -> Log:
    """Return several pieces of one run as one log.

    Pieces whose steps do not overlap follow each other by their steps. Where they overlap, a run was resumed from an
    earlier step, and the clock tells which piece is the later one; without a clock the one that reaches further is.

    Raises
    ------
    TraceError
        When the order cannot be told, or the pieces were written at the same time.
    """
    keys = tuple(dict.fromkeys(key for log in logs for key in log.keys))
    framework = framework_of(keys) or UNKNOWN
    pieces = []
    for log in logs:
        steps = steps_of(log, framework, Receipt())
        pieces.append(LogPiece(log, *_span(steps.step), *_span(steps.clock)))
    return _joined([piece.log for piece in _in_order(pieces)], keys)


def _span(values: FloatArray) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (math.nan, math.nan)


def _in_order(pieces: Sequence[LogPiece]) -> list[LogPiece]:
    timed = all(piece.since > DATED for piece in pieces)
    if not all(math.isfinite(piece.begin) for piece in pieces):
        if not timed:
            silent = next(piece for piece in pieces if not math.isfinite(piece.begin))
            raise TraceError(
                f"{silent.log.source}: no row says its step, so its place among the other pieces cannot be told; "
                "leave it out, or log a step with its rows"
            )
        return sorted(pieces, key=lambda piece: piece.since)
    order = sorted(pieces, key=lambda piece: (piece.begin, piece.end))
    if all(a.end < b.begin for a, b in itertools.pairwise(order)):
        return order
    if timed:
        order = sorted(pieces, key=lambda piece: piece.since)
        for a, b in itertools.combinations(order, 2):
            if b.since < a.until and b.begin <= a.end and a.begin <= b.end:
                raise TraceError(
                    f"{_shown(a)} and {_shown(b)} were written at the same time: by two processes, not one after the "
                    "other; give one of them, without stitch=True / --stitch"
                )
        return order
    for a, b in itertools.pairwise(order):
        if b.end <= a.end or b.begin == a.begin:
            raise TraceError(
                f"{_shown(a)} and {_shown(b)} overlap so that one replaces rows within the other, and their rows have "
                "no time that says which was written later; leave one out, or cut off the rows that were replaced"
            )
    return order


def _shown(piece: LogPiece) -> str:
    return f"{piece.log.source} (steps {piece.begin:g} to {piece.end:g})"


def _joined(logs: Sequence[Log], keys: tuple[str, ...]) -> Log:
    names = [log.source for log in logs]

    def load(wanted: Sequence[str]) -> dict[str, FloatArray]:
        parts = [log.load(wanted) for log in logs]
        return {key: np.concatenate([part[key] for part in parts]) for key in wanted}

    told = any(log.domains is not None for log in logs)
    return Log(
        " + ".join(names),
        " + ".join(dict.fromkeys(log.reader for log in logs)),
        sum(log.n_rows for log in logs),
        keys,
        load,
        run=logs[0].run,
        files=tuple(file for log in logs for file in log.files),
        config=next((log.config for log in logs if log.config), {}),
        domains=[d for log in logs for d in (log.domains or [None] * log.n_rows)] if told else None,
        notes=(
            *(note for log in logs for note in log.notes),
            f"Stitched {len(logs)} pieces in this order: {', '.join(names)}.",
        ),
    )
