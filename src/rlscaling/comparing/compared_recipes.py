"""Which recipe to bet on: pass rates at a budget, ceilings, exponents, crossovers, with how sure each is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.comparing.common_ceiling import MOST_RUNS, CommonCeiling, refit_with_common_ceiling
from rlscaling.comparing.crossover import Crossover, Multiplier
from rlscaling.comparing.joint_fit import JointData
from rlscaling.comparing.pairwise import DECIDED, PairVerdict, PairwiseDifferences, pairwise_differences
from rlscaling.comparing.recipe_estimate import RecipeEstimate, Scope
from rlscaling.comparing.two_recipes import PairComparison, compare_pair, crossover, multiplier
from rlscaling.errors import FitError
from rlscaling.fitting.budgets import check_budgets, supported_beyond
from rlscaling.solver.intervals import percentile_interval, probability_above, probability_best
from rlscaling.uncertainty.seed_spread import SeedSpread


@dataclass(frozen=True, eq=False, repr=False)
class ComparedRecipes:
    """The numbers of a comparison: recipes compared on the same draws.

    Attributes
    ----------
    recipes : tuple of RecipeEstimate
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

    recipes: tuple[RecipeEstimate, ...]
    at: tuple[float, ...]
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
    def names(self) -> tuple[str, ...]:
        """Names of the recipes, in order."""
        return tuple(recipe.name for recipe in self.recipes)

    def recipe(self, name: str) -> RecipeEstimate:
        """Return a recipe by name."""
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
        """Probability of being the best at the first budget, by recipe; nan for those whose runs are no sigmoid."""
        return self.probability_best()

    @cached_property
    def contenders(self) -> tuple[RecipeEstimate, ...]:
        """The recipes whose curve can be carried to a budget: not flat, falling or a misfit. All, where none can."""
        return tuple(recipe for recipe in self.recipes if recipe.verdict.has_curve) or self.recipes

    def probability_best(self, at: float | None = None, *, new_run: bool = False) -> dict[str, float]:
        """Return the probability of being the best of the contenders at ``at``, or of a new run of each being it."""
        C, of = np.array([[self._budget(at)]]), Scope.NEW_RUN if new_run else Scope.RECIPE
        p = probability_best(np.array([recipe.curves(C, of)[:, 0] for recipe in self.contenders]))
        found = {recipe.name: value for recipe, value in zip(self.contenders, p.tolist(), strict=True)}
        return {name: found.get(name, math.nan) for name in self.names}

    def probability_better(self, x: str, y: str, at: float | None = None, *, new_run: bool = False) -> float:
        """Return the probability that ``x`` has the higher pass rate at ``at`` (default: the first budget).

        ``new_run=True``: that a new run of ``x`` beats a new run of ``y``.
        """
        first, second = self._two(x, y)
        C, of = np.array([[self._budget(at)]]), Scope.NEW_RUN if new_run else Scope.RECIPE
        return float(probability_above(first.curves(C, of)[:, 0] - second.curves(C, of)[:, 0]))

    def _budget(self, at: float | None) -> float:
        return self.at[0] if at is None else float(check_budgets(self.recipes[0].fits[0], at)[0])

    @cached_property
    def leader(self) -> str:
        """The recipe most likely best at the first budget."""
        return max(self.contenders, key=lambda one: (self.best[one.name], float(one.predict(self.at[0])))).name

    @property
    def decided(self) -> bool:
        """Whether a recipe whose curve can be carried to the first budget leads there with probability 0.95 or more."""
        return self.recipe(self.leader).verdict.has_curve and self.best[self.leader] >= DECIDED

    @cached_property
    def R_pairs(self) -> PairwiseDifferences:
        """Differences of the pass rate at the first budget, of all pairs."""
        C = np.array([[self.at[0]]])
        estimate = np.array([float(recipe.predict(self.at[0])) for recipe in self.recipes])
        draws = np.array([recipe.curves(C, Scope.RECIPE)[:, 0] for recipe in self.recipes])
        family = np.array([recipe.verdict.has_curve for recipe in self.recipes])
        return self._differences(estimate, draws, family)

    # --- ceilings and exponents ----------------------------------------------------------------------------

    @cached_property
    def A_pairs(self) -> PairwiseDifferences:
        """Differences of the ceiling, of all pairs."""
        estimate = np.array([recipe.summary["A"] for recipe in self.recipes])
        draws = np.array([recipe.ceilings(Scope.RECIPE) for recipe in self.recipes])
        return self._differences(estimate, draws, np.array([recipe.known for recipe in self.recipes]))

    def _differences(self, estimate: Array, draws: Array, family: Any) -> PairwiseDifferences:
        return pairwise_differences(estimate, draws, family, margin=self.margin, confidence_level=self.confidence_level)

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
        known = [recipe for recipe in self.recipes if recipe.known]
        if not known:
            return ()
        top = max(known, key=lambda recipe: recipe.summary["A"]).name
        return tuple(
            recipe.name for recipe in known if recipe.name == top or self.verdict(recipe.name, top) is PairVerdict.EQUAL
        )

    @cached_property
    def common_ceiling(self) -> CommonCeiling | None:
        """The paper's rule: recipes whose ceilings equal the highest, refitted together; None if it stands alone."""
        highest = sorted(self.leaders_by_A, key=lambda name: -self.recipe(name).summary["A"])[:MOST_RUNS]
        chosen = [name for name in self.names if name in highest]
        return self.with_common_ceiling(*chosen) if len(chosen) > 1 else None

    def with_common_ceiling(self, *names: str) -> CommonCeiling:
        """Refit the named recipes (default: all) with one ceiling, re-estimated in every draw."""
        chosen = names or self.names
        if len(set(chosen)) < 2:
            raise FitError(f"a common ceiling needs two recipes or more of {', '.join(self.names)}")
        numbers, start = {}, 0
        for recipe in self.recipes:
            numbers[recipe.name] = range(start, start + recipe.n_seeds)
            start += recipe.n_seeds
        recipes = [self.recipe(name) for name in chosen]
        runs = [i for recipe in recipes for i in numbers[recipe.name]]
        R0 = None if self.R0 is None or self.R0_draws is None else (self.R0, self.R0_draws)
        return refit_with_common_ceiling(recipes, self.group, runs, R0, self.confidence_level)

    # --- two recipes ---------------------------------------------------------------------------------------

    def crossover(self, x: str, y: str) -> Crossover:
        """Return where the curves of two recipes cross, with its interval."""
        return crossover(*self._two(x, y), self.at, self.confidence_level, self.compute_unit)

    def multiplier(self, x: str, y: str, pass_rate: float | None = None) -> Multiplier:
        """Return how many times the compute of ``x`` recipe ``y`` needs to reach ``pass_rate``.

        By default the pass rate that both have reached at the end of their common compute.
        """
        return multiplier(*self._two(x, y), pass_rate, self.confidence_level)

    def pair(self, x: str, y: str) -> PairComparison:
        """Return everything the comparison says about two recipes."""
        verdicts = self.verdict(x, y), self.verdict(x, y, on="R")
        return compare_pair(*self._two(x, y), self.at, self.margin, self.confidence_level, verdicts)

    # --- tables --------------------------------------------------------------------------------------------

    def supported(self, name: str, at: float) -> bool:
        """Return whether a number may be given for a recipe at a budget."""
        recipe = self.recipe(name)
        return at / recipe.last_compute <= supported_beyond(recipe.verdict)

    def interval(self, draws: Array) -> tuple[float, float]:
        """Return the interval of some draws at the level of the comparison."""
        low, high = percentile_interval(draws, self.confidence_level)
        return float(low), float(high)
