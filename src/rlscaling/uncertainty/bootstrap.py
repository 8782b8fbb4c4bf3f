"""Intervals by resampling, in chunks whose numbers do not depend on where they run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import PARAMETER_NAMES
from rlscaling.errors import FitError
from rlscaling.fitting.sigmoid_fit import (
    SigmoidFit,
    _meaningless,
    _remark,
    headline,
    model_of,
    not_identified,
    provenance,
    twice_lines,
)
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL, Verdict
from rlscaling.parallel import run_tasks
from rlscaling.printing.document import html_table, text_table
from rlscaling.printing.numbers import _level, interval, plus_minus
from rlscaling.serialization import _pairs, finite
from rlscaling.solver.fitted_model import FittedModel, score_scale
from rlscaling.solver.intervals import _hull, half_width_68, percentile_interval
from rlscaling.solver.resampling import SCHEMES, replicates
from rlscaling.uncertainty.posterior import posterior
from rlscaling.uncertainty.prior import SIGMOID_ONLY
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import RngLike, check_level, check_n_jobs, check_seed_sd, entropy_of

if TYPE_CHECKING:
    import pandas as pd


CHUNK = 250  # replicates; fixed, so that chunk borders and seeds are the same on any number of workers
MIN_TASK = 50  # replicates; fewer are not worth a task of their own
POSTERIOR = "posterior"


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


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap:
    """Replicates of a fit, and the intervals they give.

    Attributes
    ----------
    fit : SigmoidFit
        The fit.
    distribution : array of shape (n_resamples, 4)
        ``A, B, C_mid, R0`` of each replicate: this run's evaluation and training noise.
    A_new_run : array of shape (n_resamples,)
        ``A`` with the spread between seeds added.
    scheme, confidence_level, seed_sd
        How the replicates were drawn, the level of the intervals, and the seed-to-seed sd of ``A``.
    seed
        The entropy that repeats these numbers: ``bootstrap(fit, rng=seed)``.
    """

    fit: SigmoidFit
    distribution: Array
    A_new_run: Array
    scheme: str
    confidence_level: float
    seed_sd: float
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict of the fit: one fit has one."""
        return self.fit.verdict

    @property
    def reason(self) -> str:
        """The fit's verdict in a sentence."""
        return self.fit.reason

    @property
    def n_resamples(self) -> int:
        """Number of replicates."""
        return len(self.distribution)

    @cached_property
    def confidence_interval(self) -> dict[str, tuple[float, float]]:
        """This-run interval of ``A, B, C_mid, R0``."""
        rows = percentile_interval(self.distribution, self.confidence_level)
        return {name: (float(low), float(high)) for name, (low, high) in zip(PARAMETER_NAMES, rows, strict=True)}

    @cached_property
    def confidence_interval_new_run(self) -> dict[str, tuple[float, float]]:
        """Interval of ``A`` for a new run of this recipe: the seed-to-seed spread is added."""
        wider = percentile_interval(self.A_new_run, self.confidence_level)
        low, high = _hull(np.array(self.confidence_interval["A"]), wider)
        return {"A": (float(low), float(high))}

    @cached_property
    def standard_error(self) -> dict[str, float]:
        """Half the central 68 % of the replicates, by parameter: what is printed after ±.

        A standard deviation would be moved by a few replicates whose C_mid ran far away.
        """
        return {name: half_width_68(self.distribution[:, j]) for j, name in enumerate(PARAMETER_NAMES)}

    def at_level(self, confidence_level: float) -> Self:
        """Return the same replicates at another confidence level, without resampling."""
        return replace(self, confidence_level=check_level(confidence_level))

    def to_frame(self) -> pd.DataFrame:
        """Return one row a parameter: estimate, standard error and both intervals."""
        import pandas as pd

        new = self.confidence_interval_new_run
        rows = [
            {
                "estimate": getattr(self.fit.params, name),
                "standard_error": self.standard_error[name],
                "ci_low": self.confidence_interval[name][0],
                "ci_high": self.confidence_interval[name][1],
                "ci_new_run_low": new.get(name, (math.nan, math.nan))[0],
                "ci_new_run_high": new.get(name, (math.nan, math.nan))[1],
            }
            for name in PARAMETER_NAMES
        ]
        return pd.DataFrame(rows, index=pd.Index(PARAMETER_NAMES, name="parameter"))

    def to_dict(self) -> dict[str, Any]:
        """Return the intervals as JSON-ready values (without the draws)."""
        return {
            "ci": _pairs(self.confidence_interval),
            "ci_new_run": _pairs(self.confidence_interval_new_run),
            "standard_error": {k: finite(v) for k, v in self.standard_error.items()},
            "confidence_level": self.confidence_level,
            "scheme": self.scheme,
            "n_resamples": self.n_resamples,
            "seed_sd": self.seed_sd,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        return bootstrap_text(self)

    def __repr__(self) -> str:
        low, high = self.confidence_interval["A"]
        return f"Bootstrap({self.verdict}, A in [{low:.4g}, {high:.4g}], n_resamples={self.n_resamples}, {self.scheme})"

    def _repr_html_(self) -> str:
        return bootstrap_html(self)


def bootstrap_rows(boot: Bootstrap) -> list[list[str]]:
    """Return one row a parameter: name, value with error, this-run interval, new-run interval."""
    rows = []
    ci, new = boot.confidence_interval, boot.confidence_interval_new_run
    for j, name in enumerate(("A", "B", "C_mid", "R0")):
        value = getattr(boot.fit.params, name)
        error = half_width_68(boot.distribution[:, j])
        text = "not identified" if not_identified(boot.fit, name) else plus_minus(value, error)
        low, high = ci[name]
        this = "" if low == high == value or _meaningless(boot.fit, name) else interval(low, high)
        remark = _remark(boot.fit, name, ci[name])
        rows.append([name, text, this, interval(*new[name]) if name in new else "", remark])
    return rows


def bootstrap_text(boot: Bootstrap) -> str:
    """Return the plain-text form of a bootstrap."""
    header = [
        "",
        "estimate",
        f"{_level(boot.confidence_level)} this run",
        f"{_level(boot.confidence_level)} new run",
        "",
    ]
    lines = [headline(boot.fit), text_table(bootstrap_rows(boot), header), *twice_lines(boot.fit)]
    lines.append(f"  {boot.n_resamples:,} replicates ({boot.scheme}); {provenance(boot.fit)}")
    lines.append(
        f"  'new run' adds the spread between seeds: sd {boot.seed_sd:g} of A; 'this run' is what more of this run "
        "would show"
    )
    lines += [f"  note: {note}" for note in boot.notes]
    return "\n".join(lines)


def bootstrap_html(boot: Bootstrap) -> str:
    """Return the HTML form of a bootstrap, for notebooks."""
    level = _level(boot.confidence_level)
    header = ["", "estimate", f"{level} this run", f"{level} new run", ""]
    foot = [
        *twice_lines(boot.fit),
        f"{boot.n_resamples:,} replicates ({boot.scheme}); {provenance(boot.fit)}",
        *boot.notes,
    ]
    return html_table(bootstrap_rows(boot), header, headline(boot.fit), foot)
