"""What the data can tell: flat, falling, misfit, or how well the ceiling ``A`` is known.

The verdict is computed for every fit, at 95 %, from 200 replicates with a fixed seed. When several apply, the
order is: a collapse at the end (falling), misfit, falling, flat, then the width of the interval of ``A``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import PARAMETER_NAMES, sigmoid
from rlscaling.fitting.residual_checks import late_drop, outlier_points, residual_tests
from rlscaling.fitting.trend_tests import change, late_decline
from rlscaling.printing.numbers import number, rough, unit_text
from rlscaling.solver.fitted_model import FittedModel, score_scale
from rlscaling.solver.information import compute_needed
from rlscaling.solver.intervals import half_width_68
from rlscaling.solver.resampling import replicates

N_REPLICATES, N_NEAR_LIMIT = 200, 1000
N_NEEDED = 50  # replicates behind the run length that is still needed
SEED = 251013786  # fixed, so that a fit has one verdict: the paper's arXiv number
MIN_POINTS_FOR_INTERVAL = 7


class Verdict(StrEnum):
    """What the data can tell about the ceiling ``A``: the first line of every result.

    ``identified``, ``approximate``, ``weak`` and ``ceiling-not-identified`` grade the half-width of the 95 %
    interval of ``A`` (0.02, 0.05, 0.10, more). ``flat``, ``falling`` and ``misfit`` say that the sigmoid does not
    describe the run; ``ceiling-given`` that ``A`` was fixed by the caller, so nothing is claimed about it.
    """

    IDENTIFIED = "identified"
    APPROXIMATE = "approximate"
    WEAK = "weak"
    NOT_IDENTIFIED = "ceiling-not-identified"
    FLAT = "flat"
    FALLING = "falling"
    MISFIT = "misfit"
    GIVEN = "ceiling-given"

    @property
    def has_curve(self) -> bool:
        """Whether the sigmoid describes the run: it is not flat, falling or a misfit."""
        return self not in (Verdict.FLAT, Verdict.FALLING, Verdict.MISFIT)

    @property
    def identifies_ceiling(self) -> bool:
        """Whether ``A`` is known to 0.05 or better."""
        return self in (Verdict.IDENTIFIED, Verdict.APPROXIMATE)


HALF_WIDTHS = {Verdict.IDENTIFIED: 0.02, Verdict.APPROXIMATE: 0.05, Verdict.WEAK: 0.10}
AT_CEILING_WIDTH = 0.05  # an interval that reaches A_max and is wider than this says nothing about A
REASONS = {
    Verdict.IDENTIFIED: "A is known to within ±0.02 (95 %)",
    Verdict.APPROXIMATE: "A is known to within ±0.05 (95 %)",
    Verdict.WEAK: "A is known only to within ±0.10 (95 %)",
    Verdict.NOT_IDENTIFIED: "these data cannot tell A",
}
UNBOUNDED = ", as shares of the range of scores"
NEAR_LIMIT = 0.2
P_FLAT, P_FALLING, P_COLLAPSE, P_MISFIT = 0.01, 0.01, 0.0005, 0.001


@dataclass(frozen=True, eq=False)
class VerdictDetails:
    """A verdict with its reason and the numbers it rests on."""

    verdict: Verdict
    reason: str
    confidence_interval: dict[str, tuple[float, float]] | None
    robust_error: dict[str, float] | None
    compute_needed: ComputeNeeded | None
    at_twice: tuple[float, float, float] | None


Shape = tuple[Verdict, str] | None  # misfit, falling or flat with its reason, or none of them


def judge(model: FittedModel, unit: str) -> VerdictDetails:
    """Return what the data of ``model`` can tell, with 95 % this-run intervals where there are 7 points.

    The reason names no ends of an interval: those stand beside the estimates, from however many replicates were asked
    for, while the verdict of a fit stays the same.
    """
    shape, needed = _shape_verdict(model, unit), None
    if model.n < MIN_POINTS_FOR_INTERVAL:
        reason = f"{model.n} points are too few for an interval ({MIN_POINTS_FOR_INTERVAL} at least)"
        verdict, reason = shape or (Verdict.NOT_IDENTIFIED, reason + "; A cannot be told from these data")
        return VerdictDetails(verdict, reason, None, None, None, None)
    draws = _draws(model)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    ci = {k: (float(a), float(b)) for k, a, b in zip(PARAMETER_NAMES, low, high, strict=True)}
    error = {k: half_width_68(draws[:, j]) for j, k in enumerate(PARAMETER_NAMES)}
    if model.problem.A is not None:
        verdict, reason = Verdict.GIVEN, f"A was given as {model.problem.A:g}; nothing is claimed about it"
    else:
        verdict = grade(*ci["A"], model.problem.A_max, score_scale(model))
        if verdict is not Verdict.IDENTIFIED and shape is None:
            needed = _needed(model, draws)
        graded = verdict is not Verdict.NOT_IDENTIFIED
        reason = REASONS[verdict] + (UNBOUNDED if graded and not model.problem.ordered else "")
        reason += _needed_text(needed, float(model.series.compute[-1]), unit)
    return VerdictDetails(*(shape or (verdict, reason)), ci, error, needed, _at_twice(model, draws))


def _draws(model: FittedModel) -> Array:
    """Return 200 replicates; 1,000 when the width of A's interval is within a fifth of a limit between verdicts."""
    draws = replicates(model, "ar1", np.random.default_rng(SEED), N_REPLICATES)
    low, high = np.quantile(draws[:, 0], [0.025, 0.975])
    share = 0.5 * float(high - low) / score_scale(model) / np.array(list(HALF_WIDTHS.values()))
    if np.any((share > 1.0 - NEAR_LIMIT) & (share < 1.0 + NEAR_LIMIT)):
        draws = replicates(model, "ar1", np.random.default_rng(SEED), N_NEAR_LIMIT)
    return draws


def _at_twice(model: FittedModel, draws: Array) -> tuple[float, float, float]:
    """Return the curve at twice the compute so far and its 95 % interval."""
    twice = 2.0 * float(model.series.compute[-1])
    low, high = np.quantile(sigmoid(twice, *draws.T), [0.025, 0.975])
    return float(sigmoid(twice, *model.params)), float(low), float(high)


def grade(low: float, high: float, A_max: float, scale: float = 1.0) -> Verdict:
    """Return the verdict on ``A`` from its 95 % interval (METHOD: identified, approximate, weak, or not)."""
    half_width = 0.5 * (high - low) / scale
    if high >= A_max - 1e-9 and high - low > AT_CEILING_WIDTH * scale:
        return Verdict.NOT_IDENTIFIED
    for verdict, limit in HALF_WIDTHS.items():
        if half_width <= limit:
            return verdict
    return Verdict.NOT_IDENTIFIED


def _needed(model: FittedModel, draws: Array) -> ComputeNeeded:
    """Return the run length for ±0.02: by design theory, and no less than the width of the present interval implies.

    The linear theory can be content with the data there are; the present width over the target then asks for its root
    times the compute so far. How far that is right: benchmarks/verdicts.py.
    """
    target, scale = HALF_WIDTHS[Verdict.IDENTIFIED], score_scale(model)
    low_A, high_A = np.quantile(draws[:, 0], [0.025, 0.975])
    excess = min(0.5 * (high_A - low_A), HALF_WIDTHS[Verdict.WEAK] * scale) / (target * scale)
    at_least = float(model.series.compute[-1]) * np.sqrt(max(excess, 1.0))
    hours = np.maximum(np.sort(compute_needed(model, draws[:N_NEEDED], target * scale)), at_least)
    low, median, high = (float(hours[int(q * (len(hours) - 1))]) for q in (0.1, 0.5, 0.9))
    return ComputeNeeded(target, median, low, high)


def _needed_text(needed: ComputeNeeded | None, last: float, unit: str) -> str:
    if needed is None:
        return ""
    name = unit_text(unit)
    if not np.isfinite(needed.median):
        return f"; no run length up to {number(last * 1000)} {name} would bring it to ±0.02 at this noise"
    high = rough(needed.high) if np.isfinite(needed.high) else "beyond reach"
    return f"; run to about {rough(needed.median)} {name} to know it to ±0.02 (10-90 %: {rough(needed.low)} to {high})"


def _shape_verdict(model: FittedModel, unit: str) -> Shape:
    """Return the first of misfit, falling and flat that applies, or None.

    A collapse at the end comes before the rest: its points are outliers too, and falling says more. A fit without any
    rise is a constant: there, falling and flat come first, since a constant's residuals say nothing
    about a sigmoid.
    """
    checks = [_collapse, _misfit, _moves] if model.rises else [_collapse, _moves, _misfit]
    for check in checks if model.problem.ordered else [_misfit]:
        found = check(model, unit)
        if found is not None:
            return found
    return None


def _collapse(model: FittedModel, unit: str) -> Shape:
    late = late_drop(model)
    if late is None or late.p >= P_COLLAPSE:
        return None
    compute = model.series.compute
    return Verdict.FALLING, (
        f"the last {model.n - late.start} evaluations, from {compute[late.start]:.10g} {unit_text(unit)} on, lie "
        f"{number(late.drop, 3)} below the curve of the part before (p = {max(late.p, 1e-16):.1g}); look at the run; "
        f"max_compute= (--max-compute {compute[late.start - 1]:.10g}) fits the part before"
    )


def _misfit(model: FittedModel, unit: str) -> Shape:
    outliers = outlier_points(model)
    if outliers:
        places = ", ".join(f"{model.series.compute[i]:.10g}" for i in outliers[:5])
        values = ", ".join(number(float(model.series.y[i])) for i in outliers[:5])
        several = len(outliers) > 1
        return Verdict.MISFIT, (
            f"the {'points' if several else 'point'} at {places} {unit_text(unit)} (pass rate {values}) "
            f"{'lie' if several else 'lies'} more than 6 sd off the curve; look at {'them' if several else 'it'}, "
            "and leave out with exclude= (--exclude LOW:HIGH) what is an error"
        )
    p_ljung_box, p_runs = residual_tests(model)
    if p_ljung_box < P_MISFIT and p_runs < P_MISFIT:
        return Verdict.MISFIT, (
            "the residuals are not noise around a sigmoid "
            f"(Ljung-Box p = {p_ljung_box:.1g}, runs p = {p_runs:.1g}); plot the fit before you use it"
        )
    return None


def _moves(model: FittedModel, unit: str) -> Shape:
    """Return falling or flat, when the run declines, declines late, or does not move beyond its noise."""
    moved = change(model)
    if not moved.rises and moved.p <= P_FALLING:
        reason = f"the pass rate declines (a constant has p <= {moved.p:.1g}): no ceiling can be read from this run"
        return Verdict.FALLING, reason
    late = late_decline(model)
    if late is not None and late[1] < P_COLLAPSE:
        start = float(model.series.compute[late[0]])
        return Verdict.FALLING, (
            f"the pass rate declines over the last third, from {number(start)} {unit_text(unit)} on "
            f"(p = {late[1]:.1g}); max_compute= (--max-compute {start:.10g}) fits the part before"
        )
    if not moved.rises or moved.p > P_FLAT:
        p = moved.p if moved.rises else 1.0
        return Verdict.FLAT, f"no rise beyond the noise (p = {p:.2g} for a constant pass rate)"
    return None


@dataclass(frozen=True)
class ComputeNeeded:
    """Compute until the 95 % interval of ``A`` is within ``half_width``: median and 10-90 % band.

    ``inf`` means more than a thousand times the compute so far, or never at the present noise.
    """

    half_width: float
    median: float
    low: float
    high: float
