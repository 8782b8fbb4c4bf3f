"""Several logs of one run, in order, or the reason why the order is unknown."""

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
"""Seconds since 1970; a clock with a smaller value counts from the start of its run and cannot order pieces."""


class LogPiece(NamedTuple):
    """A log, with the steps and times of its first and its last row; NaN where its rows have none."""

    log: Log
    begin: float
    end: float
    since: float
    until: float


def stitched(logs: Sequence[Log]) -> Log:
    """Return several pieces of one run as one log.

    Pieces whose steps do not overlap follow each other by their steps. Where they overlap, a run was resumed from an
    earlier step, and the clock decides which piece is the later one; without a clock it is the one that goes further.

    Raises
    ------
    TraceError
        When the order is unknown, or the pieces were written at the same time.
    """
    keys = tuple(dict.fromkeys(key for log in logs for key in log.keys))
    framework = framework_of(keys) or UNKNOWN
    pieces = []
    for log in logs:
        steps = steps_of(log, framework, Receipt())
        pieces.append(LogPiece(log, *_span(steps.step), *_span(steps.clock)))
    return _joined([piece.log for piece in _in_order(pieces)], keys)


def _span(values: FloatArray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (math.nan, math.nan)


def _in_order(pieces: Sequence[LogPiece]) -> list[LogPiece]:
    timed = all(piece.since > DATED for piece in pieces)
    if not all(math.isfinite(piece.begin) for piece in pieces):
        if not timed:
            without_steps = next(piece for piece in pieces if not math.isfinite(piece.begin))
            raise TraceError(
                f"{without_steps.log.source}: no row has a step, so its place among the other pieces is unknown; "
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
                "no time that shows which was written later; leave one out, or cut off the rows that were replaced"
            )
    return order


def _shown(piece: LogPiece) -> str:
    return f"{piece.log.source} (steps {piece.begin:g} to {piece.end:g})"


def _joined(logs: Sequence[Log], keys: tuple[str, ...]) -> Log:
    names = [log.source for log in logs]

    def load(wanted: Sequence[str]) -> dict[str, FloatArray]:
        parts = [log.load(wanted) for log in logs]
        return {key: np.concatenate([part[key] for part in parts]) for key in wanted}

    has_domains = any(log.domains is not None for log in logs)
    return Log(
        " + ".join(names),
        " + ".join(dict.fromkeys(log.reader for log in logs)),
        sum(log.n_rows for log in logs),
        keys,
        load,
        run=logs[0].run,
        files=tuple(file for log in logs for file in log.files),
        config=next((log.config for log in logs if log.config), {}),
        domains=[d for log in logs for d in (log.domains or [None] * log.n_rows)] if has_domains else None,
        notes=(
            *(note for log in logs for note in log.notes),
            f"Stitched {len(logs)} pieces in this order: {', '.join(names)}.",
        ),
    )
