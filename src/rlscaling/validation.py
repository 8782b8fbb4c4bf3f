"""Checks of arguments that many functions share.

Confidence level, seed spread, random generator, number of resamples, number of workers; and keyword arguments that
had another name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from rlscaling.errors import FitError

RngLike = int | np.random.Generator | np.random.SeedSequence | None
P = ParamSpec("P")
R = TypeVar("R")


def renamed(**new_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function accept a keyword argument by its old name too, until 1.0; ``new_names`` are ``old="new"``.

    Examples
    --------
    >>> @renamed(at="compute")
    ... def double(*, compute: float) -> float:
    ...     return 2.0 * compute
    >>> double(at=3.0)
    6.0
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def with_old_names(*args: P.args, **options: P.kwargs) -> R:
            for old, new in new_names.items():
                if old in options:
                    if new in options:
                        raise TypeError(f"{function.__name__}() got both {new}= and {old}=, its old name; drop {old}=")
                    options[new] = options.pop(old)
            return function(*args, **options)

        return with_old_names

    return decorate


def check_seed_sd(seed_sd: float) -> None:
    """Raise FitError unless the between-seed standard deviation is a finite number of 0 or more."""
    if isinstance(seed_sd, bool) or not isinstance(seed_sd, int | float | np.number) or not 0 <= seed_sd < np.inf:
        raise FitError(f"seed_sd={seed_sd!r} must be a finite number of 0 or more")


def entropy_of(rng: RngLike) -> int:
    """Return the one integer from which the random numbers of all chunks are derived."""
    if rng is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if isinstance(rng, np.random.SeedSequence):
        return int(rng.generate_state(1, np.uint64)[0])
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise FitError(f"rng={rng!r} is not a seed: give a whole number of 0 or more, a numpy Generator, or None")
    return int(rng)


def check_level(confidence_level: float) -> float:
    """Return ``confidence_level`` when it lies in (0, 1).

    Raises
    ------
    FitError
        Otherwise, e.g. for 95 instead of 0.95.
    """
    try:
        level = float(confidence_level)
    except (TypeError, ValueError):
        level = math.nan
    if not 0.0 < level < 1.0:
        raise FitError(f"confidence_level={confidence_level!r} is not between 0 and 1; for 95 % give 0.95")
    return level


TOO_FEW = "replicates are too few for"


def with_count_note(notes: tuple[str, ...], n: int, confidence_level: float) -> tuple[str, ...]:
    """Return notes with one more where ``n`` replicates cannot tell the interval: fewer than one lies outside each end.

    Examples
    --------
    >>> with_count_note((), 100, 0.9999)[0].split(":")[0]
    '100 replicates are too few for a 99.99 % interval'
    >>> with_count_note((), 100, 0.95)
    ()
    """
    needed = math.ceil(round(2.0 / (1.0 - confidence_level), 3))
    others = tuple(note for note in notes if TOO_FEW not in note)
    if n >= needed:
        return others
    level = f"{100.0 * confidence_level:.6g} %"
    return (*others, f"{n:,} {TOO_FEW} a {level} interval: its ends are the outermost of them; {needed:,} would do")


def check_n_resamples(n_resamples: Any, least: int = 2) -> int:
    """Return ``n_resamples`` when it is a number of replicates, ``least`` or more.

    Raises
    ------
    FitError
        Otherwise, e.g. for 1.
    """
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, int | np.integer) or n_resamples < least:
        raise FitError(f"n_resamples={n_resamples!r} must be a whole number of {least} or more; 1000 is usual")
    return int(n_resamples)


def check_n_jobs(n_jobs: Any) -> int:
    """Return ``n_jobs`` when it is a number of workers.

    Raises
    ------
    FitError
        Otherwise, e.g. for 0.
    """
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise FitError(f"n_jobs={n_jobs!r} is not a number of workers: 1, 2, ... or -1 for all cores (--n-jobs)")
    return int(n_jobs)
