"""One recipe in a comparison: its curve and its ceiling with their draws, for these training runs and for new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.comparing.joint_fit import JointFit
from rlscaling.curves.sigmoid import gain_share, sigmoid, sigmoid_reach
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import THRESHOLDS, Verdict, grade
from rlscaling.solver.departures import Departures
from rlscaling.solver.fitted_model import FittedModel, score_range, score_scale
from rlscaling.solver.intervals import percentile_interval
from rlscaling.solver.resampling import Replicates
from rlscaling.uncertainty.combined import Outlook, combine, outlook_of_posterior
from rlscaling.uncertainty.seed_spread import SeedSpread

LAST_FEW = 3  # evaluations whose mean is the level of a run
WORST_FIRST = (Verdict.MISFIT, Verdict.FALLING, Verdict.FLAT, Verdict.GIVEN)


class Scope(StrEnum):
    """What a statement is about: the recipe, of which its training runs are a sample, or a new run of it."""

    RECIPE = "the recipe"
    NEW_RUN = "a new run"


@dataclass(frozen=True, eq=False)
class RecipeEstimate:
    """A recipe with the fits of its training runs at the R0 of the comparison.

    Attributes
    ----------
    fits : tuple of SigmoidFit
        One per training run, as passed to `compare`.
    params : array of shape (runs, 4)
        ``A, B, C_mid, R0`` at the R0 of the comparison.
    refits, draws : arrays of shape (runs, size, 4)
        The same parameters in each draw; in ``draws`` the departures of the ceiling are added to ``A``.
    departures : tuple of Departures or None
        How far each run lies off its refits, within its data and beyond.
    spread, unit : arrays of shape (size,)
        Between-seed standard deviation of ``A`` in each draw, and standard normal numbers of this recipe.
    entropies : tuple of int
        Seeds of the forecasts of each run.
    verdict : Verdict
        On its ceiling: the verdict of the fit, or that of several training runs together.
    """

    name: str
    fits: tuple[SigmoidFit, ...]
    params: Array
    refits: Array
    draws: Array
    departures: tuple[Departures | None, ...]
    spread: Array
    unit: Array
    entropies: tuple[int, ...]
    verdict: Verdict

    @property
    def n_seeds(self) -> int:
        """Number of training runs."""
        return len(self.fits)

    @property
    def identified(self) -> bool:
        """Whether its ceiling is identified, to a half-width of 0.10 or better."""
        return self.verdict in THRESHOLDS

    @property
    def last_compute(self) -> float:
        """Compute of the last fitted evaluation of its longest run."""
        return max(fit.compute_range[1] for fit in self.fits)

    def _shifted(self, scope: Scope) -> Array:
        """Return the draws with ``A`` shifted by the between-seed spread within its bounds, shape (runs, size, 4)."""
        k = self.n_seeds
        if scope is Scope.RECIPE and k < 2:
            return self.draws  # a single run represents its recipe, as in `bootstrap`
        share = 1.0 / k if scope is Scope.RECIPE else 1.0 + (1.0 / k if k > 1 else 0.0)
        draws = self.draws.copy()
        draws[:, :, 0] += self.spread * np.sqrt(share) * self.unit
        options = self.fits[0].options
        if options.bounded:
            draws[:, :, 0] = np.clip(draws[:, :, 0], draws[:, :, 3], options.A_max)
        return draws

    def ceilings(self, scope: Scope) -> Array:
        """Return ``A`` in each draw, the mean over training runs, shape (size,)."""
        return np.asarray(self._shifted(scope)[:, :, 0].mean(axis=0))

    def curves(self, compute: Array, scope: Scope) -> Array:
        """Return where each draw stands, departures included: the mean over training runs, shape (size, m).

        ``compute`` has the shape (1, m) or (size, 1).
        """
        low, high = score_range(self.fits[0].fitted_model())
        moved = self._shifted(scope)[:, :, 0] - self.draws[:, :, 0]
        runs = []
        for refits, departures, by in zip(self.refits, self.departures, moved, strict=True):
            A, B, C_mid, R0 = (refits[:, j : j + 1] for j in range(4))
            curve = sigmoid(compute, A + by[:, None], B, C_mid, R0)
            runs.append(curve if departures is None else np.clip(curve + departures.at(compute), low, high))
        return np.asarray(np.mean(runs, axis=0))

    def forecast(self, compute: float, scope: Scope) -> Array:
        """Return where each draw stands at ``compute`` by the combined forecast: the mean over runs, shape (size,).

        Within the data of a run it is its curve.
        """
        low, high = score_range(self.fits[0].fitted_model())
        moved = self._shifted(scope)[:, :, 0] - self.draws[:, :, 0]
        runs = []
        for refits, outlook, by in zip(self.refits, self._outlooks(compute), moved, strict=True):
            share = gain_share(np.array([compute]), refits[:, 1:2], refits[:, 2:3])[:, 0]
            runs.append(np.clip(outlook.distribution[:, 0] + by * share, low, high))
        return np.asarray(np.mean(runs, axis=0))

    def expected(self, compute: float) -> float:
        """Return the combined forecast at ``compute``, the mean over training runs."""
        return float(np.mean([outlook.pass_rate[0] for outlook in self._outlooks(compute)]))

    def _outlooks(self, compute: float) -> list[Outlook]:
        """Return the forecast of each run at ``compute``, around its curve at the R0 of the comparison."""
        if compute not in self._known:
            C = np.array([float(compute)])
            own = zip(self.fits, self.params, self.refits, self.departures, self.entropies, strict=True)
            self._known[compute] = [_outlook(C, *of_run) for of_run in own]
        return self._known[compute]

    @cached_property
    def _known(self) -> dict[float, list[Outlook]]:
        return {}

    def level(self, until: float) -> tuple[float, float]:
        """Return the mean of the last three evaluations up to ``until``, over training runs, and its error."""
        means, variances = [], []
        for fit in self.fits:
            model = fit.fitted_model()
            n = max(int(np.searchsorted(model.series.compute, until, side="right")), 1)
            last = model.series.y[max(n - LAST_FEW, 0) : n]
            means.append(float(last.mean()))
            variances.append(model.noise.sd_marginal**2 / len(last))
        return float(np.mean(means)), float(np.sqrt(np.sum(variances)) / len(means))

    def predict(self, compute: ArrayLike) -> Array:
        """Return the fitted curve, the mean over training runs, at ``compute`` (scalar or array)."""
        C = np.asarray(compute, dtype=float)
        runs = [sigmoid(C, *run) for run in self.params]
        return np.asarray(np.mean(runs, axis=0))

    @cached_property
    def summary(self) -> dict[str, float]:
        """``A, B, C_mid, R0`` of the recipe: means over training runs, geometric for ``B`` and ``C_mid``."""
        return dict(zip(("A", "B", "C_mid", "R0"), _mean(self.params[:, None, :])[0].tolist(), strict=True))

    def exponents(self) -> Array:
        """Return ``B`` in each draw, shape (size,)."""
        return np.asarray(np.exp(np.log(self.draws[:, :, 1]).mean(axis=0)))

    def share_compute(self, share: float) -> tuple[float, Array]:
        """Return the compute at which a share of the gain is reached, for the fit and for each draw.

        ``C_p = C_mid (p / (1 - p))**(1 / B)`` does not depend on ``A``.
        """
        odds = np.log(share / (1.0 - share))
        logs = [np.log(p[..., 2]) + odds / p[..., 1] for p in (self.params, self.draws)]
        return float(np.exp(logs[0].mean())), np.exp(logs[1].mean(axis=0))

    def compute_to_reach(self, pass_rate: float) -> tuple[float, Array]:
        """Return the compute at which the fit and each draw reach ``pass_rate``: inf where they never do.

        With several training runs it is the geometric mean over them.
        """
        limits = score_range(self.fits[0].fitted_model())
        own = zip(self.refits, self.departures, strict=True)
        draws = np.array([Replicates(refits, departures, limits).reach(pass_rate) for refits, departures in own])
        reached = [sigmoid_reach(pass_rate, *np.moveaxis(self.params[:, None, :], 2, 0)), draws]
        with np.errstate(divide="ignore", invalid="ignore"):
            means = [np.exp(np.log(r).mean(axis=0)) for r in reached]
        return float(means[0][0]), np.asarray(means[1])


def _outlook(
    C: Array, fit: SigmoidFit, params: Array, refits: Array, departures: Departures | None, entropy: int
) -> Outlook:
    """Return the forecast of a run at ``C`` (1,): combined beyond its data, its curve or level otherwise."""
    low, high = score_range(fit.fitted_model())
    curve = sigmoid(C, *(refits[:, j : j + 1] for j in range(4)))
    draws = curve if departures is None else np.clip(curve + departures.at(C), low, high)
    own = Outlook(sigmoid(C, *params), draws, draws)
    if departures is None or C[0] <= fit.compute_range[1]:
        return own
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(1,)))
    return combine(fit, C, own, lambda: outlook_of_posterior(fit, C, entropy)[0], rng)[0]


def _mean(draws: Array) -> Array:
    """Return the mean over training runs, geometric for B and C_mid, shape (size, 4)."""
    mean = draws.mean(axis=0)
    mean[:, 1:3] = np.exp(np.log(draws[:, :, 1:3]).mean(axis=0))
    return np.asarray(mean)


def estimate_recipes(
    fits_of: dict[str, tuple[SigmoidFit, ...]],
    fitted: JointFit,
    scale: float,
    spread: SeedSpread | float,
    rng: Sequence[np.random.Generator],
) -> list[RecipeEstimate]:
    """Return the recipes of a comparison from the joint fit of their runs, in order.

    The between-seed standard deviation is the same in all recipes: drawn from its distribution where ``spread`` is
    estimated from training runs, else ``spread`` times ``scale``.
    """
    size = fitted.draws.shape[1]
    sd = spread.draw(rng[0], size) if isinstance(spread, SeedSpread) else np.full(size, spread * scale)
    recipes, start = [], 0
    for (name, fits), rng_of_recipe in zip(fits_of.items(), rng[1:], strict=True):
        part = slice(start, start + len(fits))
        start += len(fits)
        verdict = recipe_verdict(fits, fitted.draws[part], scale)
        unit = np.asarray(rng_of_recipe.standard_normal(size))
        entropies = tuple(int(value) for value in rng_of_recipe.integers(2**63, size=len(fits)))
        own = fitted.params[part], fitted.refits[part], fitted.draws[part], fitted.departures[part]
        recipes.append(RecipeEstimate(name, fits, *own, sd, unit, entropies, verdict))
    return recipes


def recipe_verdict(fits: Sequence[SigmoidFit], draws: Array, scale: float) -> Verdict:
    """Return the verdict on a recipe's ceiling.

    With one training run it is the verdict of its fit. With several, a run that is flat, falling or a misfit decides;
    otherwise the interval of their mean ceiling is graded, unless the ceiling of no run is identified.
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
    verdict = grade(float(low), float(high), scale)
    long_enough = Verdict.IDENTIFIED in verdicts  # of which a run of eight C_mid is one condition
    return Verdict.APPROXIMATE if verdict is Verdict.IDENTIFIED and not long_enough else verdict


def scale_of(models: Sequence[FittedModel]) -> float:
    """Return the unit of differences in a comparison: 1 for pass rates, the widest range seen for unbounded scores."""
    return max(score_scale(model) for model in models)
