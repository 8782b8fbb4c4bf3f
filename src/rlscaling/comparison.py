"""Which recipe to bet on: pass rates at a budget, ceilings, exponents, crossovers, with how sure each is."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.bootstrapping import SEED_SD, RngLike, check_seed_sd, entropy_of
from rlscaling.ceilings import MOST_RUNS, CommonCeiling, refit_with_common_ceiling
from rlscaling.cohort import Cohort, R0_notes, check_fixed_R0, cohort
from rlscaling.comparison_frames import pair_frame, recipe_frame
from rlscaling.comparison_text import DECIDED, comparison_html, comparison_json, comparison_text
from rlscaling.crossing import Crossover, Multiplier
from rlscaling.curves import Array
from rlscaling.errors import FitError
from rlscaling.fit import model_of
from rlscaling.forecast import check_budgets, supported_beyond
from rlscaling.intervals import check_level, percentile_interval
from rlscaling.joint import Group, Progress, fit_group
from rlscaling.matches import Match, crossover, match, multiplier
from rlscaling.pairs import Differences, PairVerdict, differences, probability_above, probability_best
from rlscaling.results import SigmoidFit
from rlscaling.rivals import Of, Rival, make_rivals, scale_of
from rlscaling.seeds import SeedSpread, comparable_seeds, spread_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class ComparedRecipes:
    """The numbers of a comparison: recipes compared on the same draws.

    Attributes
    ----------
    rivals : tuple of Rival
        The recipes: parameters and draws at the R0 of the comparison.
    at : tuple of float
        Budgets; the first decides `best` and `probability_better`.
    margin : float
        Ceilings closer than this are equal.
    R0 : float or None
        The shared R0; None where each run has its own.
    spread : SeedSpread or None
        Spread of ``A`` between seeds; None without several seeds.
    seed_sd : float
        What is used then.
    """

    rivals: tuple[Rival, ...]
    at: tuple[float, ...]
    margin: float
    R0: float | None
    R0_draws: Array | None
    spread: SeedSpread | None
    group: Group
    compute_unit: str
    common_compute: tuple[float, float]
    confidence_level: float
    seed_sd: float
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the recipes, in order."""
        return tuple(rival.name for rival in self.rivals)

    def rival(self, name: str) -> Rival:
        """Return a recipe by name."""
        return self.rivals[self._index(name)]

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise FitError(f"{name!r} is none of the compared recipes: {', '.join(self.names)}")
        return self.names.index(name)

    def _two(self, x: str, y: str) -> tuple[Rival, Rival]:
        if x == y:
            raise FitError(f"{x!r} is compared with itself; name two recipes of {', '.join(self.names)}")
        return self.rival(x), self.rival(y)

    # --- at a budget ---------------------------------------------------------------------------------------

    @cached_property
    def best(self) -> dict[str, float]:
        """Probability of being the best at the first budget, by recipe; nan for those whose runs are no sigmoid."""
        return self.probability_best()

    @cached_property
    def contenders(self) -> tuple[Rival, ...]:
        """The recipes whose curve can be carried to a budget: not flat, falling or a misfit. All, where none can."""
        return tuple(rival for rival in self.rivals if rival.verdict.has_curve) or self.rivals

    def probability_best(self, at: float | None = None, *, new_run: bool = False) -> dict[str, float]:
        """Return the probability of being the best of the contenders at ``at``, or of a new run of each being it."""
        C, of = np.array([[self._budget(at)]]), Of.NEW_RUN if new_run else Of.RECIPE
        p = probability_best(np.array([rival.curves(C, of)[:, 0] for rival in self.contenders]))
        found = {rival.name: value for rival, value in zip(self.contenders, p.tolist(), strict=True)}
        return {name: found.get(name, math.nan) for name in self.names}

    def probability_better(self, x: str, y: str, at: float | None = None, *, new_run: bool = False) -> float:
        """Return the probability that ``x`` has the higher pass rate at ``at`` (default: the first budget).

        ``new_run=True``: that a new run of ``x`` beats a new run of ``y``.
        """
        first, second = self._two(x, y)
        C, of = np.array([[self._budget(at)]]), Of.NEW_RUN if new_run else Of.RECIPE
        return float(probability_above(first.curves(C, of)[:, 0] - second.curves(C, of)[:, 0]))

    def _budget(self, at: float | None) -> float:
        return self.at[0] if at is None else float(check_budgets(self.rivals[0].fits[0], at)[0])

    @cached_property
    def leader(self) -> str:
        """The recipe most likely best at the first budget."""
        return max(self.contenders, key=lambda one: (self.best[one.name], float(one.predict(self.at[0])))).name

    @property
    def decided(self) -> bool:
        """Whether a recipe whose curve can be carried to the first budget leads there with probability 0.95 or more."""
        return self.rival(self.leader).verdict.has_curve and self.best[self.leader] >= DECIDED

    @cached_property
    def R_pairs(self) -> Differences:
        """Differences of the pass rate at the first budget, of all pairs."""
        C = np.array([[self.at[0]]])
        estimate = np.array([float(rival.predict(self.at[0])) for rival in self.rivals])
        draws = np.array([rival.curves(C, Of.RECIPE)[:, 0] for rival in self.rivals])
        family = np.array([rival.verdict.has_curve for rival in self.rivals])
        return self._differences(estimate, draws, family)

    # --- ceilings and exponents ----------------------------------------------------------------------------

    @cached_property
    def A_pairs(self) -> Differences:
        """Differences of the ceiling, of all pairs."""
        estimate = np.array([rival.summary["A"] for rival in self.rivals])
        draws = np.array([rival.ceilings(Of.RECIPE) for rival in self.rivals])
        return self._differences(estimate, draws, np.array([rival.known for rival in self.rivals]))

    def _differences(self, estimate: Array, draws: Array, family: Any) -> Differences:
        return differences(estimate, draws, family, margin=self.margin, confidence_level=self.confidence_level)

    def verdict(self, x: str, y: str, *, on: str = "A") -> PairVerdict:
        """Return how ``x`` stands to ``y``: ``higher``, ``lower``, ``equal`` (within the margin) or ``undecided``.

        ``on="A"`` the ceiling: undecided whenever one of them is not identified. ``on="R"`` the pass rate at the
        first budget. Errors are controlled over all pairs.
        """
        if on not in ("A", "R"):
            raise FitError(f'on={on!r} is unknown; choose "A" (the ceiling) or "R" (the pass rate at the budget)')
        self._two(x, y)
        pairs = self.A_pairs if on == "A" else self.R_pairs
        return pairs.verdict(self._index(x), self._index(y))

    @cached_property
    def leaders_by_A(self) -> tuple[str, ...]:
        """The recipe with the highest known ceiling and all that are equal to it; empty when none is known."""
        known = [rival for rival in self.rivals if rival.known]
        if not known:
            return ()
        top = max(known, key=lambda rival: rival.summary["A"]).name
        return tuple(
            rival.name for rival in known if rival.name == top or self.verdict(rival.name, top) is PairVerdict.EQUAL
        )

    @cached_property
    def common_ceiling(self) -> CommonCeiling | None:
        """The paper's rule: recipes whose ceilings equal the highest, refitted together; None if it stands alone."""
        highest = sorted(self.leaders_by_A, key=lambda name: -self.rival(name).summary["A"])[:MOST_RUNS]
        chosen = [name for name in self.names if name in highest]
        return self.with_common_ceiling(*chosen) if len(chosen) > 1 else None

    def with_common_ceiling(self, *names: str) -> CommonCeiling:
        """Refit the named recipes (default: all) with one ceiling, re-estimated in every draw."""
        chosen = names or self.names
        if len(set(chosen)) < 2:
            raise FitError(f"a common ceiling needs two recipes or more of {', '.join(self.names)}")
        numbers, start = {}, 0
        for rival in self.rivals:
            numbers[rival.name] = range(start, start + rival.n_seeds)
            start += rival.n_seeds
        rivals = [self.rival(name) for name in chosen]
        runs = [i for rival in rivals for i in numbers[rival.name]]
        R0 = None if self.R0 is None or self.R0_draws is None else (self.R0, self.R0_draws)
        return refit_with_common_ceiling(rivals, self.group, runs, R0, self.confidence_level)

    # --- two recipes ---------------------------------------------------------------------------------------

    def crossover(self, x: str, y: str) -> Crossover:
        """Return where the curves of two recipes cross, with its interval."""
        return crossover(*self._two(x, y), self.at, self.confidence_level, self.compute_unit)

    def multiplier(self, x: str, y: str, pass_rate: float | None = None) -> Multiplier:
        """Return how many times the compute of ``x`` recipe ``y`` needs to reach ``pass_rate``.

        By default the pass rate that both have reached at the end of their common compute.
        """
        return multiplier(*self._two(x, y), pass_rate, self.confidence_level)

    def match(self, x: str, y: str) -> Match:
        """Return everything the comparison says about two recipes."""
        verdicts = self.verdict(x, y), self.verdict(x, y, on="R")
        return match(*self._two(x, y), self.at, self.margin, self.confidence_level, verdicts)

    # --- tables --------------------------------------------------------------------------------------------

    def supported(self, name: str, at: float) -> bool:
        """Return whether a number may be given for a recipe at a budget."""
        rival = self.rival(name)
        return at / rival.last_compute <= supported_beyond(rival.verdict)

    def interval(self, draws: Array) -> tuple[float, float]:
        """Return the interval of some draws at the level of the comparison."""
        low, high = percentile_interval(draws, self.confidence_level)
        return float(low), float(high)


class Comparison(ComparedRecipes):
    """Recipes compared on the same draws; its attributes are those of `ComparedRecipes`."""

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a recipe: verdict, pass rate and P(best) at the first budget, parameters at the common R0."""
        return recipe_frame(self)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """One row a pair: differences, probabilities and verdicts on the pass rate at the first budget and on A."""
        return pair_frame(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready values (without the draws)."""
        return comparison_json(self)

    def __str__(self) -> str:
        return comparison_text(self)

    def __repr__(self) -> str:
        return f"Comparison({self.leader} best at {self.at[0]:g} with probability {self.best[self.leader]:.3g})"

    def _repr_html_(self) -> str:
        return comparison_html(self)


def compare(
    fits: Mapping[str, SigmoidFit | Sequence[SigmoidFit]],
    *,
    margin: float = 0.02,
    at: ArrayLike | None = None,
    shared_R0: bool = True,
    rng: RngLike = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed_sd: float = SEED_SD,
    device_factors: Mapping[str, float] | None = None,
    on_progress: Progress | None = None,
) -> Comparison:
    """Compare recipes: which to bet on at a budget, whose ceiling is higher, and how sure that is.

    Parameters
    ----------
    fits : mapping of str to SigmoidFit or sequence of SigmoidFit
        By recipe; several fits are seeds of one recipe.
    margin : float
        Ceilings closer than this are equal [ScaleRL, 2.1]. For unbounded scores a share of their range.
    at : float or array-like, optional
        Budgets, the one that decides first. Default 100,000 GPU-hours; other units have no default.
    shared_R0 : bool
        Refit all runs with one R0: they start from the same model. False where they do not; then ``B`` and ``C_mid``
        cannot be compared.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers, in whatever order the recipes are given.
    n_resamples : int
        Draws.
    confidence_level : float
        Of the intervals; one less it is the family-wise error of the verdicts.
    seed_sd : float
        Spread of ``A`` between seeds of one recipe where none has several. For unbounded scores a share of their range.
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
        For runs that cannot be compared: other units or devices, no common compute, a run given twice, too few points.

    Warns
    -----
    RLScalingWarning
        Where runs may differ in a way that the numbers do not show: number of devices, base model.

    Notes
    -----
    A recipe with two seeds or more is judged by its seeds: their mean, with the spread between seeds, which is
    estimated from all recipes that have several. A recipe with one is judged by that run; probabilities for new runs
    stand beside. A ceiling that is not identified is never called higher or lower.

    Examples
    --------
    >>> from rlscaling import compare, datasets, fit_trace
    >>> demo = datasets.load_demo()
    >>> comparison = compare({name: fit_trace(demo[name]) for name in ("scalerl", "batch-2048")}, rng=0)
    >>> comparison.leader, str(comparison.verdict("scalerl", "batch-2048"))
    ('batch-2048', 'lower')
    """
    runs = cohort(fits, device_factors=device_factors)
    first = next(iter(runs.recipes.values()))[0]
    budgets = tuple(check_budgets(first, at, option="at= (--at)").tolist())
    return compare_cohort(
        runs, budgets, margin=margin, shared_R0=shared_R0, rng=rng, n_resamples=n_resamples,
        confidence_level=confidence_level, seed_sd=seed_sd, on_progress=on_progress,
    )  # fmt: skip


def compare_cohort(
    runs: Cohort, budgets: tuple[float, ...], *, margin: float, shared_R0: bool, rng: RngLike, n_resamples: int,
    confidence_level: float, seed_sd: float, on_progress: Progress | None,
) -> Comparison:  # fmt: skip
    """Compare recipes that passed `cohort`: as `compare`."""
    level = check_level(confidence_level)
    _check_numbers(margin, n_resamples)
    check_seed_sd(seed_sd)
    models = tuple(model_of(fit) for recipe in runs.recipes.values() for fit in recipe)
    entropy = entropy_of(rng)
    group = Group(models, _keys(runs), n_resamples, entropy)
    if shared_R0:
        check_fixed_R0(runs)
    has_curve = np.array([fit.verdict.has_curve for recipe in runs.recipes.values() for fit in recipe])
    fitted = fit_group(group, shared_R0=shared_R0, has_curve=has_curve, on_progress=on_progress)
    scale = scale_of(models)
    spread = _spread(runs, fitted.params, fitted.draws)
    keys = [(4,), *((5, zlib.crc32(name.encode())) for name in runs.recipes)]
    streams = [np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key)) for key in keys]
    rivals = make_rivals(
        runs.recipes, fitted.params, fitted.draws, scale, seed_sd if spread is None else spread, streams
    )
    notes = [*runs.notes, *R0_notes(runs, fitted.R0, fitted.R0_free, fitted.R0_error, scale)]
    return Comparison(
        tuple(rivals), budgets, float(margin) * scale, fitted.R0, fitted.R0_draws, spread, group, runs.compute_unit,
        runs.common_compute, level, seed_sd, entropy, tuple(notes),
    )  # fmt: skip


def _check_numbers(margin: float, n_resamples: int) -> None:
    if isinstance(margin, bool) or not isinstance(margin, int | float | np.number) or not 0 < margin < np.inf:
        raise FitError(f"margin={margin!r} is not a positive number; 0.02 is the paper's")
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, int | np.integer) or n_resamples < 100:
        raise FitError(f"n_resamples={n_resamples!r} must be a whole number of 100 or more; 1000 is usual")


def _keys(runs: Cohort) -> tuple[tuple[int, ...], ...]:
    """Return what seeds the random numbers of each run: its recipe's name and its place among the seeds."""
    return tuple((zlib.crc32(name.encode()), j) for name, seeds in runs.recipes.items() for j in range(len(seeds)))


def _spread(runs: Cohort, params: Array, draws: Array) -> SeedSpread | None:
    """Return the spread between seeds at the R0 of the comparison, or None where no recipe has two that tell it."""
    known = comparable_seeds(runs.recipes)
    if not known:
        return None
    first = dict(zip(runs.recipes, np.cumsum([0, *map(len, runs.recipes.values())]), strict=False))
    rows = np.array([first[name] + j for name, index in known.items() for j in index])
    names = tuple(runs.recipes[name][j].name or f"{name}-{j + 1}" for name, index in known.items() for j in index)
    low, high = np.quantile(draws[rows][:, :, 0], [0.1587, 0.8413], axis=1)
    return spread_of(known, names, params[rows][:, 0], 0.5 * (high - low))
