"""One recipe in a comparison: its curve, its ceiling and their draws, for these runs and for new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import sigmoid, sigmoid_reach
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict, grade
from rlscaling.solver.fitted_model import FittedModel, score_scale
from rlscaling.solver.intervals import percentile_interval
from rlscaling.uncertainty.seed_spread import SeedSpread

KNOWN = (Verdict.IDENTIFIED, Verdict.APPROXIMATE, Verdict.WEAK)
WORST_FIRST = (Verdict.MISFIT, Verdict.FALLING, Verdict.FLAT, Verdict.GIVEN)


class Scope(StrEnum):
    """What a statement is about: the recipe (its seeds are a sample of it), or a new run of it."""

    RECIPE = "the recipe"
    NEW_RUN = "a new run"


@dataclass(frozen=True, eq=False)
class RecipeEstimate:
    """A recipe with the fits of its seeds at the R0 of the comparison.

    Attributes
    ----------
    fits : tuple of SigmoidFit
        One a seed, as they were given.
    params : array of shape (seeds, 4)
        ``A, B, C_mid, R0`` at the R0 of the comparison.
    draws : array of shape (seeds, size, 4)
        The same of each draw.
    spread, unit : arrays of shape (size,)
        Standard deviation of ``A`` between seeds in each draw, and standard normal numbers of this recipe.
    verdict : Verdict
        What is known about its ceiling: the fit's verdict, or from several seeds together.
    """

    name: str
    fits: tuple[SigmoidFit, ...]
    params: Array
    draws: Array
    spread: Array
    unit: Array
    verdict: Verdict

    @property
    def n_seeds(self) -> int:
        """Number of seeds."""
        return len(self.fits)

    @property
    def known(self) -> bool:
        """Whether anything may be claimed about its ceiling."""
        return self.verdict in KNOWN

    @property
    def last_compute(self) -> float:
        """Compute of the last fitted evaluation of its longest run."""
        return max(fit.compute_range[1] for fit in self.fits)

    def _shifted(self, of: Scope) -> Array:
        """Return the draws with ``A`` moved by the spread between seeds, inside its bounds, shape (seeds, size, 4)."""
        k = self.n_seeds
        if of is Scope.RECIPE and k < 2:
            return self.draws  # a single run stands for its recipe, as in `bootstrap`
        share = 1.0 / k if of is Scope.RECIPE else 1.0 + (1.0 / k if k > 1 else 0.0)
        draws = self.draws.copy()
        draws[:, :, 0] += self.spread * np.sqrt(share) * self.unit
        A_max = self.fits[0].options.A_max
        if np.isfinite(A_max):
            draws[:, :, 0] = np.clip(draws[:, :, 0], draws[:, :, 3], A_max)
        return draws

    def ceilings(self, of: Scope) -> Array:
        """Return ``A`` of each draw, the mean over seeds, shape (size,)."""
        return np.asarray(self._shifted(of)[:, :, 0].mean(axis=0))

    def curves(self, compute: Array, of: Scope) -> Array:
        """Return the curve of each draw, the mean over seeds; ``compute`` of shape (1, m) or (size, 1)."""
        return mean_curve(self._shifted(of), compute)

    def predict(self, compute: ArrayLike) -> Array:
        """Return the fitted curve, the mean over seeds, at ``compute`` (scalar or array)."""
        C = np.asarray(compute, dtype=float)
        return np.asarray(mean_curve(self.params[:, None, :], C.reshape(1, -1))[0].reshape(C.shape))

    @cached_property
    def summary(self) -> dict[str, float]:
        """``A, B, C_mid, R0`` of the recipe: means over seeds, of the logarithm for ``B`` and ``C_mid``."""
        return dict(zip(("A", "B", "C_mid", "R0"), _mean(self.params[:, None, :])[0].tolist(), strict=True))

    def exponents(self) -> Array:
        """Return ``B`` of each draw, shape (size,)."""
        return np.asarray(np.exp(np.log(self.draws[:, :, 1]).mean(axis=0)))

    def share_compute(self, share: float) -> tuple[float, Array]:
        """Return the compute to a share of the gain, of the fit and of each draw.

        ``C_p = C_mid (p / (1 - p))**(1 / B)``: it needs no agreement on ``A``.
        """
        odds = np.log(share / (1.0 - share))
        logs = [np.log(p[..., 2]) + odds / p[..., 1] for p in (self.params, self.draws)]
        return float(np.exp(logs[0].mean())), np.exp(logs[1].mean(axis=0))

    def compute_to_reach(self, pass_rate: float) -> tuple[float, Array]:
        """Return the compute at which the fit and each draw reach ``pass_rate``: inf where they never do.

        With several seeds the geometric mean over them.
        """
        reached = [sigmoid_reach(pass_rate, *np.moveaxis(p, 2, 0)) for p in (self.params[:, None, :], self.draws)]
        with np.errstate(divide="ignore", invalid="ignore"):
            means = [np.exp(np.log(r).mean(axis=0)) for r in reached]
        return float(means[0][0]), np.asarray(means[1])


def mean_curve(draws: Array, compute: Array) -> Array:
    """Return the mean over seeds of their curves: draws (seeds, size, 4), compute (1, m) or (size, 1)."""
    total = np.zeros(np.broadcast_shapes((draws.shape[1], 1), compute.shape))
    for seed in draws:
        total += sigmoid(compute, *(seed[:, j : j + 1] for j in range(4)))
    return total / len(draws)


def _mean(draws: Array) -> Array:
    """Return the mean over seeds, geometric for B and C_mid, shape (size, 4)."""
    mean = draws.mean(axis=0)
    mean[:, 1:3] = np.exp(np.log(draws[:, :, 1:3]).mean(axis=0))
    return np.asarray(mean)


def estimate_recipes(
    fits_of: dict[str, tuple[SigmoidFit, ...]],
    params: Array,
    draws: Array,
    scale: float,
    spread: SeedSpread | float,
    rng: Sequence[np.random.Generator],
) -> list[RecipeEstimate]:
    """Return the recipes of a comparison from the fits and draws of their runs, in order.

    The spread between seeds is drawn from what the seeds say, the same in all recipes; or it is a number, times
    ``scale``.
    """
    size = draws.shape[1]
    sd = spread.draw(rng[0], size) if isinstance(spread, SeedSpread) else np.full(size, spread * scale)
    recipes, start = [], 0
    for (name, fits), own in zip(fits_of.items(), rng[1:], strict=True):
        part = slice(start, start + len(fits))
        start += len(fits)
        verdict = recipe_verdict(fits, draws[part], scale)
        unit = np.asarray(own.standard_normal(size))
        recipes.append(RecipeEstimate(name, fits, params[part], draws[part], sd, unit, verdict))
    return recipes


def recipe_verdict(fits: Sequence[SigmoidFit], draws: Array, scale: float) -> Verdict:
    """Return what is known about a recipe's ceiling.

    One seed has the verdict of its fit. Of several, one whose curve is no sigmoid speaks for all; else the interval
    of their mean ceiling is graded, unless no seed knows its own.
    """
    verdicts = [fit.verdict for fit in fits]
    if len(fits) == 1:
        return verdicts[0]
    for worst in WORST_FIRST:
        if worst in verdicts:
            return worst
    if all(verdict is Verdict.NOT_IDENTIFIED for verdict in verdicts):
        return Verdict.NOT_IDENTIFIED
    low, high = percentile_interval(draws[:, :, 0].mean(axis=0), 0.95)
    return grade(float(low), float(high), fits[0].options.A_max, scale)


def scale_of(models: Sequence[FittedModel]) -> float:
    """Return what 1.0 means in a comparison: 1 for pass rates, the widest observed range for unbounded scores."""
    return max(score_scale(model) for model in models)
