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
from rlscaling.fitting.shape import shape_of
from rlscaling.printing.numbers import number, rough, unit_text
from rlscaling.solver.departures import HORIZON, drift_clock
from rlscaling.solver.fitted_model import FittedModel, score_scale
from rlscaling.solver.information import compute_needed
from rlscaling.solver.intervals import ConfidenceInterval, containing, half_width_68, percentile_interval
from rlscaling.solver.resampling import SCHEME, Replicates, replicates

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
WITHOUT_NOISE = 0.001  # of the gain
ON_THE_FLOOR = 0.1  # a pass rate below this, after a rise of less than this: the rise may not have begun
NOT_KNOWN = "these data cannot tell A"
UNBOUNDED = ", as shares of the range of scores"
NEAR_LIMIT = 0.2  # of a threshold: closer than this, more replicates are drawn


@dataclass(frozen=True, eq=False)
class VerdictDetails:
    """A verdict with its reason and the numbers it rests on."""

    verdict: Verdict
    reason: str
    confidence_interval: dict[str, ConfidenceInterval[float]] | None
    half_width_68: dict[str, float] | None
    compute_needed: ComputeNeeded | None
    at_twice: tuple[float, float, float] | None


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


def judge(model: FittedModel, unit: str, contradicted: str | None = None) -> VerdictDetails:
    """Return the verdict on the data of ``model``, with 95 % this-run intervals where there are 7 points.

    ``contradicted`` says why a ceiling that the caller gave cannot be that of the run. The reason does not quote the
    interval: that is printed beside the estimates, from as many replicates as the caller wants, while the verdict of a
    fit stays the same.
    """
    found, needed = shape_of(model, unit), None
    shape = None if found is None else (Verdict(found.kind), found.reason)
    if contradicted is not None:
        shape = Verdict.MISFIT, contradicted
    if model.n < MIN_POINTS_FOR_INTERVAL:
        reason = f"{model.n} points are too few for an interval ({MIN_POINTS_FOR_INTERVAL} at least)"
        verdict, reason = shape or (Verdict.NOT_IDENTIFIED, reason + "; A cannot be told from these data")
        return VerdictDetails(verdict, reason, None, None, None, None)
    drawn = _replicates(model)
    draws = drawn.draws()
    low, high = containing(percentile_interval(draws, 0.95), np.array(model.params)).T
    ci = {k: ConfidenceInterval(float(a), float(b)) for k, a, b in zip(PARAMETER_NAMES, low, high, strict=True)}
    error = {k: half_width_68(draws[:, j]) for j, k in enumerate(PARAMETER_NAMES)}
    if model.problem.A is not None:
        verdict, reason = Verdict.GIVEN, f"A was given as {model.problem.A:g}; nothing is claimed about it"
    elif _on_the_floor(model):
        verdict, reason = Verdict.NOT_IDENTIFIED, _floor_text(model)
    else:
        verdict, reason = _graded(model, ci["A"])
        if verdict is not Verdict.IDENTIFIED and shape is None:
            needed = _needed(model, draws)
        reason += _needed_text(needed, float(model.series.compute[-1]), unit)
    return VerdictDetails(*(shape or (verdict, reason)), ci, error, needed, _at_twice(model, drawn))


def _graded(model: FittedModel, interval: ConfidenceInterval[float]) -> tuple[Verdict, str]:
    """Return the verdict on ``A`` from its interval and the length of the run, with the reason."""
    verdict, bounded = grade(*interval, score_scale(model)), model.problem.ordered
    if verdict.identifies_ceiling and _jumps(model):
        return Verdict.WEAK, (
            f"{_grade_text(Verdict.WEAK, bounded=bounded)}: the rise is a jump between two evaluations, which shows "
            "nothing of how the run comes to its ceiling"
        )
    if verdict is not Verdict.IDENTIFIED or _followed_long_enough(model):
        return verdict, _grade_text(verdict, bounded=bounded)
    seen, target = float(model.series.compute[-1] / model.params[2]), threshold_text(TARGET)
    return Verdict.APPROXIMATE, (
        f"{_grade_text(Verdict.APPROXIMATE, bounded=bounded)}; for {target} it takes a run of {HORIZON:g} "
        f"C_mid, and this one has {seen:.1f}"
    )


def _jumps(model: FittedModel) -> bool:
    """Return whether the rise is as steep as the bounds allow."""
    low, high = model.problem.B_bounds
    return low < high and model.params[1] >= high * (1.0 - 1e-6)


def _followed_long_enough(model: FittedModel) -> bool:
    """Return whether a run has been seen past its bend over as much log compute as its ceiling is claimed for.

    Before that no data with the noise of an evaluation tell a sigmoid from a curve that goes on rising like log C, or
    that comes to its ceiling like 1 / log C (benchmarks/off_the_law.py); the best sigmoid lies within half a percent of
    the gain of such curves, so scores without noise do.
    """
    A, B, C_mid, R0 = model.params
    if model.noise.sd_marginal < WITHOUT_NOISE * abs(A - R0):
        return True
    return bool(drift_clock(model.series.compute[-1:], B, C_mid)[0] >= np.log(HORIZON))


def _on_the_floor(model: FittedModel) -> bool:
    """Return whether a pass rate is still near 0, so that its rise may be yet to come."""
    return model.problem.ordered and float(np.max(model.curve_of(model.params))) < ON_THE_FLOOR


def _floor_text(model: FittedModel) -> str:
    level = float(np.max(model.curve_of(model.params)))
    return (
        f"the pass rate is still near 0 ({number(level, 2)}): its rise may not have begun, and no ceiling can be told"
    )


def _replicates(model: FittedModel) -> Replicates:
    """Return 200 replicates; 1,000 when the half-width of ``A`` is within a fifth of a threshold."""
    drawn = replicates(model, SCHEME, np.random.default_rng(SEED), N_REPLICATES)
    low, high = np.quantile(drawn.draws()[:, 0], [0.025, 0.975])
    share = 0.5 * float(high - low) / score_scale(model) / np.array(list(THRESHOLDS.values()))
    if np.any((share > 1.0 - NEAR_LIMIT) & (share < 1.0 + NEAR_LIMIT)):
        drawn = replicates(model, SCHEME, np.random.default_rng(SEED), N_NEAR_LIMIT)
    return drawn


def _at_twice(model: FittedModel, drawn: Replicates) -> tuple[float, float, float]:
    """Return the curve at twice the compute so far and its 95 % interval."""
    twice = np.array([2.0 * float(model.series.compute[-1])])
    value = sigmoid(twice, *model.params)
    low, high = containing(percentile_interval(drawn.curves(twice), 0.95), value)[0].tolist()
    return float(value[0]), low, high


def grade(low: float, high: float, scale: float = 1.0) -> Verdict:
    """Return the verdict on ``A`` from its 95 % interval (identified, approximate, weak or not)."""
    half_width = 0.5 * (high - low) / scale
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
    at_least = np.maximum(at_least, HORIZON * np.sort(draws[:N_NEEDED, 2]))  # see _followed_long_enough
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


@dataclass(frozen=True)
class ComputeNeeded:
    """Compute until the 95 % interval of ``A`` is within ``half_width``: median and 10-90 % band.

    ``inf`` means more than a thousand times the compute so far, or never at the present noise.
    """

    half_width: float
    median: float
    low: float
    high: float
