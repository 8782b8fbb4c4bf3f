"""Checks of arguments that many functions share.

Confidence level, seed spread, random generator, number of resamples, number of workers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlscaling.errors import FitError

RngLike = int | np.random.Generator | np.random.SeedSequence | None


def check_seed_sd(seed_sd: float) -> None:
    """Refuse a spread between seeds that is not a finite number of 0 or more."""
    if isinstance(seed_sd, bool) or not isinstance(seed_sd, int | float | np.number) or not 0 <= seed_sd < np.inf:
        raise FitError(f"seed_sd={seed_sd!r} must be a finite number of 0 or more")


def entropy_of(rng: RngLike) -> int:
    """Return one integer that all chunks derive their seeds from."""
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
