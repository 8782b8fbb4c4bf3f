"""`bootstrap` and its result `Bootstrap`: intervals by resampling, in chunks, the same on any number of workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import PARAMETER_NAMES
from rlscaling.errors import FitError
from rlscaling.fitting.sigmoid_fit import (
    SigmoidFit,
    at_twice_text,
    interval_text,
    not_identified,
    provenance,
    remark,
)
from rlscaling.fitting.verdict import Verdict, check_enough_points
from rlscaling.parallel import run_tasks
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import interval, number, percent, plus_minus, unit_text
from rlscaling.solver.fitted_model import FittedModel, score_range, score_scale
from rlscaling.solver.intervals import ConfidenceInterval, containing, half_width_68, percentile_interval, union
from rlscaling.solver.resampling import SCHEME, SCHEMES, Replicates, Scheme, joined, replicates
from rlscaling.uncertainty.posterior import posterior
from rlscaling.uncertainty.prior import SIGMOID_ONLY
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import (
    RngLike,
    check_level,
    check_n_jobs,
    check_n_resamples,
    check_seed_sd,
    entropy_of,
    with_count_note,
)

if TYPE_CHECKING:
    import pandas as pd


CHUNK = 250  # replicates; fixed, so that chunk borders and seeds are the same on any number of workers
MIN_TASK = 50  # replicates; fewer are not worth a task of their own
POSTERIOR = "posterior"
NEW_RUN = "'new run' adds the spread between seeds: sd {:g} of A; 'this run' is what more of this run would show"

BOOTSTRAP_SCHEMES: Mapping[str, Scheme] = {
    **SCHEMES,
    POSTERIOR: Scheme(POSTERIOR, "parameters, drawn from their posterior under a prior (`Prior`), without refits"),
}
"""Every scheme of `bootstrap`, by name."""


def bootstrap(
    fit: SigmoidFit,
    *,
    scheme: str = SCHEME,
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
    scheme : {"departures", "ar1", "residual", "pairs", "block", "binomial", "posterior"}
        ``departures`` draws noise, wander and departures from the sigmoid from their posterior and refits; ``A`` is
        then the level of the run at eight times its compute, which real runs keep to. ``ar1`` draws correlated noise
        only: its intervals are narrower, and hold where the run follows the sigmoid exactly. ``posterior`` draws the
        parameters from their posterior on a grid, with a prior on ``A``, ``B`` and ``C_mid`` (`Prior`): early runs are
        shrunk towards plausible values. The others, for comparison: independent residuals, pairs, moving blocks, and
        sampling noise alone (``binomial``, needs the counts of a `Trace`).
    n_resamples : int
        Replicates, at least 2.
    confidence_level : float
        In (0, 1); can be changed later with ``.at_level``.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers, on any number of workers.
    n_jobs : int
        Workers, through joblib's active backend (-1: all cores); see `fit_many` for whole runs.
    seed_sd : float
        Between-seed standard deviation of ``A`` for one recipe, for the "new run" interval.
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
    if not isinstance(fit, SigmoidFit):
        raise FitError(
            f"bootstrap takes a SigmoidFit, not {type(fit).__name__}; fit first with fit_sigmoid or fit_trace"
        )
    check_level(confidence_level)
    check_scheme(scheme)
    check_n_resamples(n_resamples)
    check_seed_sd(seed_sd)
    check_enough_points(fit.n_points, "for an interval")
    check_n_jobs(n_jobs)
    model = fit.fitted_model()
    _check_data(BOOTSTRAP_SCHEMES[scheme], model, fit)
    entropy = entropy_of(rng)
    if scheme == POSTERIOR:
        drawn = Replicates(_posterior_draws(model, n_resamples, entropy), None, score_range(model))
    else:
        drawn = _run_chunks(model, scheme, n_resamples, entropy, n_jobs, on_progress)
    draws = drawn.draws()
    return Bootstrap(
        fit=fit,
        distribution=draws,
        A_new_run=new_run(draws, fit, seed_sd * score_scale(model), entropy),
        scheme=scheme,
        confidence_level=float(confidence_level),
        seed_sd=seed_sd,
        rng_seed=entropy,
        notes=with_count_note(fit.notes, n_resamples, confidence_level),
        _replicates=drawn,
    )


def new_run(draws: Array, fit: SigmoidFit, seed_sd: float, entropy: int) -> Array:
    """Return draws of ``A`` with the between-seed spread added, inside its bounds, shape (n,)."""
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(1,)))
    if fit.options.A is not None:  # nothing is claimed about a fixed A
        return draws[:, 0].copy()
    shifted = draws[:, 0] + seed_sd * rng.standard_normal(len(draws))
    if fit.options.bounded:
        shifted = np.clip(shifted, draws[:, 3], fit.options.A_max)
    return np.asarray(shifted)


def check_scheme(scheme: str) -> None:
    """Raise FitError unless ``scheme`` is one of `BOOTSTRAP_SCHEMES`."""
    if not isinstance(scheme, str) or scheme not in BOOTSTRAP_SCHEMES:
        raise FitError(f"scheme={scheme!r} is unknown; choose one of {', '.join(BOOTSTRAP_SCHEMES)}")


def _check_data(scheme: Scheme, model: FittedModel, fit: SigmoidFit) -> None:
    """Raise FitError where the data do not have what a scheme needs."""
    if scheme.pass_rates_only and not model.problem.ordered:
        raise FitError(f'scheme="{scheme.name}" is for pass rates; these are unbounded scores: use scheme="{SCHEME}"')
    columns = {name: getattr(model.series, name) for name in scheme.needs}
    for name, values in columns.items():
        bad: Any = [] if values is None else np.flatnonzero(~((values > 0) & (values < 1e15)))
        if len(bad):
            what = {"se": "pass_rate_se", "n_rollouts": "n_prompts x n_samples"}[name]
            raise FitError(
                f"{what} at position {np.flatnonzero(fit.data.used)[bad[0]]} "
                f"({number(float(model.series.compute[bad[0]]))} {unit_text(fit.compute_unit)}) is "
                f"{values[bad[0]]:g}: not a positive count or error; repair it"
            )
    if columns and all(values is None for values in columns.values()):
        raise FitError(
            f'scheme="{scheme.name}" needs counts: n_prompts and n_samples, or pass_rate_se, of each evaluation; fit a '
            f'Trace that has them, or use scheme="{SCHEME}"'
        )


def _posterior_draws(model: FittedModel, n: int, entropy: int) -> Array:
    """Return draws of the sigmoid's parameters, without model discrepancy, shape (n, 4)."""
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0,)))
    return posterior(model, SIGMOID_ONLY).draw(rng, n).parameters()


def _chunks(model: FittedModel, scheme: str, entropy: int, sizes: list[tuple[int, int]]) -> Replicates:
    """Return the replicates of some chunks, each (number, size), one after another."""
    parts = []
    for index, size in sizes:
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0, index)))
        parts.append(replicates(model, scheme, rng, CHUNK, refit=size))
    return joined(parts)


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
) -> Replicates:
    tasks = [(model, scheme, entropy, sizes) for sizes in tasks_of(n)]
    parts: list[Any] = [None] * len(tasks)
    done = 0
    for index, part in run_tasks(_chunks, tasks, n_jobs, call="bootstrap"):
        parts[index] = part
        done += len(part.parameters)
        if on_progress is not None:
            on_progress(done, n)
    return joined(parts)


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap(Document):
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
        How the replicates were drawn, the level of the intervals, and the between-seed sd of ``A``.
    rng_seed : int
        Repeats these numbers: ``bootstrap(fit, rng=rng_seed)``.
    """

    fit: SigmoidFit
    distribution: Array
    A_new_run: Array
    scheme: str
    confidence_level: float
    seed_sd: float
    rng_seed: int
    notes: tuple[str, ...] = ()
    _replicates: Replicates | None = field(default=None, repr=False)

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
    def confidence_interval(self) -> dict[str, ConfidenceInterval[float]]:
        """This-run interval of ``A, B, C_mid, R0``."""
        rows = percentile_interval(self.distribution, self.confidence_level)
        rows = containing(rows, np.array(self.fit.params.as_tuple()))
        return {name: ConfidenceInterval(*ends) for name, ends in zip(PARAMETER_NAMES, rows.tolist(), strict=True)}

    @cached_property
    def confidence_interval_new_run(self) -> dict[str, ConfidenceInterval[float]]:
        """Interval of ``A`` for a new run of this recipe: the between-seed spread is added."""
        wider = percentile_interval(self.A_new_run, self.confidence_level)
        return {"A": ConfidenceInterval(*union(np.array(self.confidence_interval["A"]), wider).tolist())}

    @cached_property
    def standard_error(self) -> dict[str, float]:
        """Standard deviation of the replicates where they are finite, by parameter, as in `scipy.stats`.

        A few replicates with a very large C_mid can dominate it: see `half_width_68`.
        """
        finite = (column[np.isfinite(column)] for column in self.distribution.T)
        sd = [float(np.std(values, ddof=1)) if len(values) > 1 else math.nan for values in finite]
        return dict(zip(PARAMETER_NAMES, sd, strict=True))

    @cached_property
    def half_width_68(self) -> dict[str, float]:
        """Half-width of the central 68 % of the replicates, by parameter: what is printed after ±.

        Unlike a standard deviation it is not dominated by a few replicates with a very large C_mid.
        """
        return {name: half_width_68(self.distribution[:, j]) for j, name in enumerate(PARAMETER_NAMES)}

    def curves(self, compute: ArrayLike) -> Array:
        """Return where the run of each replicate stands at ``compute``, shape (n_resamples, m)."""
        return self._drawn.curves(np.atleast_1d(np.asarray(compute, dtype=float)))

    def reach(self, pass_rate: float) -> Array:
        """Return the compute at which the run of each replicate reaches ``pass_rate``, inf where it never does."""
        return self._drawn.reach(pass_rate)

    @property
    def _drawn(self) -> Replicates:
        return self._replicates or Replicates(self.distribution, None, score_range(self.fit.fitted_model()))

    def at_level(self, confidence_level: float) -> Self:
        """Return the same replicates at another confidence level, without resampling."""
        notes = with_count_note(self.notes, self.n_resamples, check_level(confidence_level))
        return replace(self, confidence_level=float(confidence_level), notes=notes)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per parameter: estimate, errors and both intervals."""
        import pandas as pd

        new = self.confidence_interval_new_run
        rows = [
            {
                "estimate": getattr(self.fit.params, name),
                "standard_error": self.standard_error[name],
                "half_width_68": self.half_width_68[name],
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
        return super().to_dict()

    def _record(self) -> dict[str, Any]:
        return {
            "ci": self.confidence_interval,
            "ci_new_run": self.confidence_interval_new_run,
            "standard_error": self.standard_error,
            "half_width_68": self.half_width_68,
            "confidence_level": self.confidence_level,
            "scheme": self.scheme,
            "n_resamples": self.n_resamples,
            "seed_sd": self.seed_sd,
            "rng_seed": self.rng_seed,
        }

    @property
    def headline(self) -> str:
        """The verdict of the fit, the run and the reason."""
        return self.fit.headline

    def tables(self) -> Sequence[Table]:
        """Return the table of the parameters."""
        level = percent(self.confidence_level)
        return [Table.of(("", "estimate", f"{level} this run", f"{level} new run", ""), _parameter_rows(self))]

    def footnotes(self) -> Sequence[str]:
        """Return the lines on replicates and data, what the intervals mean, and the notes."""
        return [
            *at_twice_text(self.fit),
            f"{self.n_resamples:,} replicates ({self.scheme}); {provenance(self.fit)}",
            NEW_RUN.format(self.seed_sd),
            *(f"note: {note}" for note in self.notes),
        ]

    def __repr__(self) -> str:
        low, high = self.confidence_interval["A"]
        return f"Bootstrap({self.verdict}, A in [{low:.4g}, {high:.4g}], n_resamples={self.n_resamples}, {self.scheme})"


def _parameter_rows(boot: Bootstrap) -> list[list[str]]:
    """Return one row per parameter: name, value with its error, this-run interval, new-run interval, remark."""
    rows, fit, new = [], boot.fit, boot.confidence_interval_new_run
    for name, ends in boot.confidence_interval.items():
        text = "not identified" if not_identified(fit, name) else plus_minus(fit.params[name], boot.half_width_68[name])
        wider = interval(*new[name]) if name in new else ""
        rows.append([name, text, interval_text(fit, name, ends), wider, remark(fit, name, ends)])
    return rows
