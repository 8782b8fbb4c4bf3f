"""The verdict: whether the sigmoid describes the run, and how well its ceiling ``A`` is identified.

The verdict is computed for every fit, at 95 %, from 200 replicates with a fixed seed. When several apply, the
order is: a collapse at the end (falling), misfit, falling, flat, then the width of the interval of ``A``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import PARAMETER_NAMES, sigmoid
from rlscaling.errors import FitError
from rlscaling.fitting.residual_checks import late_drop, outlier_points, residual_tests
from rlscaling.fitting.trend_tests import change, late_decline
from rlscaling.printing.numbers import number, rough, unit_text
from rlscaling.solver.fitted_model import FittedModel, score_scale
from rlscaling.solver.information import compute_needed
from rlscaling.solver.intervals import ConfidenceInterval, half_width_68
from rlscaling.solver.resampling import replicates

N_REPLICATES, N_NEAR_LIMIT = 200, 1000
N_NEEDED = 50  # replicates behind the run length that is still needed
SEED = 251013786  # of the replicates; fixed, so that a fit has one verdict: the paper's arXiv number
MIN_POINTS_FOR_INTERVAL = 7


class Verdict(StrEnum):
    """What the data say about the ceiling ``A``: the first word of every result.

    ``identified``, ``approximate``, ``weak`` and ``ceiling-not-identified`` grade the half-width of the 95 %
    interval of ``A``; see ``half_width``. ``flat``, ``falling`` and ``misfit`` say that the sigmoid does not
    describe the run; ``ceiling-given`` that ``A`` was fixed by the caller, so nothing is claimed about it.

    Examples
    --------
    >>> {str(verdict): verdict.half_width for verdict in Verdict if verdict.half_width is not None}
    {'identified': 0.02, 'approximate': 0.05, 'weak': 0.1}
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
    def half_width(self) -> float | None:
        """The half-width within which ``A`` is known, at 95 %; None where it is wider than the last of `THRESHOLDS`."""
        return THRESHOLDS.get(self)

    @property
    def identifies_ceiling(self) -> bool:
        """Whether ``A`` is identified or approximate: the stricter question."""
        return self in (Verdict.IDENTIFIED, Verdict.APPROXIMATE)


THRESHOLDS: Mapping[Verdict, float] = {Verdict.IDENTIFIED: 0.02, Verdict.APPROXIMATE: 0.05, Verdict.WEAK: 0.10}
"""Largest half-width of the 95 % interval of ``A`` for each verdict, the strictest first. The only place of these."""

TARGET = THRESHOLDS[Verdict.IDENTIFIED]  # of plans and of `ComputeNeeded`
AT_CEILING_WIDTH = 0.05  # an interval that reaches A_max and is wider than this says nothing about A
NOT_KNOWN = "these data cannot tell A"
UNBOUNDED = ", as shares of the range of scores"
NEAR_LIMIT = 0.2  # of a threshold: closer than this, more replicates are drawn
P_FLAT, P_FALLING, P_COLLAPSE, P_MISFIT = 0.01, 0.01, 0.0005, 0.001


@dataclass(frozen=True, eq=False)
class VerdictDetails:
    """A verdict with its reason and the numbers it rests on."""

    verdict: Verdict
    reason: str
    confidence_interval: dict[str, ConfidenceInterval[float]] | None
    half_width_68: dict[str, float] | None
    compute_needed: ComputeNeeded | None
    at_twice: tuple[float, float, float] | None


Shape = tuple[Verdict, str] | None  # misfit, falling or flat with its reason, or None


def check_enough_points(
    n: int,
    for_what: str,
    *,
    needed: int = MIN_POINTS_FOR_INTERVAL,
    what: str = "fitted points",
    where: str = "",
    remedy: str = "evaluate more often, run on, or lower min_compute",
) -> None:
    """Raise FitError when ``n`` points are fewer than ``needed``.

    Parameters
    ----------
    n : int
    for_what : str
        What they are too few for: "for an interval", "for a plan".
    needed : int
    what : str
        What they are called.
    where : str
        The run, where there are several: "a, seed 1: ".
    remedy : str
        What to do.
    """
    if n < needed:
        raise FitError(f"{where}{n} {what} are too few {for_what} ({needed} needed); {remedy}")


def threshold_text(half_width: float) -> str:
    """Return a threshold as it is written in a sentence, with two decimals or as many as it has.

    Examples
    --------
    >>> threshold_text(THRESHOLDS[Verdict.WEAK]), threshold_text(0.025)
    ('±0.10', '±0.025')
    """
    return "±" + max(f"{half_width:.2f}", f"{half_width:g}", key=len)


def _grade_text(verdict: Verdict, *, bounded: bool) -> str:
    """Return how well ``A`` is known, in a sentence."""
    if verdict.half_width is None:
        return NOT_KNOWN
    only = " only" if verdict is Verdict.WEAK else ""
    return f"A is known{only} to within {threshold_text(verdict.half_width)} (95 %){'' if bounded else UNBOUNDED}"


def judge(model: FittedModel, unit: str) -> VerdictDetails:
    """Return the verdict on the data of ``model``, with 95 % this-run intervals where there are 7 points.

    The reason does not quote the interval: that is printed beside the estimates, from as many replicates as the caller
    wants, while the verdict of a fit stays the same.
    """
    shape, needed = _shape_verdict(model, unit), None
    if model.n < MIN_POINTS_FOR_INTERVAL:
        reason = f"{model.n} points are too few for an interval ({MIN_POINTS_FOR_INTERVAL} at least)"
        verdict, reason = shape or (Verdict.NOT_IDENTIFIED, reason + "; A cannot be told from these data")
        return VerdictDetails(verdict, reason, None, None, None, None)
    draws = _draws(model)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    ci = {k: ConfidenceInterval(float(a), float(b)) for k, a, b in zip(PARAMETER_NAMES, low, high, strict=True)}
    error = {k: half_width_68(draws[:, j]) for j, k in enumerate(PARAMETER_NAMES)}
    if model.problem.A is not None:
        verdict, reason = Verdict.GIVEN, f"A was given as {model.problem.A:g}; nothing is claimed about it"
    else:
        verdict = grade(*ci["A"], model.problem.A_max, score_scale(model))
        if verdict is not Verdict.IDENTIFIED and shape is None:
            needed = _needed(model, draws)
        reason = _grade_text(verdict, bounded=model.problem.ordered)
        reason += _needed_text(needed, float(model.series.compute[-1]), unit)
    return VerdictDetails(*(shape or (verdict, reason)), ci, error, needed, _at_twice(model, draws))


def _draws(model: FittedModel) -> Array:
    """Return 200 replicates; 1,000 when the half-width of ``A`` is within a fifth of a threshold."""
    draws = replicates(model, "ar1", np.random.default_rng(SEED), N_REPLICATES)
    low, high = np.quantile(draws[:, 0], [0.025, 0.975])
    share = 0.5 * float(high - low) / score_scale(model) / np.array(list(THRESHOLDS.values()))
    if np.any((share > 1.0 - NEAR_LIMIT) & (share < 1.0 + NEAR_LIMIT)):
        draws = replicates(model, "ar1", np.random.default_rng(SEED), N_NEAR_LIMIT)
    return draws


def _at_twice(model: FittedModel, draws: Array) -> tuple[float, float, float]:
    """Return the curve at twice the compute so far and its 95 % interval."""
    twice = 2.0 * float(model.series.compute[-1])
    low, high = np.quantile(sigmoid(twice, *draws.T), [0.025, 0.975])
    return float(sigmoid(twice, *model.params)), float(low), float(high)


def grade(low: float, high: float, A_max: float, scale: float = 1.0) -> Verdict:
    """Return the verdict on ``A`` from its 95 % interval (identified, approximate, weak or not)."""
    half_width = 0.5 * (high - low) / scale
    if high >= A_max - 1e-9 and high - low > AT_CEILING_WIDTH * scale:
        return Verdict.NOT_IDENTIFIED
    for verdict, limit in THRESHOLDS.items():
        if half_width <= limit:
            return verdict
    return Verdict.NOT_IDENTIFIED


def _needed(model: FittedModel, draws: Array) -> ComputeNeeded:
    """Return the run length for `TARGET`: by design theory, and no less than the width of the present interval implies.

    The linear theory may find the present data sufficient. Then the length is at least the compute so far times the
    square root of the present width over the target. How accurate that is: benchmarks/verdicts.py.
    """
    target, scale = TARGET, score_scale(model)
    low_A, high_A = np.quantile(draws[:, 0], [0.025, 0.975])
    excess = min(0.5 * (high_A - low_A), THRESHOLDS[Verdict.WEAK] * scale) / (target * scale)
    at_least = float(model.series.compute[-1]) * np.sqrt(max(excess, 1.0))
    hours = np.maximum(np.sort(compute_needed(model, draws[:N_NEEDED], target * scale)), at_least)
    low, median, high = (float(hours[int(q * (len(hours) - 1))]) for q in (0.1, 0.5, 0.9))
    return ComputeNeeded(target, median, low, high)


def _needed_text(needed: ComputeNeeded | None, last: float, unit: str) -> str:
    if needed is None:
        return ""
    name, target = unit_text(unit), threshold_text(needed.half_width)
    if not np.isfinite(needed.median):
        return f"; no run length up to {number(last * 1000)} {name} would bring it to {target} at this noise"
    high = rough(needed.high) if np.isfinite(needed.high) else "beyond reach"
    return (
        f"; run to about {rough(needed.median)} {name} to know it to {target} (10-90 %: {rough(needed.low)} to {high})"
    )


def _shape_verdict(model: FittedModel, unit: str) -> Shape:
    """Return the first of misfit, falling and flat that applies, or None.

    A collapse at the end is looked for first: its points are outliers too, and "falling" says more about them. A fit
    without any rise is a constant: then falling and flat come before misfit, since the residuals of a constant say
    nothing about a sigmoid.
    """
    checks = [_collapse, _misfit, _moves] if model.rises else [_collapse, _moves, _misfit]
    for check in checks if model.problem.ordered else [_misfit]:
        shape = check(model, unit)
        if shape is not None:
            return shape
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
    trend = change(model)
    if not trend.rises and trend.p <= P_FALLING:
        reason = f"the pass rate declines (a constant has p <= {trend.p:.1g}): no ceiling can be read from this run"
        return Verdict.FALLING, reason
    late = late_decline(model)
    if late is not None and late[1] < P_COLLAPSE:
        start = float(model.series.compute[late[0]])
        return Verdict.FALLING, (
            f"the pass rate declines over the last third, from {number(start)} {unit_text(unit)} on "
            f"(p = {late[1]:.1g}); max_compute= (--max-compute {start:.10g}) fits the part before"
        )
    if not trend.rises or trend.p > P_FLAT:
        p = trend.p if trend.rises else 1.0
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
