"""`seed_spread`: the standard deviation of the ceiling between training runs of one recipe, its interval, and draws.

It is estimated as between-study variance is in a meta-analysis: the ``A`` of each training run has its own error, and
``Q(tau^2) = sum (A - mean)^2 / (error^2 + tau^2)``, summed over the runs of every recipe, is chi-square with
``runs - recipes`` degrees of freedom at the true ``tau``. Setting it equal to its mean gives the estimate (Paule and
Mandel 1982), to its quantiles the interval (Q-profile, Viechtbauer 2007), to random draws the draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtri

from rlscaling.arrays import Array
from rlscaling.errors import FitError
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import THRESHOLDS, Verdict, check_enough_points, threshold_text
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import number, plus_minus
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.solver.intervals import ConfidenceInterval, half_width_68
from rlscaling.solver.resampling import replicates

if TYPE_CHECKING:
    import pandas as pd


BISECTIONS = 80
N_ERROR, ERROR_SEED = 200, 251013788  # replicates behind the error of a run, and their seed
LEVEL = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class SeedSpread(Document):
    """Standard deviation of ``A`` between training runs of one recipe, pooled over recipes [ScaleRL, 2.1 and Fig. 8a].

    Attributes
    ----------
    sd : float
        Between-seed standard deviation, without the error of each run's own ``A``; 0 when that explains all.
    confidence_interval : ConfidenceInterval
        95 % interval of ``sd``.
    dof : int
        Degrees of freedom: training runs minus recipes.
    names, values, errors, recipe
        Every training run: its name, ``A``, the error of that, and the number of the recipe it belongs to.
    recipes : tuple of str
    """

    sd: float
    confidence_interval: ConfidenceInterval[float]
    dof: int
    names: tuple[str, ...]
    values: Array
    errors: Array
    recipe: tuple[int, ...]
    recipes: tuple[str, ...]

    @property
    def _means(self) -> Array:
        return np.array([self.values[np.array(self.recipe) == k].mean() for k in range(len(self.recipes))])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw standard deviations that the data allow, shape (size,)."""
        groups = _groups(self.values, self.errors, self.recipe)
        return np.sqrt(_tau2(groups, rng.chisquare(self.dof, size)))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per training run: recipe, ``A``, its error, and how far it lies from the recipe's mean."""
        import pandas as pd

        return pd.DataFrame(
            {
                "recipe": [self.recipes[k] for k in self.recipe],
                "A": self.values,
                "standard_error": self.errors,
                "from_mean": self.values - self._means[list(self.recipe)],
            },
            index=pd.Index(self.names, name="seed"),
        )

    def _record(self) -> dict[str, Any]:
        return {
            "sd": self.sd,
            "ci": self.confidence_interval,
            "dof": self.dof,
            "seeds": [
                {"recipe": self.recipes[k], "seed": name, "A": value, "standard_error": error}
                for name, value, error, k in zip(
                    self.names, self.values.tolist(), self.errors.tolist(), self.recipe, strict=True
                )
            ],
        }

    @property
    def headline(self) -> str:
        """The standard deviation and its interval, in a sentence."""
        low, high = self.confidence_interval
        return (
            f"A differs between seeds with sd {number(self.sd, 4)} (95 %: {number(low, 4)} to {number(high, 4)}; "
            f"{self.dof} degrees of freedom, pooled over {len(self.recipes)} "
            f"recipe{'s' if len(self.recipes) > 1 else ''})"
        )

    def tables(self) -> Sequence[Table]:
        """Return the table of the training runs."""
        means = self._means
        rows = [
            [name, self.recipes[k], plus_minus(float(value), float(error)), f"{value - means[k]:+.4f}"]
            for name, k, value, error in zip(self.names, self.recipe, self.values, self.errors, strict=True)
        ]
        return [Table.of(("seed", "recipe", "A", "from mean"), rows)]

    def __repr__(self) -> str:
        return f"SeedSpread(sd={self.sd:.4g}, dof={self.dof})"


def seed_spread(recipes: Mapping[str, Sequence[SigmoidFit]]) -> SeedSpread:
    """Estimate the between-seed standard deviation of ``A``, pooled over all recipes with two training runs or more.

    Parameters
    ----------
    recipes : mapping of str to sequence of SigmoidFit
        The fits of each recipe's training runs. Runs whose ``A`` is not identified to ±0.10 or better are left out, and
        recipes with fewer than two others.

    Returns
    -------
    SeedSpread

    Raises
    ------
    FitError
        When no recipe has two such runs, or a run has no interval.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, seed_spread
    >>> truth = datasets.table1()["scalerl"]
    >>> runs = [datasets.simulate(truth, compute=range(0, 16001, 200), rng=seed) for seed in range(3)]
    >>> spread = seed_spread({"scalerl": [fit_trace(run) for run in runs]})
    >>> spread.dof, spread.confidence_interval[0] < 0.005
    (2, True)
    """
    for name, fits in recipes.items():
        for j, fit in enumerate(fits):
            if len(fits) > 1 and fit.half_width_68 is None:
                check_enough_points(
                    fit.n_points, "for an interval", where=f"{name}, seed {j + 1}: ",
                    remedy="leave it out, or evaluate more often",
                )  # fmt: skip
    identified = comparable_seeds(recipes)
    if not identified:
        within = threshold_text(THRESHOLDS[Verdict.WEAK])
        raise FitError(
            f"no recipe has two seeds whose A is known to {within}, so nothing is known about the spread between "
            "seeds; give a list of fits, or run on"
        )
    fits = [recipes[name][j] for name, index in identified.items() for j in index]
    return spread_of(
        identified,
        tuple(recipes[name][j].name or f"{name}-{j + 1}" for name, index in identified.items() for j in index),
        np.array([fit.A for fit in fits]),
        np.array([own_error(fit.fitted_model()) for fit in fits]),
    )


def own_error(model: FittedModel) -> float:
    """Return the error of ``A`` by the noise of a run alone: what makes equal seeds differ now, not what is to come."""
    draws = replicates(model, "ar1", np.random.default_rng(ERROR_SEED), N_ERROR).parameters
    return half_width_68(draws[:, 0])


def comparable_seeds(recipes: Mapping[str, Sequence[SigmoidFit]]) -> dict[str, list[int]]:
    """Return the runs of each recipe whose ``A`` is identified to ±0.10 or better, where there are two or more.

    A ceiling that is not identified may lie anywhere up to its bound: the difference of two of them means nothing.
    """
    identified = {
        name: [j for j, fit in enumerate(fits) if fit.verdict.half_width is not None] for name, fits in recipes.items()
    }
    return {name: index for name, index in identified.items() if len(index) > 1}


def spread_of(recipes: Mapping[str, Sequence[int]], names: tuple[str, ...], values: Array, errors: Array) -> SeedSpread:
    """Return the spread from the ``A`` of each training run and its error; the runs of a recipe are adjacent."""
    recipe = tuple(k for k, index in enumerate(recipes.values()) for _ in index)
    errors = np.maximum(errors, 1e-9)
    groups = _groups(values, errors, recipe)
    dof = len(values) - len(recipes)
    quantile = 0.5 * (1.0 - LEVEL)
    targets = np.array([float(dof), chdtri(dof, quantile), chdtri(dof, 1.0 - quantile)])  # large Q: small spread
    sd, low, high = np.sqrt(_tau2(groups, targets)).tolist()
    return SeedSpread(sd, ConfidenceInterval(low, high), dof, names, values, errors, recipe, tuple(recipes))


def _groups(values: Array, errors: Array, recipe: Sequence[int]) -> list[tuple[Array, Array]]:
    """Return values and variances of each recipe's training runs."""
    index = np.array(recipe)
    return [(values[index == k], errors[index == k] ** 2) for k in np.unique(index)]


def _tau2(groups: list[tuple[Array, Array]], target: Array) -> Array:
    """Return the variance between seeds at which Q equals each target; 0 where it is smaller already."""
    largest = max(float(np.ptp(values)) for values, _ in groups)
    low, high = np.zeros(len(target)), np.full(len(target), math.log1p(1e12 * max(largest, 1e-12) ** 2 / 1e-18))
    for _ in range(BISECTIONS):  # on a scale that is logarithmic above 1e-18
        middle = 0.5 * (low + high)
        above = _q(groups, 1e-18 * np.expm1(middle)) > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(np.where(_q(groups, np.zeros(1)) <= target, 0.0, 1e-18 * np.expm1(0.5 * (low + high))))


def _q(groups: list[tuple[Array, Array]], tau2: Array) -> Array:
    """Return Q at each variance between seeds."""
    total = np.zeros(len(tau2))
    for values, variance in groups:
        w = 1.0 / (variance + tau2[:, None])
        mean = (w @ values) / w.sum(axis=1)
        total += np.einsum("ts,ts->t", w, (values - mean[:, None]) ** 2)
    return total


SEED_SD = 0.015  # of A between training runs of one recipe [ScaleRL, 2.1], where several runs are not available
