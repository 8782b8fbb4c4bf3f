"""Several recipes refitted with one common ceiling, and their exponents compared: the rule of [ScaleRL, A.5, Fig. 7].

Where two ``A`` agree within the margin, the paper refits both with a common ``A`` and compares ``B``. The refit shifts
``B`` whenever the true ceilings differ, even by only 0.01; the shift is therefore part of the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.comparing.joint_fit import JointData, common_ceiling
from rlscaling.comparing.pairwise import PairVerdict, PairwiseDifferences, pairwise_differences
from rlscaling.comparing.recipe_estimate import RecipeEstimate
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import error_decimals, interval, plus_minus
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.solver.intervals import half_width_68, percentile_interval

MOST_LINES = 10
MOST_RUNS = 40  # refitted by default, and at most by lmfit, which differentiates by finite differences


@dataclass(frozen=True, eq=False, repr=False)
class CommonCeiling(Document):
    """Recipes refitted with one ceiling.

    Attributes
    ----------
    names : tuple of str
    A, A_draws : float, array of shape (size,)
        The common ceiling, and its estimate in every draw.
    B, C_mid : arrays of shape (recipes,)
        With the common ceiling.
    B_free : array of shape (recipes,)
        With each recipe's own ceiling.
    B_draws : array of shape (recipes, size)
    report : str
        lmfit's report of the point fit; empty with more than 40 runs.
    shared_R0 : bool
        Whether all recipes share one R0; otherwise their ``B`` are not compared.
    """

    names: tuple[str, ...]
    A: float
    A_draws: Array
    B: Array
    C_mid: Array
    B_free: Array
    B_draws: Array
    C_mid_draws: Array
    confidence_level: float
    report: str
    shared_R0: bool = True

    @property
    def A_interval(self) -> tuple[float, float]:
        """Interval of the common ceiling."""
        low, high = percentile_interval(self.A_draws, self.confidence_level)
        return float(low), float(high)

    @cached_property
    def B_interval(self) -> Array:
        """Interval of each ``B``, shape (recipes, 2)."""
        return percentile_interval(self.B_draws.T, self.confidence_level)

    @property
    def B_shift(self) -> Array:
        """How far the common ceiling shifted each ``B``."""
        return self.B - self.B_free

    @cached_property
    def differences(self) -> PairwiseDifferences:
        """Differences of ``B`` between all pairs of recipes."""
        family = np.full(len(self.names), self.shared_R0)
        return pairwise_differences(self.B, self.B_draws, family, margin=0.0, confidence_level=self.confidence_level)

    def pair_verdict(self, x: str, y: str) -> PairVerdict:
        """Return whether ``B`` of ``x`` is ``higher`` or ``lower`` than that of ``y``, or ``undecided``."""
        return self.differences.verdict(self.names.index(x), self.names.index(y))

    def verdict(self, x: str, y: str) -> PairVerdict:
        """Return `pair_verdict`, under its old name until 1.0."""
        return self.pair_verdict(x, y)

    @property
    def headline(self) -> str:
        """The recipes and their common ceiling."""
        return (
            f"with one common ceiling for {', '.join(self.names)}, "
            f"A = {plus_minus(self.A, half_width_68(self.A_draws))} {interval(*self.A_interval)}"
        )

    def tables(self) -> list[Table]:
        """Return one row per recipe: ``B``, its interval, ``C_mid``, and the shift of ``B``."""
        rows = []
        for k, name in enumerate(self.names):
            error = half_width_68(self.B_draws[k])
            low, high = self.B_interval[k]
            C_error = half_width_68(self.C_mid_draws[k])
            shift = f"{self.B_shift[k]:+.{max(error_decimals(error), 0)}f}"
            rows.append(
                [name, plus_minus(float(self.B[k]), error), interval(low, high),
                 plus_minus(float(self.C_mid[k]), C_error), shift]
            )  # fmt: skip
        return [Table.of(["", "B", f"{100 * self.confidence_level:g} %", "C_mid", "B moved by"], rows)]

    def footnotes(self) -> list[str]:
        """Return one sentence for every difference of ``B`` that is shown; or that none is."""
        if not self.shared_R0:
            return ["B is not compared: each run has its own R0"]
        lines = []
        for x, y, row in self._pairs():
            verdict = self.pair_verdict(x, y)
            if verdict is not PairVerdict.UNDECIDED:
                d = self.differences
                ci = interval(float(d.low[row]), float(d.high[row]))
                lines.append(f"B of {x} is {verdict} than that of {y}: difference {d.difference[row]:+.2f} {ci}")
        if len(lines) > MOST_LINES:
            lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more differences of B"]
        return lines or ["no difference of B is shown"]

    def _pairs(self) -> Iterator[tuple[str, str, int]]:
        """Yield the names of every pair and its row in the differences."""
        d = self.differences
        for row, (i, j) in enumerate(zip(d.first.tolist(), d.second.tolist(), strict=True)):
            yield self.names[i], self.names[j], row

    def _record(self) -> dict[str, Any]:
        recipes = [
            {
                "name": name,
                "B": self.B[k],
                "ci": self.B_interval[k],
                "C_mid": self.C_mid[k],
                "B_own_ceiling": self.B_free[k],
                "B_shift": self.B_shift[k],
            }
            for k, name in enumerate(self.names)
        ]
        d = self.differences
        pairs = [
            {
                "x": x,
                "y": y,
                "difference": d.difference[row],
                "ci": [d.low[row], d.high[row]],
                "verdict": str(self.pair_verdict(x, y)),
            }
            for x, y, row in self._pairs()
        ]
        return {"A": self.A, "ci": self.A_interval, "recipes": recipes, "pairs": pairs, "report": self.report}

    def __repr__(self) -> str:
        return f"CommonCeiling(A={self.A:.4g}, {', '.join(self.names)})"


def refit_with_common_ceiling(
    recipes: Sequence[RecipeEstimate],
    group: JointData,
    runs: Sequence[int],
    R0: tuple[float, Array] | None,
    confidence_level: float,
) -> CommonCeiling:
    """Refit recipes with one ceiling: the point fit by lmfit, every draw by the package's own solver.

    Parameters
    ----------
    recipes : sequence of RecipeEstimate
        The recipes.
    group, runs : JointData, sequence of int
        Where the replicates come from, and the indices in it of the runs of all ``recipes``, in order.
    R0 : (float, array of shape (size,)) or None
        The shared R0 and its draws; None where each run has its own.
    confidence_level : float

    Returns
    -------
    CommonCeiling
    """
    models, averaged = [group.models[i] for i in runs], [group.averaged[i] for i in runs]
    starts = np.median(np.concatenate([recipe.draws[:, :, 0] for recipe in recipes]), axis=0)
    R0_draws = None if R0 is None else R0[1]
    A_draws, params_draws = common_ceiling(averaged, lambda k: group.on_the_law(runs[k]), R0_draws, starts)
    start = np.array([float(np.mean([recipe.summary["A"] for recipe in recipes]))])
    observed = [group.observed(i) for i in runs]
    R0_point = None if R0 is None else np.array([R0[0]])
    A_point, point = common_ceiling(models, observed.__getitem__, R0_point, start, point=True)
    A, params, report = float(A_point[0]), point[:, 0], ""
    if len(runs) <= MOST_RUNS:
        labels = [
            f"{recipe.name}_{j}" if recipe.n_seeds > 1 else recipe.name
            for recipe in recipes
            for j in range(recipe.n_seeds)
        ]
        A, params, report = fit_with_lmfit(models, observed, labels, A, params, free_R0=R0 is None)
    ends = np.cumsum([recipe.n_seeds for recipe in recipes])
    parts = [slice(end - recipe.n_seeds, end) for recipe, end in zip(recipes, ends, strict=True)]
    geometric = [np.exp(np.log(params[part]).mean(axis=0)) for part in parts]
    B_draws, C_draws = (
        np.array([np.exp(np.log(params_draws[part, :, j]).mean(axis=0)) for part in parts]) for j in (1, 2)
    )
    return CommonCeiling(
        tuple(recipe.name for recipe in recipes), A, A_draws, np.array([g[1] for g in geometric]),
        np.array([g[2] for g in geometric]), np.array([recipe.summary["B"] for recipe in recipes]), B_draws, C_draws,
        confidence_level, report, R0 is not None,
    )  # fmt: skip


def fit_with_lmfit(
    models: Sequence[FittedModel], observed: Sequence[Array], labels: Sequence[str], A: float, params: Array,
    *, free_R0: bool,
) -> tuple[float, Array, str]:  # fmt: skip
    """Fit several runs with a shared ``A`` through lmfit, from given starting values.

    Returns ``A``, the parameters of every run, and lmfit's report. The residuals of a run are divided by its long-run
    noise, so that a run with less noise weighs more.
    """
    import lmfit

    shared, first = lmfit.Parameters(), models[0].problem
    shared.add("A", value=A, max=first.A_max, vary=first.A is None)
    keys: list[str] = []
    for k, (model, label) in enumerate(zip(models, labels, strict=True)):
        key = re.sub(r"\W", "_", label)
        keys.append(f"{key}_{k}" if key in keys else key)
        low, high = model.problem.B_bounds
        shared.add(
            f"B_{keys[k]}", value=float(params[k, 1]), min=low, max=high if high > low else np.inf, vary=high > low
        )
        shared.add(f"log_C_mid_{keys[k]}", value=float(np.log(params[k, 2])))
        shared.add(f"R0_{keys[k]}", value=float(params[k, 3]), vary=free_R0 and model.problem.R0 is None)
    scale = [1.0 / max(model.noise.sd_long_run, 1e-12) for model in models]

    def params_of(p: Any, k: int) -> tuple[float, float, float, float]:
        key = keys[k]
        return p["A"].value, p[f"B_{key}"].value, float(np.exp(p[f"log_C_mid_{key}"].value)), p[f"R0_{key}"].value

    def residuals(p: Any) -> Array:
        parts = []
        for k, (model, y) in enumerate(zip(models, observed, strict=True)):
            n = len(model.problem.compute) if free_R0 else model.n
            curve = sigmoid(model.problem.compute[:n], *params_of(p, k))
            parts.append(scale[k] * np.sqrt(model.problem.weights[:n]) * (y[0, :n] - curve))
        return np.concatenate(parts)

    tight = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
    with np.errstate(invalid="ignore", divide="ignore"):  # correlations of a parameter at its bound, which has no error
        result = lmfit.minimize(residuals, shared, method="least_squares", **tight)
    fitted = np.array([params_of(result.params, k) for k in range(len(models))])
    return float(result.params["A"].value), fitted, str(lmfit.fit_report(result, show_correl=False))
