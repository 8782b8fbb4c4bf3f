"""`allocate`: a budget split over candidate recipes, which to extend and which to drop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.errors import FitError
from rlscaling.fitting.budgets import check_budgets
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.standing import standing
from rlscaling.fitting.strays import without_strays
from rlscaling.fitting.verdict import Verdict
from rlscaling.forecasting.extrapolate import extrapolate
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import number, plus_minus, rough, unit_text
from rlscaling.solver.intervals import half_width_68, probability_best
from rlscaling.uncertainty.combined import N_DRAWS
from rlscaling.validation import RngLike, entropy_of, renamed

DROP = 0.05  # probability of being the best below which a recipe gets nothing
LEAST_GAP = 0.25  # of a recipe's own error: a tie gets a finite share


@dataclass(frozen=True)
class RecipeAllocation:
    """One recipe's share: pass rate where it is decided, its error, probability of being best, compute to add.

    A run that is flat, falling or no sigmoid, as ``verdict`` says, has the pass rate at which it stands.
    """

    recipe: str
    pass_rate: float
    error: float
    best: float
    compute: float
    verdict: Verdict

    @property
    def stands_above(self) -> bool:
        """Whether it gets nothing, since it is not extrapolated, but may stand higher than the others will."""
        return not self.verdict.has_curve and self.best >= DROP


@dataclass(frozen=True, repr=False)
class Allocation(Document):
    """A budget split over recipes, the likely best first; a share of 0 says to drop the recipe."""

    shares: tuple[RecipeAllocation, ...]
    budget: float
    at: float
    compute_unit: str
    rng_seed: int
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """Which recipes to extend and which to drop, in a sentence."""
        kept = [f"{s.recipe} by {rough(s.compute)}" for s in self.shares if s.compute > 0]
        dropped = [s.recipe for s in self.shares if s.compute == 0 and not s.stands_above]
        above = [f"{s.recipe} ({s.verdict}) at {number(s.pass_rate, 3)}" for s in self.shares if s.stands_above]
        text = f"extend {', '.join(kept)} {unit_text(self.compute_unit)}"
        if above:
            text = f"the others may never pass {', '.join(above)}, which is not extrapolated; of them {text}"
        return text + (f"; drop {', '.join(dropped)}" if dropped else "")

    def tables(self) -> list[Table]:
        """Return the table."""
        return [Table.of(self._header(), self._rows())]

    def footnotes(self) -> list[str]:
        """Return the notes."""
        return [f"note: {note}" for note in self.notes]

    def _rows(self) -> list[list[str]]:
        """Return one row per recipe as text."""
        return [
            [
                s.recipe,
                plus_minus(s.pass_rate, s.error),
                f"{s.best:.2f}",
                number(s.compute) if s.compute else f"{s.verdict}, keep" if s.stands_above else "drop",
            ]
            for s in self.shares
        ]

    def _header(self) -> list[str]:
        return ["", f"R at {number(self.at)}", "P(best)", f"extend by ({unit_text(self.compute_unit)})"]

    def _record(self) -> dict[str, Any]:
        return {
            "headline": self.headline, "budget": self.budget, "at": self.at, "compute_unit": self.compute_unit,
            "shares": [asdict(share) for share in self.shares], "rng_seed": self.rng_seed, "notes": self.notes,
        }  # fmt: skip


@renamed(at="compute")
def allocate(
    fits: Mapping[str, SigmoidFit], budget: float, *, compute: float | None = None, rng: RngLike = None
) -> Allocation:
    """Split a budget over candidate recipes so that the best at ``compute`` is found with the highest probability.

    Recipes that are the best in less than 5 % of the draws are dropped. A run that is flat, falling or no sigmoid gets
    nothing, and counts at the level where it stands: the result says if the others may never pass it. The rest share
    the budget by the rule of optimal computing budget allocation (Chen, Lin, Yücesan and Chick 2000): in proportion to
    ``(error / gap)^2``, with ``gap`` the distance from the leader, and the leader to
    ``error sqrt(sum (share / error)^2)``.

    Parameters
    ----------
    fits : mapping of str to SigmoidFit
        Two runs or more, in one unit.
    budget : float
        Compute to spend, in that unit.
    compute : float, optional
        At which the recipes are compared. Default 100,000 GPU-hours; other units have no default.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.

    Returns
    -------
    Allocation

    Raises
    ------
    FitError
        With fewer than two runs, mixed units, a budget that is not positive, or no run that follows a sigmoid.

    Examples
    --------
    >>> from rlscaling import allocate, datasets, fit_trace
    >>> demo = datasets.load_demo()
    >>> fits = {name: fit_trace(demo[name]) for name in ("scalerl", "batch-512")}
    >>> round(sum(share.compute for share in allocate(fits, 10_000, rng=0).shares))
    10000
    """
    if not isinstance(fits, Mapping) or len(fits) < 2:
        raise FitError("allocate takes two recipes or more, by name: {'a': fit_a, 'b': fit_b}")
    units = sorted({fit.compute_unit for fit in fits.values()})
    if len(units) > 1:
        raise FitError(f"compute is in {' and '.join(units)}; give runs in one unit")
    repaired = {name: found for name, fit in fits.items() if (found := without_strays(fit)) is not None}
    fits = {name: repaired[name].fit if name in repaired else fit for name, fit in fits.items()}
    first = next(iter(fits.values()))
    total = float(check_budgets(first, budget, option="budget=")[0])
    target = float(check_budgets(first, compute, option="compute=")[0])
    entropy = entropy_of(rng)
    has_curve = np.array([fit.verdict.has_curve for fit in fits.values()])
    if not has_curve.any():
        raise FitError("every run is flat, falling or no sigmoid: none of them says what more compute would bring")
    draws = np.array([_draws(fit, target, np.random.SeedSequence([entropy, k])) for k, fit in enumerate(fits.values())])
    best, middle = probability_best(draws), np.median(draws, axis=1)
    among_curves = np.zeros(len(draws))
    among_curves[has_curve] = probability_best(draws[has_curve])
    error = np.maximum([half_width_68(row) for row in draws], 1e-12)
    added = total * _shares(middle, error, among_curves)
    order = np.argsort(-best, kind="stable")
    names = list(fits)
    shares = tuple(
        RecipeAllocation(
            names[k], float(middle[k]), float(error[k]), float(best[k]), float(added[k]), fits[names[k]].verdict
        )
        for k in order
    )
    notes = tuple(f"{name} takes part {found.sentence}" for name, found in repaired.items())
    return Allocation(shares, total, target, units[0], entropy, notes)


def _draws(fit: SigmoidFit, target: float, seed: np.random.SeedSequence) -> Array:
    """Return draws of the pass rate at ``target``, or of the level at which a run without a curve stands."""
    if fit.verdict.has_curve:
        return extrapolate(fit, target, rng=seed, track_record=False).distribution[:, 0]
    level, error = standing(fit, target)
    return np.asarray(level + error * np.random.default_rng(seed).standard_normal(N_DRAWS))


def _shares(middle: Array, error: Array, best: Array) -> Array:
    """Return the share of each recipe; they add up to 1."""
    leader = int(np.argmax(best))
    kept = best >= DROP
    kept[leader] = True
    gap = np.maximum(np.abs(middle - middle[leader]), LEAST_GAP * error)
    share = np.where(kept, (error / gap) ** 2, 0.0)
    share[leader] = 0.0
    share[leader] = error[leader] * math.sqrt(float(np.sum((share / error) ** 2))) or 1.0
    return np.asarray(share / share.sum())
