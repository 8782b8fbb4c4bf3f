"""Several recipes with one common ceiling, and the exponents compared there: the paper's rule [ScaleRL, A.5, Fig. 7].

When two ``A`` agree within the margin the paper refits with a common ``A`` and compares ``B``. The refit moves ``B``
wherever the true ceilings differ, if only by a hundredth; so the shift it causes is part of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.comparing.joint_fit import JointData, common_ceiling
from rlscaling.comparing.pairwise import PairVerdict, PairwiseDifferences, pairwise_differences
from rlscaling.comparing.recipe_estimate import RecipeEstimate
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.printing.document import html_table, text_table
from rlscaling.printing.numbers import error_decimals, interval, plus_minus
from rlscaling.serialization import finite
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.solver.intervals import half_width_68, percentile_interval

MOST_LINES = 10
MOST_RUNS = 40  # refitted unless more are asked for; also of lmfit, which differentiates by finite differences


@dataclass(frozen=True, eq=False, repr=False)
class CommonCeiling:
    """Recipes refitted with one ceiling.

    Attributes
    ----------
    names : tuple of str
    A, A_draws : float, array of shape (size,)
        The common ceiling, and the same re-estimated in every draw.
    B, C_mid : arrays of shape (recipes,)
        With the common ceiling.
    B_free : array of shape (recipes,)
        With each recipe's own ceiling.
    B_draws : array of shape (recipes, size)
    report : str
        lmfit's report of the point fit; empty with more than 40 runs.
    shared_R0 : bool
        Whether all are at one R0; else their ``B`` are not compared.
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
        """How far the common ceiling moved each ``B``."""
        return self.B - self.B_free

    @cached_property
    def pairs(self) -> PairwiseDifferences:
        """Differences of ``B`` of all pairs."""
        family = np.full(len(self.names), self.shared_R0)
        return pairwise_differences(self.B, self.B_draws, family, margin=0.0, confidence_level=self.confidence_level)

    def verdict(self, x: str, y: str) -> PairVerdict:
        """Return whether ``B`` of ``x`` is ``higher`` or ``lower`` than that of ``y``, or ``undecided``."""
        i, j = self.names.index(x), self.names.index(y)
        return self.pairs.verdict(i, j)

    def rows(self) -> list[list[str]]:
        """Return one row a recipe: name, B, its interval, C_mid, and the shift of B."""
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
        return rows

    def sentence(self) -> str:
        """Return one sentence on the refit."""
        return (
            f"with one common ceiling for {', '.join(self.names)}, "
            f"A = {plus_minus(self.A, half_width_68(self.A_draws))} {interval(*self.A_interval)}"
        )

    def lines(self) -> list[str]:
        """Return which exponents differ, a sentence each; or that none was shown to."""
        if not self.shared_R0:
            return ["B is not compared: each run has its own R0"]
        p, found = self.pairs, []
        for row, (i, j) in enumerate(zip(p.first.tolist(), p.second.tolist(), strict=True)):
            verdict = self.verdict(self.names[i], self.names[j])
            if verdict is not PairVerdict.UNDECIDED:
                found.append(
                    f"B of {self.names[i]} is {verdict} than that of {self.names[j]}: difference "
                    f"{p.difference[row]:+.2f} {interval(float(p.low[row]), float(p.high[row]))}"
                )
        if len(found) > MOST_LINES:
            found = [*found[:MOST_LINES], f"and {len(found) - MOST_LINES} more differences of B"]
        return found or ["no difference of B is shown"]

    def to_dict(self) -> dict[str, Any]:
        """Return the refit as JSON-ready values."""
        recipes = [
            {
                "name": name,
                "B": finite(self.B[k]),
                "ci": [finite(v) for v in self.B_interval[k]],
                "C_mid": finite(self.C_mid[k]),
                "B_own_ceiling": finite(self.B_free[k]),
                "B_shift": finite(self.B_shift[k]),
            }
            for k, name in enumerate(self.names)
        ]
        p = self.pairs
        pairs = [
            {
                "x": self.names[i],
                "y": self.names[j],
                "difference": finite(p.difference[row]),
                "ci": [finite(p.low[row]), finite(p.high[row])],
                "verdict": str(self.verdict(self.names[i], self.names[j])),
            }
            for row, (i, j) in enumerate(zip(p.first.tolist(), p.second.tolist(), strict=True))
        ]
        return {"A": self.A, "ci": list(self.A_interval), "recipes": recipes, "pairs": pairs, "report": self.report}

    def __repr__(self) -> str:
        return f"CommonCeiling(A={self.A:.4g}, {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        header = ["", "B", f"{100 * self.confidence_level:g} %", "C_mid", "B moved by"]
        return html_table(self.rows(), header, self.sentence(), self.lines())

    def __str__(self) -> str:
        header = ["", "B", f"{100 * self.confidence_level:g} %", "C_mid", "B moved by"]
        return "\n".join([self.sentence(), text_table(self.rows(), header), *(f"  {text}" for text in self.lines())])


def refit_with_common_ceiling(
    recipes: Sequence[RecipeEstimate],
    group: JointData,
    runs: Sequence[int],
    R0: tuple[float, Array] | None,
    confidence_level: float,
) -> CommonCeiling:
    """Refit recipes with one ceiling: the point fit by lmfit, every draw by the project's own solver.

    Parameters
    ----------
    recipes : sequence of RecipeEstimate
        The recipes.
    group, runs : JointData, sequence of int
        Where the replicates come from, and the numbers there of the runs of all ``recipes``, in order.
    R0 : (float, array of shape (size,)) or None
        The shared R0 and its draws.
    confidence_level : float

    Returns
    -------
    CommonCeiling
    """
    models = [group.models[i] for i in runs]
    free = np.concatenate([recipe.draws[:, :, 0] for recipe in recipes])
    starts = np.median(free, axis=0)
    A_draws, drawn = common_ceiling(models, lambda k: group.series(runs[k]), None if R0 is None else R0[1], starts)
    start = np.array([float(np.mean([recipe.summary["A"] for recipe in recipes]))])
    observed = [group.observed(i) for i in runs]
    held = None if R0 is None else np.array([R0[0]])
    found, point = common_ceiling(models, observed.__getitem__, held, start, point=True)
    A, params, report = float(found[0]), point[:, 0], ""
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
    B_draws, C_draws = (np.array([np.exp(np.log(drawn[part, :, j]).mean(axis=0)) for part in parts]) for j in (1, 2))
    return CommonCeiling(
        tuple(recipe.name for recipe in recipes), A, A_draws, np.array([g[1] for g in geometric]),
        np.array([g[2] for g in geometric]), np.array([recipe.summary["B"] for recipe in recipes]), B_draws, C_draws,
        confidence_level, report, R0 is not None,
    )  # fmt: skip


def fit_with_lmfit(
    models: Sequence[FittedModel], observed: Sequence[Array], labels: Sequence[str], A: float, params: Array,
    *, free_R0: bool,
) -> tuple[float, Array, str]:  # fmt: skip
    """Fit several runs with a shared ``A`` through lmfit, from a start; return ``A``, the parameters, the report.

    Residuals are over the long-run noise of their run, so that a quiet run counts for more.
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

    def of(p: Any, k: int) -> tuple[float, float, float, float]:
        key = keys[k]
        return p["A"].value, p[f"B_{key}"].value, float(np.exp(p[f"log_C_mid_{key}"].value)), p[f"R0_{key}"].value

    def residual(p: Any) -> Array:
        parts = []
        for k, (model, y) in enumerate(zip(models, observed, strict=True)):
            n = len(model.problem.compute) if free_R0 else model.n
            curve = sigmoid(model.problem.compute[:n], *of(p, k))
            parts.append(scale[k] * np.sqrt(model.problem.weights[:n]) * (y[0, :n] - curve))
        return np.concatenate(parts)

    tight = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
    with np.errstate(invalid="ignore", divide="ignore"):  # correlations of a parameter without error, at its bound
        result = lmfit.minimize(residual, shared, method="least_squares", **tight)
    fitted = np.array([of(result.params, k) for k in range(len(models))])
    return float(result.params["A"].value), fitted, str(lmfit.fit_report(result, show_correl=False))
