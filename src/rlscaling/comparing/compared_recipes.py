"""`ComparedRecipes`: every number of a comparison, with its uncertainty, and no text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.comparing.common_ceiling import MOST_RUNS, CommonCeiling, refit_with_common_ceiling
from rlscaling.comparing.crossover import Crossover, Multiplier
from rlscaling.comparing.decomposition import Decomposition, decomposition_of
from rlscaling.comparing.joint_fit import JointData
from rlscaling.comparing.pairwise import DECIDED, PairVerdict, PairwiseDifferences, pairwise_differences
from rlscaling.comparing.recipe_estimate import RecipeEstimate, Scope
from rlscaling.comparing.two_recipes import PairComparison, compare_pair, crossover, multiplier
from rlscaling.errors import FitError
from rlscaling.fitting.budgets import check_budgets, supported_beyond
from rlscaling.solver.intervals import percentile_interval, probability_above, probability_best
from rlscaling.uncertainty.seed_spread import SeedSpread
from rlscaling.validation import renamed

PLAINLY = 5.0  # sd between the last evaluations of two recipes


@dataclass(frozen=True, eq=False, repr=False)
class ComparedRecipes:
    """The numbers of a comparison: recipes compared on the same draws.

    Attributes
    ----------
    recipes : tuple of RecipeEstimate
        Parameters and draws of each recipe at the R0 of the comparison.
    compute : tuple of float
        Budgets; `best` and `probability_better` refer to the first.
    margin : float
        Ceilings closer than this count as equal.
    R0 : float or None
        The shared R0; None where each run has its own.
    spread : SeedSpread or None
        Between-seed standard deviation of ``A``, estimated from the recipes with several training runs; None if there
        are none.
    seed_sd : float
        The value that is assumed in that case.
    """

    recipes: tuple[RecipeEstimate, ...]
    compute: tuple[float, ...]
    margin: float
    R0: float | None
    R0_draws: Array | None
    spread: SeedSpread | None
    group: JointData
    compute_unit: str
    common_compute: tuple[float, float]
    confidence_level: float
    seed_sd: float
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def at(self) -> tuple[float, ...]:
        """The same as `compute`, under its old name until 1.0."""
        return self.compute

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the recipes, in order."""
        return tuple(recipe.name for recipe in self.recipes)

    def recipe(self, name: str) -> RecipeEstimate:
        """Return the recipe of that name."""
        return self.recipes[self._index(name)]

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise FitError(f"{name!r} is none of the compared recipes: {', '.join(self.names)}")
        return self.names.index(name)

    def _two(self, x: str, y: str) -> tuple[RecipeEstimate, RecipeEstimate]:
        if x == y:
            raise FitError(f"{x!r} is compared with itself; name two recipes of {', '.join(self.names)}")
        return self.recipe(x), self.recipe(y)

    # --- at a budget ---------------------------------------------------------------------------------------

    @cached_property
    def best(self) -> dict[str, float]:
        """Probability of being the best at the first budget, by recipe; nan for recipes without a rising sigmoid.

        The best is above the levels at which those stand, too.
        """
        return self.probability_best()

    @cached_property
    def contenders(self) -> tuple[RecipeEstimate, ...]:
        """The recipes whose curve can be extrapolated: not flat, falling or a misfit. All recipes if there are none."""
        return tuple(recipe for recipe in self.recipes if recipe.verdict.has_curve) or self.recipes

    @renamed(at="compute")
    def probability_best(self, compute: float | None = None, *, new_run: bool = False) -> dict[str, float]:
        """Return, by recipe, the probability of having the highest pass rate at ``compute``.

        Parameters
        ----------
        compute : float, optional
            Default: the first budget.
        new_run : bool
            Whether a new run of each recipe is meant instead of the recipes as they were trained.
        """
        C, scope = self._budget(compute), Scope.NEW_RUN if new_run else Scope.RECIPE
        p = probability_best(np.array([recipe.forecast(C, scope) for recipe in self.recipes]))
        contenders = [recipe.name for recipe in self.contenders]
        return {
            name: value if name in contenders else math.nan for name, value in zip(self.names, p.tolist(), strict=True)
        }

    @cached_property
    def standing_above(self) -> tuple[str, ...]:
        """Recipes that are not extrapolated, and may stand above what the leader reaches at the first budget.

        Those with a probability of 0.05 or more, the highest first.
        """
        leader = self.recipe(self.leader)
        others = [recipe for recipe in self.recipes if not recipe.verdict.has_curve and recipe is not leader]
        if not leader.verdict.has_curve:
            return ()
        above = [o for o in others if self.probability_better(o.name, leader.name) > 1.0 - DECIDED]
        return tuple(o.name for o in sorted(above, key=lambda o: -o.expected(self.compute[0])))

    @renamed(at="compute")
    def probability_better(self, x: str, y: str, compute: float | None = None, *, new_run: bool = False) -> float:
        """Return the probability that ``x`` has a higher pass rate than ``y`` at ``compute``.

        Parameters
        ----------
        x, y : str
        compute : float, optional
            Default: the first budget.
        new_run : bool
            Whether a new run of ``x`` is compared with a new run of ``y``.
        """
        first, second = self._two(x, y)
        C, scope = self._budget(compute), Scope.NEW_RUN if new_run else Scope.RECIPE
        return float(probability_above(first.forecast(C, scope) - second.forecast(C, scope)))

    def _budget(self, compute: float | None) -> float:
        return self.compute[0] if compute is None else float(check_budgets(self.recipes[0].fits[0], compute)[0])

    @cached_property
    def leader(self) -> str:
        """The recipe that is most likely the best at the first budget."""
        C = self.compute[0]
        return max(self.contenders, key=lambda recipe: (self.best[recipe.name], recipe.expected(C))).name

    @cached_property
    def certainty(self) -> float:
        """The probability that the leader is the best: of new runs where a recipe has one run only.

        One run does not tell what a recipe does: the next one with another seed may come out the other way.
        """
        one_run = any(recipe.n_seeds == 1 for recipe in self.contenders)
        new = self.probability_best(new_run=True)[self.leader] if one_run else 1.0
        return min(self.best[self.leader], new)

    @property
    def decided(self) -> bool:
        """Whether a recipe whose curve can be extrapolated is the best at the first budget, with probability 0.95.

        It is not while another recipe stands above it (`standing_above`, `ahead_so_far`) or is `as_good`.
        """
        hindered = self.standing_above or self.ahead_so_far or self.as_good
        return self.recipe(self.leader).verdict.has_curve and self.certainty >= DECIDED and not hindered

    @cached_property
    def ahead_so_far(self) -> tuple[str, ...]:
        """Recipes whose last evaluations, to the end of the common compute, plainly lie above the leader's.

        By the margin and by 5 sd. A leader whose ceiling is known to ±0.05 may still overtake them by its curve.
        """
        leader = self.recipe(self.leader)
        if leader.verdict.identifies_ceiling or not leader.verdict.has_curve:
            return ()
        end = self.common_compute[1]
        own, own_error = leader.level(end)
        ahead = {}
        for recipe in self.recipes:
            level, error = recipe.level(end)
            if recipe is not leader and level - own >= max(self.margin, PLAINLY * math.hypot(error, own_error)):
                ahead[recipe.name] = level
        return tuple(sorted(ahead, key=lambda name: -ahead[name]))

    @cached_property
    def as_good(self) -> tuple[str, ...]:
        """Recipes whose pass rate at the first budget equals the leader's within the margin."""
        others = [recipe.name for recipe in self.contenders if recipe.name != self.leader]
        return tuple(name for name in others if self.pair_verdict(self.leader, name, on="R") is PairVerdict.EQUAL)

    @cached_property
    def R_pairs(self) -> PairwiseDifferences:
        """Differences of the pass rate at the first budget between all pairs of recipes.

        A recipe that is not extrapolated takes part where its evaluations reach the budget.
        """
        estimate = np.array([recipe.expected(self.compute[0]) for recipe in self.recipes])
        draws = np.array([recipe.forecast(self.compute[0], Scope.RECIPE) for recipe in self.recipes])
        family = [recipe.verdict.has_curve or recipe.last_compute >= self.compute[0] for recipe in self.recipes]
        return self._differences(estimate, draws, np.array(family))

    # --- ceilings and exponents ----------------------------------------------------------------------------

    @cached_property
    def A_pairs(self) -> PairwiseDifferences:
        """Differences of the ceiling between all pairs of recipes."""
        estimate = np.array([recipe.summary["A"] for recipe in self.recipes])
        draws = np.array([recipe.ceilings(Scope.RECIPE) for recipe in self.recipes])
        return self._differences(estimate, draws, np.array([recipe.identified for recipe in self.recipes]))

    @cached_property
    def B_pairs(self) -> PairwiseDifferences:
        """Differences of ``B`` between all pairs of recipes, each with its own ceiling.

        They take each curve for a sigmoid at the shared R0; without a shared R0 no pair is decided.
        """
        return self._of_curves(lambda recipe: (recipe.summary["B"], recipe.exponents()))

    @cached_property
    def C_mid_pairs(self) -> PairwiseDifferences:
        """Differences of log ``C_mid`` between all pairs of recipes, with the assumptions of `B_pairs`."""

        def log_C_mid(recipe: RecipeEstimate) -> tuple[float, Array]:
            value, draws = recipe.share_compute(0.5)
            return math.log(value), np.log(draws)

        return self._of_curves(log_C_mid)

    def _of_curves(self, of: Callable[[RecipeEstimate], tuple[float, Array]]) -> PairwiseDifferences:
        found = [of(recipe) for recipe in self.recipes]
        family = np.array([recipe.verdict.has_curve and self.R0 is not None for recipe in self.recipes])
        return pairwise_differences(
            np.array([value for value, _ in found]), np.array([draws for _, draws in found]), family, margin=0.0,
            confidence_level=self.confidence_level,
        )  # fmt: skip

    def _differences(self, estimate: Array, draws: Array, family: Any) -> PairwiseDifferences:
        return pairwise_differences(estimate, draws, family, margin=self.margin, confidence_level=self.confidence_level)

    def pair_verdict(self, x: str, y: str, *, on: str = "A") -> PairVerdict:
        """Return how ``x`` compares with ``y``: ``higher``, ``lower``, ``equal`` (within the margin) or ``undecided``.

        Parameters
        ----------
        x, y : str
        on : {"A", "R", "B", "C_mid"}
            The ceiling, undecided unless both are identified; the pass rate at the first budget; or the exponent or
            midpoint, each recipe with its own ceiling and all with one R0. The error is controlled over all pairs.
        """
        choices = {"A": "A_pairs", "R": "R_pairs", "B": "B_pairs", "C_mid": "C_mid_pairs"}
        if on not in choices:
            raise FitError(
                f'on={on!r} is unknown; choose "A" (the ceiling), "R" (the pass rate at the budget), "B" or "C_mid"'
            )
        self._two(x, y)
        pairs: PairwiseDifferences = getattr(self, choices[on])
        return pairs.verdict(self._index(x), self._index(y))

    def verdict(self, x: str, y: str, *, on: str = "A") -> PairVerdict:
        """Return `pair_verdict`, under its old name until 1.0."""
        return self.pair_verdict(x, y, on=on)

    @cached_property
    def leaders_by_A(self) -> tuple[str, ...]:
        """The recipe with the highest identified ceiling and all that equal it; empty if none is identified."""
        identified = [recipe for recipe in self.recipes if recipe.identified]
        if not identified:
            return ()
        top = max(identified, key=lambda recipe: float(np.median(recipe.ceilings(Scope.RECIPE)))).name
        names = [recipe.name for recipe in identified]
        return tuple(name for name in names if name == top or self.pair_verdict(name, top) is PairVerdict.EQUAL)

    @cached_property
    def common_ceiling(self) -> CommonCeiling | None:
        """The recipes whose ceilings are not shown to differ from the highest, refitted with one; None if it has none.

        The rule of [ScaleRL, A.5]: where ceilings cannot be told apart, recipes are compared by ``B``.
        """
        curves = [recipe for recipe in self.recipes if recipe.verdict.has_curve]
        if len(curves) < 2:
            return None
        top = self.leaders_by_A[0] if self.leaders_by_A else self.leader
        differ = (PairVerdict.HIGHER, PairVerdict.LOWER)
        similar = [r for r in curves if r.name == top or self.pair_verdict(r.name, top) not in differ]
        highest = sorted(similar, key=lambda recipe: -recipe.summary["A"])[:MOST_RUNS]
        return self.with_common_ceiling(*(r.name for r in similar if r in highest)) if len(similar) > 1 else None

    def with_common_ceiling(self, *names: str) -> CommonCeiling:
        """Refit the named recipes (default: all) with one ceiling, estimated anew in every draw."""
        chosen = names or self.names
        if len(set(chosen)) < 2:
            raise FitError(f"a common ceiling needs two recipes or more of {', '.join(self.names)}")
        runs_of, start = {}, 0
        for recipe in self.recipes:
            runs_of[recipe.name] = range(start, start + recipe.n_seeds)
            start += recipe.n_seeds
        recipes = [self.recipe(name) for name in chosen]
        runs = [i for recipe in recipes for i in runs_of[recipe.name]]
        R0 = None if self.R0 is None or self.R0_draws is None else (self.R0, self.R0_draws)
        return refit_with_common_ceiling(recipes, self.group, runs, R0, self.confidence_level)

    # --- two recipes ---------------------------------------------------------------------------------------

    def crossover(self, x: str, y: str) -> Crossover:
        """Return where the curves of two recipes cross, with its interval."""
        return crossover(*self._two(x, y), self.compute, self.confidence_level, self.compute_unit)

    def multiplier(self, x: str, y: str, pass_rate: float | None = None) -> Multiplier:
        """Return how many times the compute of ``x`` recipe ``y`` needs to reach ``pass_rate``.

        By default the pass rate that both have reached at the end of their common compute.
        """
        return multiplier(*self._two(x, y), pass_rate, self.confidence_level)

    def decompose(self, x: str, y: str, pass_rate: float | None = None) -> Decomposition:
        """Return where the `multiplier` of two recipes comes from: fewer steps, or less compute per step.

        Both ratios have intervals [ScaleRL, A.20]. The traces must say their steps.
        """
        first, second = self._two(x, y)
        return decomposition_of(self.multiplier(x, y, pass_rate), {x: first.fits, y: second.fits}, self.seed)

    def pair(self, x: str, y: str) -> PairComparison:
        """Return all results for two recipes."""
        verdicts = self.pair_verdict(x, y), self.pair_verdict(x, y, on="R")
        return compare_pair(*self._two(x, y), self.compute, self.margin, self.confidence_level, verdicts)

    # --- tables --------------------------------------------------------------------------------------------

    def supported(self, name: str, compute: float) -> bool:
        """Return whether the data support a pass rate of a recipe at ``compute``, and not only an interval."""
        recipe = self.recipe(name)
        return compute / recipe.last_compute <= supported_beyond(recipe.verdict)

    def interval(self, draws: Array) -> tuple[float, float]:
        """Return the interval of draws at the confidence level of the comparison."""
        low, high = percentile_interval(draws, self.confidence_level)
        return float(low), float(high)
