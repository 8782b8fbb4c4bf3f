"""`leave_one_out` and its result: a recipe against variants of it that undo one choice, as in the paper's Figure 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.comparing.common_ceiling import CommonCeiling
from rlscaling.comparing.compare import Comparison, compare_inputs
from rlscaling.comparing.inputs import check_comparable
from rlscaling.comparing.joint_fit import Progress
from rlscaling.comparing.pairwise import PairVerdict
from rlscaling.comparing.recipe_estimate import Scope
from rlscaling.curves.sigmoid import gain_share
from rlscaling.errors import FitError
from rlscaling.fitting.data import relative_weights
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import interval, number, plus_minus, unit_text
from rlscaling.solver.intervals import half_width_68
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import RngLike

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut(Document):
    """A reference recipe against variants of it [ScaleRL, Fig. 7].

    Attributes
    ----------
    comparison : Comparison
        All recipes at one R0, each with its own ceiling.
    reference : str
    refit : CommonCeiling or None
        The reference and all recipes whose ceiling is not shown to differ from its own, refitted with one ceiling;
        None if there are none.
    """

    comparison: Comparison
    reference: str
    refit: CommonCeiling | None

    @property
    def variants(self) -> tuple[str, ...]:
        """All recipes but the reference."""
        return tuple(name for name in self.comparison.names if name != self.reference)

    def verdict(self, name: str, *, on: str = "B") -> PairVerdict:
        """Return how a variant compares with the reference.

        On ``"A"``, on ``"B"`` with the common ceiling, or on ``"R"``, the pass rate at the end of the common compute.
        """
        if on in ("A", "R"):
            return self.comparison.pair_verdict(name, self.reference, on=on)
        if self.refit is None or name not in self.refit.names:
            return PairVerdict.UNDECIDED
        return self.refit.pair_verdict(name, self.reference)

    def linearized(self, name: str) -> tuple[Array, Array, Array]:
        """Return ``(compute, F, weight)`` of a recipe's evaluations, with the common ceiling and R0.

        ``F = C_mid**B / ((A - R0) / (R - R0) - 1)`` is ``C**B`` on the curve. The weight is the inverse variance of
        log F for noise of R as the weights of the fit say. Evaluations outside (R0, A) have no F and are omitted.
        """
        C, log_F, weight = self._linearized(name)
        with np.errstate(over="ignore"):  # FLOPs to the power of B may overflow
            return C, np.exp(log_F), weight

    def _linearized(self, name: str) -> tuple[Array, Array, Array]:
        """Return the same with the logarithm of F; empty arrays for a recipe without a rising sigmoid."""
        A, B, C_mid, R0 = self._curve(name)
        recipe = self.comparison.recipe(name)
        C, R = (
            np.concatenate([getattr(fit.data, column)[fit.data.used] for fit in recipe.fits])
            for column in ("compute", "pass_rate")
        )
        w = np.concatenate([relative_weights(fit.data) for fit in recipe.fits])
        if not recipe.verdict.has_curve or A == R0:
            return C[:0], R[:0], R[:0]
        share = (R - R0) / (A - R0)
        inside = (share > 0) & (share < 1) & (C > 0)
        C, share, w = C[inside], share[inside], w[inside]
        s = gain_share(C, B, C_mid)
        return C, B * np.log(C_mid) + np.log(share / (1.0 - share)), w * (s * (1.0 - s)) ** 2

    def _curve(self, name: str) -> tuple[float, float, float, float]:
        summary = self.comparison.recipe(name).summary
        if self.refit is None or name not in self.refit.names:
            return summary["A"], summary["B"], summary["C_mid"], summary["R0"]
        k = self.refit.names.index(name)
        return self.refit.A, float(self.refit.B[k]), float(self.refit.C_mid[k]), summary["R0"]

    @cached_property
    def slopes(self) -> dict[str, float]:
        """Weighted slope of log F against log C by recipe; equal to ``B`` for evaluations on the curve."""
        slopes = {}
        for name in self.comparison.names:
            C, y, weight = self._linearized(name)
            if len(C) < 2 or not weight.max() > 0:
                slopes[name] = float("nan")
                continue
            x = np.log(C)
            mean_x, mean_y = np.average(x, weights=weight), np.average(y, weights=weight)
            slopes[name] = float((weight * (x - mean_x)) @ (y - mean_y) / ((weight * (x - mean_x)) @ (x - mean_x)))
        return slopes

    def to_frame(self) -> pd.DataFrame:
        """Return one row per recipe, the reference first: ``C_mid, B, A`` as in Figure 7, verdicts, slope."""
        import pandas as pd

        rows = [self.record(name) for name in self._order]
        return pd.DataFrame(rows).set_index("recipe")

    @property
    def _order(self) -> list[str]:
        by_B = sorted(self.variants, key=lambda name: -self._curve(name)[1])
        return [self.reference, *by_B]

    def change_of(self, name: str) -> str:
        """Return what a variant changes: as the header of its runs says, or the recipe named there.

        It is empty where the header says nothing, or only repeats the name.
        """
        for key in ("change", "recipe"):
            for fit in self.comparison.recipe(name).fits:
                if fit.metadata.get(key):
                    change = str(fit.metadata[key])
                    return "" if change == name else change
        return ""

    def record(self, name: str) -> dict[str, Any]:
        """Return the row of a recipe in `to_frame`."""
        recipe, (_, B, C_mid, _) = self.comparison.recipe(name), self._curve(name)
        common = self.refit is not None and name in self.refit.names
        low, high = self._B_interval(name)
        is_reference = name == self.reference
        return {
            "recipe": name,
            "change": "" if is_reference else self.change_of(name),
            "seeds": recipe.n_seeds,
            "verdict": str(recipe.verdict),
            "A": recipe.summary["A"],
            "A_vs_reference": "" if is_reference else str(self.verdict(name, on="A")),
            "R_vs_reference": "" if is_reference else str(self.verdict(name, on="R")),
            "B": B,
            "B_low": low,
            "B_high": high,
            "B_vs_reference": "" if is_reference else str(self.verdict(name)),
            "common_ceiling": common,
            "C_mid": C_mid,
            "slope": self.slopes[name],
        }

    def _B_interval(self, name: str) -> tuple[float, float]:
        if self.refit is not None and name in self.refit.names:
            low, high = self.refit.B_interval[self.refit.names.index(name)]
            return float(low), float(high)
        return self.comparison.interval(self.comparison.recipe(name).exponents())

    def tables(self) -> list[Table]:
        """Return the table."""
        return [Table.of(self._header(), self._rows())]

    def _rows(self) -> list[list[str]]:
        """Return the rows to print, the reference first."""
        rows = []
        for name in self._order:
            r, recipe = self.record(name), self.comparison.recipe(name)
            A_error, B_error = half_width_68(recipe.ceilings(Scope.RECIPE)), 0.25 * (r["B_high"] - r["B_low"])
            A = plus_minus(r["A"], A_error) if recipe.identified else "not identified"
            if not recipe.verdict.has_curve:
                R = f"R {r['R_vs_reference']}" if r["R_vs_reference"] else ""
                rows.append([name, r["change"], r["verdict"], R, "", "", "", "", ""])
                continue
            B = plus_minus(r["B"], B_error) + ("" if r["common_ceiling"] else " (own A)")
            rows.append(
                [name, r["change"], A, r["A_vs_reference"], B, interval(r["B_low"], r["B_high"]), r["B_vs_reference"],
                 number(r["C_mid"]), number(r["slope"], 2)]
            )  # fmt: skip
        return rows

    @property
    def headline(self) -> str:
        """The variants with a lower or higher ``A`` or ``B`` than the reference, in a sentence.

        Those without a curve, or all if the reference has none, are compared where the common compute ends.
        """
        parts = self._without_curve()
        with_curve = [name for name in self.variants if name not in self._apart]
        for on in ("A", "B"):
            for verdict in (PairVerdict.LOWER, PairVerdict.HIGHER):
                names = [name for name in with_curve if self.verdict(name, on=on) is verdict]
                if names:
                    parts.append(f"{verdict} {on}: {', '.join(names)}")
        decided = {name for name in with_curve for on in ("A", "B") if self.verdict(name, on=on) in _DECIDED}
        rest = [name for name in with_curve if name not in decided]
        parts += [f"no difference shown: {', '.join(rest)}"] if rest else []
        return f"against {self.reference}: {'; '.join(parts)}"

    @property
    def _apart(self) -> tuple[str, ...]:
        """The variants of which the curve cannot be compared with that of the reference."""
        if not self.comparison.recipe(self.reference).verdict.has_curve:
            return self.variants
        return tuple(name for name in self.variants if not self.comparison.recipe(name).verdict.has_curve)

    def _without_curve(self) -> list[str]:
        """Return how the pass rates of variants compare whose curves cannot be compared."""
        c, parts = self.comparison, []
        where = f"R at {number(c.compute[0])} {unit_text(c.compute_unit)}"
        for verdict in PairVerdict:
            names = [f"{n} ({c.recipe(n).verdict})" for n in self._apart if self.verdict(n, on="R") is verdict]
            if names:
                parts.append(f"{verdict} {where}: {', '.join(names)}")
        return parts

    def footnotes(self) -> list[str]:
        """Return what stands below the table: the common ceiling, R0, notes."""
        lines = [] if self.refit is None else [self.refit.headline]
        apart = [name for name in self.variants if self.refit is None or name not in self.refit.names]
        if apart:
            lines.append(f"not part of it, their A differs or their curve is no sigmoid: {', '.join(apart)}")
        R0 = self.comparison.R0
        lines.append(f"R0 = {number(R0, 3)}, shared" if R0 is not None else "each run has its own R0")
        return lines + [f"note: {note}" for note in self.comparison.notes]

    def _record(self) -> dict[str, Any]:
        return {
            "headline": self.headline,
            "reference": self.reference,
            "recipes": [self.record(name) for name in self._order],
            "common_ceiling": None if self.refit is None else self.refit.to_dict(),
            "R0": self.comparison.R0,
            "confidence_level": self.comparison.confidence_level,
            "compute_unit": self.comparison.compute_unit,
            "seed": self.comparison.seed,
            "notes": self.comparison.notes,
        }

    def _header(self) -> list[str]:
        return ["", "change", "A", "vs. reference", "B", f"{100 * self.comparison.confidence_level:g} %",
                "vs. reference", "C_mid", "slope"]  # fmt: skip


_DECIDED = (PairVerdict.LOWER, PairVerdict.HIGHER)


def leave_one_out(
    fits: Mapping[str, SigmoidFit | Sequence[SigmoidFit]],
    *,
    reference: str = "scalerl",
    margin: float = 0.02,
    shared_R0: bool = True,
    rng: RngLike = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed_sd: float = SEED_SD,
    device_factors: Mapping[str, float] | None = None,
    on_progress: Progress | None = None,
) -> LeaveOneOut:
    """Compare variants of a recipe with it: ceilings first, then exponents with one common ceiling.

    Parameters
    ----------
    fits : mapping of str to SigmoidFit or sequence of SigmoidFit
        By recipe; a sequence holds the training runs of one recipe that differ by their seed only. What a recipe
        changes is taken from ``change`` in the header of its runs.
    reference : str
        The recipe of which the others are variants.
    margin, shared_R0, rng, n_resamples, confidence_level, seed_sd, device_factors, on_progress
        As in `compare`.

    Returns
    -------
    LeaveOneOut

    Raises
    ------
    FitError
        When the reference is not among the recipes, and as in `compare`.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, leave_one_out
    >>> truth = datasets.table1()
    >>> C = range(0, 16001, 400)
    >>> loo = leave_one_out(
    ...     {
    ...         "scalerl": fit_trace(datasets.simulate(truth["scalerl"], compute=C, rng=1)),
    ...         "loo-savg": fit_trace(datasets.simulate(truth["batch-512"], compute=C, rng=2)),
    ...     },
    ...     rng=0,
    ... )
    >>> loo.to_frame().index.tolist(), loo.refit.names
    (['scalerl', 'loo-savg'], ('scalerl', 'loo-savg'))
    """
    runs = check_comparable(fits, device_factors=device_factors, caller="leave_one_out")
    if reference not in runs.recipes:
        raise FitError(
            f"the reference {reference!r} is not among the recipes ({', '.join(runs.recipes)}); name one of them with "
            "reference= (--reference)"
        )
    comparison = compare_inputs(
        runs, (runs.common_compute[1],), margin=margin, shared_R0=shared_R0, rng=rng, n_resamples=n_resamples,
        confidence_level=confidence_level, seed_sd=seed_sd, on_progress=on_progress,
    )  # fmt: skip
    similar = [
        name
        for name in comparison.names
        if comparison.recipe(name).verdict.has_curve
        and (name == reference or comparison.pair_verdict(name, reference) not in _DECIDED)
    ]
    refit = comparison.with_common_ceiling(*similar) if len(similar) > 1 and reference in similar else None
    return LeaveOneOut(comparison, reference, refit)
