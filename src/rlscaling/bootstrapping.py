"""Intervals by resampling, in chunks whose numbers do not depend on where they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlscaling.curves import Array
from rlscaling.errors import FitError
from rlscaling.fit import model_of
from rlscaling.intervals import Bootstrap, check_level
from rlscaling.model import FittedModel
from rlscaling.posterior import posterior
from rlscaling.priors import SIGMOID_ONLY
from rlscaling.resample import SCHEMES, replicates
from rlscaling.results import SigmoidFit
from rlscaling.verdict import MIN_POINTS_FOR_INTERVAL, score_scale
from rlscaling.workers import check_n_jobs, run_tasks

CHUNK = 250  # replicates; fixed, so that chunk borders and seeds are the same on any number of workers
MIN_TASK = 50  # replicates; fewer are not worth a task of their own
POSTERIOR = "posterior"
SEED_SD = 0.015  # of A between seeds of one recipe [ScaleRL, 2.1], when several seeds are not given
RngLike = int | np.random.Generator | np.random.SeedSequence | None


def bootstrap(
    fit: SigmoidFit,
    *,
    scheme: str = "ar1",
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    rng: RngLike = None,
    n_jobs: int = 1,
    seed_sd: float = SEED_SD,
    on_progress: Callable[[int, int], None] | None = None,
) -> Bootstrap:
    """Return intervals of ``A, B, C_mid, R0`` by resampling.

    Parameters
    ----------
    fit : SigmoidFit
        From `fit_sigmoid`, `fit_trace`, or a saved file.
    scheme : {"ar1", "residual", "pairs", "block", "binomial", "posterior"}
        ``ar1`` draws correlated noise from its posterior and refits: 95 % intervals hold the truth in about
        95 % of runs. ``posterior`` draws the parameters from their posterior on a grid, with a prior on ``A``, ``B``
        and ``C_mid`` (`Prior`): early runs are shrunk towards plausible values. The others, for comparison: independent
        residuals, pairs, moving blocks, and sampling noise alone (``binomial``, needs the counts of a `Trace`).
    n_resamples : int
        Replicates, at least 2.
    confidence_level : float
        In (0, 1); can be changed later with ``.at_level``.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers, on any number of workers.
    n_jobs : int
        Workers, through joblib's active backend (-1: all cores); see `fit_many` for whole runs.
    seed_sd : float
        Spread of ``A`` between seeds of one recipe, for the "new run" interval.
    on_progress : callable, optional
        Called with (replicates done, replicates in all).

    Returns
    -------
    Bootstrap

    Raises
    ------
    FitError
        With fewer than 7 fitted points, an unknown scheme, or counts that are missing.
    WorkersError
        When worker processes die.

    Examples
    --------
    >>> from rlscaling import bootstrap, datasets, fit_trace
    >>> boot = bootstrap(fit_trace(datasets.load_demo()["scalerl"]), rng=0)
    >>> low, high = boot.confidence_interval["A"]
    >>> low < 0.61 < high
    True
    """
    check_level(confidence_level)
    _check(fit, scheme, n_resamples, seed_sd)
    check_n_jobs(n_jobs)
    model = model_of(fit)
    if scheme == "binomial":
        _check_counts(model)
    if scheme == "binomial" and model.series.se is None and model.series.n_rollouts is None:
        raise FitError(
            'scheme="binomial" needs counts: n_prompts and n_samples, or pass_rate_se, of each evaluation; fit a Trace '
            'that has them, or use scheme="ar1"'
        )
    entropy = entropy_of(rng)
    if scheme == POSTERIOR:
        draws = _posterior_draws(model, n_resamples, entropy)
    else:
        draws = _run_chunks(model, scheme, n_resamples, entropy, n_jobs, on_progress)
    return Bootstrap(
        fit=fit,
        distribution=draws,
        A_new_run=new_run(draws, fit, seed_sd * score_scale(model), entropy),
        scheme=scheme,
        confidence_level=float(confidence_level),
        seed_sd=seed_sd,
        seed=entropy,
        notes=fit.notes,
    )


def new_run(draws: Array, fit: SigmoidFit, seed_sd: float, entropy: int) -> Array:
    """Return draws of ``A`` with the seed-to-seed spread added, inside its bounds, shape (n,)."""
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(1,)))
    if fit.options.A is not None:  # nothing is claimed about a given A
        return draws[:, 0].copy()
    shifted = draws[:, 0] + seed_sd * rng.standard_normal(len(draws))
    if np.isfinite(fit.options.A_max):
        shifted = np.clip(shifted, draws[:, 3], fit.options.A_max)
    return np.asarray(shifted)


def _check(fit: SigmoidFit, scheme: str, n_resamples: int, seed_sd: float) -> None:
    if not isinstance(fit, SigmoidFit):
        raise FitError(
            f"bootstrap takes a SigmoidFit, not {type(fit).__name__}; fit first with fit_sigmoid or fit_trace"
        )
    if scheme not in (*SCHEMES, POSTERIOR):
        raise FitError(f"scheme={scheme!r} is unknown; choose one of {', '.join((*SCHEMES, POSTERIOR))}")
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, int | np.integer) or n_resamples < 2:
        raise FitError(f"n_resamples={n_resamples!r} must be a whole number of 2 or more; 1000 is usual")
    check_seed_sd(seed_sd)
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        raise FitError(
            f"{fit.n_points} fitted points are too few for an interval ({MIN_POINTS_FOR_INTERVAL} needed); evaluate "
            "more often, run on, or lower min_compute"
        )


def check_seed_sd(seed_sd: float) -> None:
    """Refuse a spread between seeds that is not a finite number of 0 or more."""
    if isinstance(seed_sd, bool) or not isinstance(seed_sd, int | float | np.number) or not 0 <= seed_sd < np.inf:
        raise FitError(f"seed_sd={seed_sd!r} must be a finite number of 0 or more")


def _check_counts(model: FittedModel) -> None:
    """Raise where sampling noise cannot be drawn from what the trace says of its evaluations."""
    if not model.problem.ordered:
        raise FitError('scheme="binomial" is for pass rates; these are unbounded scores: use scheme="ar1"')
    for what, values in (("pass_rate_se", model.series.se), ("n_prompts x n_samples", model.series.n_rollouts)):
        bad: Any = [] if values is None else np.flatnonzero(~((values > 0) & (values < 1e15)))
        if len(bad) and values is not None:
            raise FitError(
                f"{what} of evaluation {bad[0]} is {values[bad[0]]:g}: not a positive count or error; repair it"
            )


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


def _posterior_draws(model: FittedModel, n: int, entropy: int) -> Array:
    """Return draws of the sigmoid's parameters, without a departure from the curve, shape (n, 4)."""
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0,)))
    return posterior(model, SIGMOID_ONLY).draw(rng, n).parameters()


def _chunks(model: FittedModel, scheme: str, entropy: int, sizes: list[tuple[int, int]]) -> Array:
    """Return the replicates of some chunks, each (number, size), below one another."""
    parts = []
    for index, size in sizes:
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0, index)))
        parts.append(replicates(model, scheme, rng, CHUNK, refit=size))
    return np.concatenate(parts)


def tasks_of(n: int) -> list[list[tuple[int, int]]]:
    """Return the chunks (number, size) of each task: one, but a last one of less than 50 goes with its neighbour."""
    tasks = [[(index, min(CHUNK, n - start))] for index, start in enumerate(range(0, n, CHUNK))]
    if len(tasks) > 1 and tasks[-1][0][1] < MIN_TASK:
        tasks[-2:] = [tasks[-2] + tasks[-1]]
    return tasks


def _run_chunks(
    model: FittedModel,
    scheme: str,
    n: int,
    entropy: int,
    n_jobs: int,
    on_progress: Callable[[int, int], None] | None,
) -> Array:
    tasks = [(model, scheme, entropy, sizes) for sizes in tasks_of(n)]
    parts: list[Any] = [None] * len(tasks)
    done = 0
    for index, part in run_tasks(_chunks, tasks, n_jobs, call="bootstrap"):
        parts[index] = part
        done += len(part)
        if on_progress is not None:
            on_progress(done, n)
    return np.concatenate(parts)
