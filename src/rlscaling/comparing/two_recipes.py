"""`PairComparison`: which of two recipes is higher at which compute, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.comparing.crossover import FARTHEST, Crossover, Multiplier, find_crossover
from rlscaling.comparing.pairwise import PairVerdict
from rlscaling.comparing.recipe_estimate import RecipeEstimate, Scope
from rlscaling.printing.document import Document
from rlscaling.printing.numbers import interval, number, unit_text
from rlscaling.solver.intervals import probability_above

SHARES = (0.5, 0.9)  # of the gain: C_mid and C90


@dataclass(frozen=True, eq=False, repr=False)
class PairDifference(Document):
    """A quantity of ``x`` minus that of ``y``: estimate, interval, and the probability that ``x`` is greater."""

    value: float
    low: float
    high: float
    p_greater: float
    p_greater_new_run: float

    @property
    def headline(self) -> str:
        """The difference with its interval, and the probability that it is above 0."""
        return (
            f"difference {number(self.value)} {interval(self.low, self.high)}, above 0 with probability "
            f"{self.p_greater:.2f} ({self.p_greater_new_run:.2f} for new runs)"
        )

    def _record(self) -> dict[str, Any]:
        return {
            "difference": self.value,
            "ci": [self.low, self.high],
            "probability": self.p_greater,
            "probability_new_run": self.p_greater_new_run,
        }


@dataclass(frozen=True, eq=False, repr=False)
class PairComparison(Document):
    """All results of a comparison for two recipes.

    Attributes
    ----------
    pass_rate : dict of float to PairDifference
        By budget; independent of any common ceiling.
    share_ratio : dict of float to (ratio, low, high)
        By share of the gain: the compute at which ``y`` reaches it over that of ``x``; above 1, ``x`` needs less.
    A : PairDifference
    p_within : float
        Probability that the ceilings differ by less than the margin.
    verdict_A, verdict_R : PairVerdict
        On the ceiling and on the pass rate at the first budget, with the error controlled over all pairs.
    multiplier : Multiplier
    crossover : Crossover
    """

    x: str
    y: str
    pass_rate: dict[float, PairDifference]
    share_ratio: dict[float, tuple[float, float, float]]
    A: PairDifference
    p_within: float
    verdict_A: PairVerdict
    verdict_R: PairVerdict
    multiplier: Multiplier
    crossover: Crossover

    @property
    def headline(self) -> str:
        """The verdict on the pass rate at the first budget, and how certain it is."""
        return f"{self.verdict_R}: {self._at(next(iter(self.pass_rate)))}"

    def _at(self, budget: float) -> str:
        R, unit = self.pass_rate[budget], unit_text(self.crossover.compute_unit)
        return (
            f"at {number(budget)} {unit} {self.x} beats {self.y} with probability {R.p_greater:.2f} "
            f"({R.p_greater_new_run:.2f} for new runs): difference {interval(R.low, R.high)}"
        )

    def footnotes(self) -> list[str]:
        """Return a sentence for each further budget, the ceiling, the compute multiplier and the crossover."""
        _, *further = self.pass_rate
        A = (
            f"A of {self.x} against {self.y}: {self.verdict_A} (difference {interval(self.A.low, self.A.high)}, within "
            f"the margin with probability {self.p_within:.2f})"
        )
        return [*map(self._at, further), A, self.multiplier.headline, self.crossover.headline]

    def __repr__(self) -> str:
        return f"PairComparison({self.x}, {self.y}: {self.verdict_R} at the budget, A {self.verdict_A})"

    def _record(self) -> dict[str, Any]:
        return {
            "x": self.x,
            "y": self.y,
            "verdict": str(self.verdict_A),
            "verdict_at": str(self.verdict_R),
            "at": [{"compute": budget, **R.to_dict()} for budget, R in self.pass_rate.items()],
            "A": self.A.to_dict() | {"probability_within_margin": self.p_within},
            "compute_to_share": [
                {"share": share, "ratio": ratio, "ci": [low, high]}
                for share, (ratio, low, high) in self.share_ratio.items()
            ],
            "multiplier": self.multiplier.to_dict(),
            "crossover": self.crossover.to_dict(),
        }


def difference_of(value: float, draws: Array, new_run: Array, tail: float) -> PairDifference:
    """Return a difference from its estimate and its draws for these runs and for new ones."""
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return PairDifference(value, float(low), float(high), *(float(probability_above(d)) for d in (draws, new_run)))


def compare_pair(
    x: RecipeEstimate, y: RecipeEstimate, budgets: tuple[float, ...], margin: float, confidence_level: float,
    verdicts: tuple[PairVerdict, PairVerdict],
) -> PairComparison:  # fmt: skip
    """Compare two recipes in every respect; ``verdicts`` are those on A and on the pass rate at the first budget."""
    tail, unit = 0.5 * (1.0 - confidence_level), x.fits[0].compute_unit
    by_budget = {}
    for C in budgets:
        draws, new = (x.forecast(C, scope) - y.forecast(C, scope) for scope in (Scope.RECIPE, Scope.NEW_RUN))
        by_budget[C] = difference_of(x.expected(C) - y.expected(C), draws, new, tail)
    dA, dA_new = (x.ceilings(scope) - y.ceilings(scope) for scope in (Scope.RECIPE, Scope.NEW_RUN))
    ratios = {}
    for share in SHARES:
        (a, a_draws), (b, b_draws) = x.share_compute(share), y.share_compute(share)
        low, high = np.quantile(b_draws / a_draws, [tail, 1.0 - tail])
        ratios[share] = (b / a, float(low), float(high))
    return PairComparison(
        x.name, y.name, by_budget, ratios,
        difference_of(x.summary["A"] - y.summary["A"], dA, dA_new, tail), float((np.abs(dA) < margin).mean()),
        *verdicts, multiplier(x, y, None, confidence_level), crossover(x, y, budgets, confidence_level, unit),
    )  # fmt: skip


def crossover(
    x: RecipeEstimate, y: RecipeEstimate, budgets: tuple[float, ...], confidence_level: float, unit: str
) -> Crossover:
    """Return where the curves of two recipes cross, between their first fitted evaluation and 1,000 times the data."""
    low = min(fit.compute_range[0] for recipe in (x, y) for fit in recipe.fits)
    if low <= 0:
        low = min(float(fit.data.compute[fit.data.compute > 0][0]) for recipe in (x, y) for fit in recipe.fits)
    high = max(FARTHEST * max(x.last_compute, y.last_compute), *budgets)

    def fitted(compute: Array) -> Array:
        return (x.predict(compute.ravel()) - y.predict(compute.ravel())).reshape(compute.shape)

    def drawn(compute: Array) -> Array:
        return x.curves(compute, Scope.RECIPE) - y.curves(compute, Scope.RECIPE)

    return find_crossover((x.name, y.name), fitted, drawn, (low, high), confidence_level, unit)


def multiplier(x: RecipeEstimate, y: RecipeEstimate, pass_rate: float | None, confidence_level: float) -> Multiplier:
    """Return how many times the compute of ``x`` recipe ``y`` needs to reach a pass rate.

    By default the pass rate that both have reached at the end of their common compute.
    """
    if pass_rate is None:
        common = np.array([min(x.last_compute, y.last_compute)])
        pass_rate = float(min(x.predict(common)[0], y.predict(common)[0]))
    (a, a_draws), (b, b_draws) = x.compute_to_reach(pass_rate), y.compute_to_reach(pass_rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = np.where(a_draws == b_draws, 1.0, b_draws / a_draws)  # both never, or both at once: no difference
        value = 1.0 if a == b else float(np.divide(b, a))
    return Multiplier(x.name, y.name, pass_rate, value, draws, confidence_level)
