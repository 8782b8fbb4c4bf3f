"""`compare` and its result, `Comparison`."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.comparing.compared_recipes import ComparedRecipes
from rlscaling.comparing.decomposition import Decomposition
from rlscaling.comparing.inputs import ComparisonInputs, R0_notes, check_comparable, check_fixed_R0
from rlscaling.comparing.joint_fit import JointData, Progress, fit_group
from rlscaling.comparing.recipe_estimate import estimate_recipes, scale_of
from rlscaling.comparing.tables import (
    comparison_record,
    headline,
    pair_frame,
    recipe_frame,
    shown_pairs,
    tables,
    tail_lines,
)
from rlscaling.comparing.two_recipes import PairComparison
from rlscaling.errors import FitError
from rlscaling.fitting.budgets import check_budgets
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.standing import standing
from rlscaling.printing.document import Document, Table
from rlscaling.uncertainty.seed_spread import SEED_SD, SeedSpread, comparable_seeds, own_error, spread_of
from rlscaling.validation import RngLike, check_level, check_seed_sd, entropy_of, renamed, with_count_note

if TYPE_CHECKING:
    import pandas as pd


class Comparison(ComparedRecipes, Document):
    """Recipes compared on the same draws; its attributes are those of `ComparedRecipes`."""

    @cached_property
    def _shown(self) -> list[PairComparison]:
        return shown_pairs(self)

    @property
    def headline(self) -> str:
        """Which recipe is the best at the first budget, and how certain that is."""
        return headline(self)

    def tables(self) -> list[Table]:
        """Return pass rates at the budgets, ceilings, the other parameters, pairs, the common ceiling, the spread."""
        return tables(self, self._shown)

    def footnotes(self) -> list[str]:
        """Return differences of ``B``, crossovers, recipes left out, and notes."""
        return tail_lines(self, self._shown)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per recipe: verdict, pass rate and P(best) at the first budget, parameters with intervals."""
        return recipe_frame(self)

    def pairs_to_frame(self) -> pd.DataFrame:
        """Return one row per pair: differences, probabilities and verdicts, on the pass rate and on ``A``."""
        return pair_frame(self)

    def _record(self) -> dict[str, Any]:
        return comparison_record(self, self._shown)

    def __repr__(self) -> str:
        return f"Comparison({self.leader} best at {self.compute[0]:g} with probability {self.best[self.leader]:.3g})"


@renamed(at="compute")
def compare(
    fits: Mapping[str, SigmoidFit | Sequence[SigmoidFit]],
    *,
    margin: float = 0.02,
    compute: ArrayLike | None = None,
    shared_R0: bool = True,
    rng: RngLike = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed_sd: float = SEED_SD,
    device_factors: Mapping[str, float] | None = None,
    on_progress: Progress | None = None,
) -> Comparison:
    """Compare recipes: which is the best at a budget, which has the higher ceiling, and how certain that is.

    Parameters
    ----------
    fits : mapping of str to SigmoidFit or sequence of SigmoidFit
        By recipe; a sequence holds the training runs of one recipe that differ by their seed only.
    margin : float
        Ceilings closer than this count as equal [ScaleRL, 2.1]. For unbounded scores a share of their range.
    compute : float or array-like, optional
        Budgets; the first decides. Default 100,000 GPU-hours; other units have no default.
    shared_R0 : bool
        Refit all runs with one R0, as they start from the same model. Set it to False where they do not; then ``B``
        and ``C_mid`` cannot be compared.
    rng : int, Generator, SeedSequence or None
        The same seed gives the same numbers, in whatever order the recipes are given.
    n_resamples : int
        Number of draws.
    confidence_level : float
        Of the intervals; 1 minus it is the family-wise error of the verdicts.
    seed_sd : float
        Between-seed standard deviation of ``A``, used if no recipe has several training runs. For unbounded scores a
        share of their range.
    device_factors : mapping of str to float, optional
        Price or speed of an hour on each device, by the name in the runs' headers; compute is multiplied by it.
    on_progress : callable, optional
        Called with (fits done, fits in all).

    Returns
    -------
    Comparison

    Raises
    ------
    FitError
        For runs that cannot be compared: different units or devices, no compute in common, a run given twice, too
        few points.

    Warns
    -----
    RLScalingWarning
        Where runs may differ in a way that the numbers do not show: in the number of devices or the base model.

    Notes
    -----
    A recipe with several training runs is judged by their mean and the between-seed standard deviation, which is
    estimated from all recipes that have several. Where a recipe has one run only, verdicts on pairs are about that run,
    and the first line is `decided` by new runs. A ceiling that is not identified is never called higher or lower.

    Pass rates at a budget are those of the combined forecast (`extrapolate`). A run with a few evaluations far off the
    curve of all the others takes part without them, and a misfit among four seeds is left out; the notes name both.

    A run that is flat, falling or no sigmoid is not extrapolated and takes no part in the shared R0. It keeps the level
    at which it stands, at the first budget or at its end; no recipe is called the best unless it exceeds these levels
    too.

    Examples
    --------
    >>> from rlscaling import compare, datasets, fit_trace
    >>> demo = datasets.load_demo()
    >>> comparison = compare({name: fit_trace(demo[name]) for name in ("scalerl", "batch-2048")}, rng=0)
    >>> comparison.leader, str(comparison.pair_verdict("scalerl", "batch-2048"))
    ('batch-2048', 'lower')
    """
    runs = check_comparable(fits, device_factors=device_factors)
    first = next(iter(runs.recipes.values()))[0]
    budgets = tuple(check_budgets(first, compute, option="compute= (--compute)").tolist())
    return compare_inputs(
        runs, budgets, margin=margin, shared_R0=shared_R0, rng=rng, n_resamples=n_resamples,
        confidence_level=confidence_level, seed_sd=seed_sd, on_progress=on_progress,
    )  # fmt: skip


def compare_inputs(
    runs: ComparisonInputs, budgets: tuple[float, ...], *, margin: float, shared_R0: bool, rng: RngLike,
    n_resamples: int, confidence_level: float, seed_sd: float, on_progress: Progress | None,
) -> Comparison:  # fmt: skip
    """Compare the recipes that `check_comparable` returned, as `compare` does."""
    level = check_level(confidence_level)
    _check_numbers(margin, n_resamples)
    check_seed_sd(seed_sd)
    models = tuple(fit.fitted_model() for recipe in runs.recipes.values() for fit in recipe)
    entropy = entropy_of(rng)
    group = JointData(models, _keys(runs), n_resamples, entropy)
    if shared_R0:
        check_fixed_R0(runs)
    levels = [
        None if fit.verdict.has_curve else standing(fit, budgets[0])
        for recipe in runs.recipes.values()
        for fit in recipe
    ]
    fitted = fit_group(group, shared_R0=shared_R0, levels=levels, on_progress=on_progress)
    scale = scale_of(models)
    spread = _spread(runs, fitted.params)
    keys = [(4,), *((5, zlib.crc32(name.encode())) for name in runs.recipes)]
    streams = [np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key)) for key in keys]
    recipes = estimate_recipes(runs.recipes, fitted, scale, seed_sd if spread is None else spread, streams)
    notes = [*runs.notes, *R0_notes(runs, fitted.R0, fitted.R0_free, fitted.R0_error, scale)]
    return Comparison(
        tuple(recipes), budgets, float(margin) * scale, fitted.R0, fitted.R0_draws, spread, group, runs.compute_unit,
        runs.common_compute, level, seed_sd, entropy, with_count_note(tuple(notes), n_resamples, level),
    )  # fmt: skip


def _check_numbers(margin: float, n_resamples: int) -> None:
    if isinstance(margin, bool) or not isinstance(margin, int | float | np.number) or not 0 < margin < np.inf:
        raise FitError(f"margin={margin!r} is not a positive number; 0.02 is the paper's")
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, int | np.integer) or n_resamples < 100:
        raise FitError(f"n_resamples={n_resamples!r} must be a whole number of 100 or more; 1000 is usual")


def _keys(runs: ComparisonInputs) -> tuple[tuple[int, ...], ...]:
    """Return what seeds the random numbers of each run: the recipe's name and the index of the run in it."""
    return tuple((zlib.crc32(name.encode()), j) for name, seeds in runs.recipes.items() for j in range(len(seeds)))


def _spread(runs: ComparisonInputs, params: Array) -> SeedSpread | None:
    """Return the between-seed spread at the R0 of the comparison; None if no recipe has two usable runs."""
    seeds = comparable_seeds(runs.recipes)
    if not seeds:
        return None
    first = dict(zip(runs.recipes, np.cumsum([0, *map(len, runs.recipes.values())]), strict=False))
    rows = np.array([first[name] + j for name, index in seeds.items() for j in index])
    names = tuple(runs.recipes[name][j].name or f"{name}-{j + 1}" for name, index in seeds.items() for j in index)
    fits = [runs.recipes[name][j] for name, index in seeds.items() for j in index]
    errors = np.array([own_error(fit.fitted_model()) for fit in fits])
    return spread_of(seeds, names, params[rows][:, 0], errors)


def decompose(
    x: SigmoidFit | Sequence[SigmoidFit],
    y: SigmoidFit | Sequence[SigmoidFit],
    pass_rate: float | None = None,
    *,
    names: tuple[str, str] = ("x", "y"),
    rng: RngLike = None,
    **options: Any,
) -> Decomposition:
    """Return where a gain in compute comes from: fewer steps to the same pass rate, or less compute per step.

    Parameters
    ----------
    x, y : SigmoidFit or sequence of SigmoidFit
        Two recipes, each with one run or several; the traces must say their steps.
    pass_rate : float, optional
        To be reached. Default: the pass rate that both have reached at the end of their common compute.
    names : tuple of str
        What the recipes are called.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.
    **options
        Other options of `compare`.

    Returns
    -------
    Decomposition
        ``compute = steps x compute per step``, each of ``y`` over that of ``x``, with its interval.

    Raises
    ------
    FitError
        For a run that does not say its steps, and as in `compare`.

    References
    ----------
    ScaleRL (arXiv 2510.13786), section A.20.

    Examples
    --------
    >>> import numpy as np
    >>> from rlscaling import SigmoidParams, Trace, decompose, fit_trace
    >>> step = np.arange(0, 801, 20)
    >>> fits = []
    >>> for hours_per_step, C_mid in ((10.0, 2000.0), (15.0, 3000.0)):
    ...     C = step * hours_per_step
    ...     y = SigmoidParams(0.6, 1.9, C_mid, 0.35).predict(C) + np.random.default_rng(0).normal(0, 0.003, len(C))
    ...     fits.append(fit_trace(Trace(C, y, columns={"step": step})))
    >>> found = decompose(*fits, 0.5, rng=0)
    >>> round(found.per_step, 3), 0.8 < found.steps < 1.25
    (1.5, True)
    """
    fits = dict(zip(names, (x, y), strict=True))
    compute = options.pop("compute", None)
    first = x if isinstance(x, SigmoidFit) else next(iter(x), None)
    if compute is None and isinstance(first, SigmoidFit):
        compute = first.compute_range[1]  # no budget matters here
    return compare(fits, compute=compute, rng=rng, **options).decompose(*names, pass_rate)
