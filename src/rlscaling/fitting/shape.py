"""`shape_of`: whether a run rises towards a ceiling at all, or is flat, falling or no sigmoid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlscaling.arrays import Array
from rlscaling.fitting.residual_checks import late_drop, outlier_points, residual_tests, stray_blocks
from rlscaling.fitting.trend_tests import change, late_decline, peak_and_decline, rank_trend
from rlscaling.printing.numbers import number, unit_text
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.solver.observations import starts_of_averages

FLAT, FALLING, MISFIT = "flat", "falling", "misfit"
P_FLAT, P_COLLAPSE, P_MISFIT = 0.01, 0.0005, 0.001
P_RANK = {True: 0.001, False: 0.0005}  # of a rise, and of a decline
STRONG_TAU, P_STRONG = 0.42, 0.03  # Kendall's tau of a clear rise, and what its p-value must be
P_PEAK, P_PEAK_OF_FEW, FEW = 0.001, 0.01, 10
MOST_NAMED = 5
MANY = 150  # evaluations: beyond, averages are tested


@dataclass(frozen=True)
class Shape:
    """Why the sigmoid does not describe a run: ``flat``, ``falling`` or ``misfit``, and the reason in a sentence."""

    kind: str
    reason: str


def shape_of(model: FittedModel, unit: str) -> Shape | None:
    """Return the first of misfit, falling and flat that applies to a run, or None.

    A collapse at the end is looked for first: its points are outliers too, and "falling" says more about them. A fit
    without any rise is a constant: then falling and flat come before misfit, since the residuals of a constant say
    nothing about a sigmoid. Unbounded scores may fall along their curve; a run that does neither is flat.
    """
    checks = [_collapse, _misfit, _moves] if model.rises else [_collapse, _moves, _misfit]
    for check in checks if model.problem.ordered else [_misfit, _moves]:
        shape = check(model, unit)
        if shape is not None:
            return shape
    return None


def _collapse(model: FittedModel, unit: str) -> Shape | None:
    tested = _tested(model)
    late = late_drop(tested)
    if late is None or late.p >= P_COLLAPSE:
        return None
    compute, start = model.series.compute, _evaluation(model, tested, late.start)
    return Shape(
        FALLING,
        f"the last {model.n - start} evaluations, from {compute[start]:.10g} {unit_text(unit)} on, lie "
        f"{number(late.drop, 3)} below the curve of the part before (p = {max(late.p, 1e-16):.1g}); look at the run; "
        f"max_compute= (--max-compute {compute[start - 1]:.10g}) fits the part before",
    )


def _tested(model: FittedModel) -> FittedModel:
    """Return the run, or its averages where it has so many evaluations that one AR(1) cannot describe their noise."""
    return model.averaged if model.n > MANY else model


def _evaluation(model: FittedModel, tested: FittedModel, index: int) -> int:
    """Return the first evaluation of the run behind a point of what was tested."""
    return index if tested.n == model.n else int(starts_of_averages(model.n, tested.n)[index])


def _misfit(model: FittedModel, unit: str) -> Shape | None:
    block = stray_blocks(model)
    if block is not None:
        rest = (
            f"; without {'them' if len(block.points) > 1 else 'it'} the best A is {number(float(block.params[0]), 3)}"
        )
        return Shape(MISFIT, _named(model, block.points, unit, "far off the curve of all the others") + rest)
    outliers = outlier_points(model)
    if outliers:
        return Shape(MISFIT, _named(model, outliers, unit, "more than 6 sd off the curve"))
    p_ljung_box, p_runs = residual_tests(_tested(model))
    if p_ljung_box < P_MISFIT and p_runs < P_MISFIT:
        return Shape(
            MISFIT,
            "the residuals are not noise around a sigmoid "
            f"(Ljung-Box p = {p_ljung_box:.1g}, runs p = {p_runs:.1g}); plot the fit before you use it",
        )
    return None


def _named(model: FittedModel, points: list[int], unit: str, where: str) -> str:
    """Return a sentence that names points: their compute, their scores, and how to leave them out."""
    compute, several = model.series.compute, len(points) > 1
    places = ", ".join(f"{compute[i]:.10g}" for i in points[:MOST_NAMED])
    values = ", ".join(number(float(model.series.y[i])) for i in points[:MOST_NAMED])
    more = f" and {len(points) - MOST_NAMED} more" if len(points) > MOST_NAMED else ""
    span = f"{compute[points[0]]:.10g}:{compute[points[-1]]:.10g}"
    return (
        f"the {'points' if several else 'point'} at {places}{more} {unit_text(unit)} (pass rate {values}) "
        f"{'lie' if several else 'lies'} {where}; look at {'them' if several else 'it'}, "
        f"and leave out with exclude= (--exclude {span}) what is an error"
    )


def _moves(model: FittedModel, unit: str) -> Shape | None:
    """Return falling or flat, when the run declines, declines late, or does not move beyond its noise."""
    few, bounded = model.averaged, model.problem.ordered
    peak = peak_and_decline(few) if model.params[0] >= model.params[3] else None
    if peak is not None and peak.p < (P_PEAK_OF_FEW if few.n < FEW else P_PEAK):
        start = float(model.series.compute[_evaluation(model, few, peak.start)])
        return Shape(
            FALLING,
            f"the {_score(bounded)} declines from {number(start)} {unit_text(unit)} on, by {number(peak.drop, 3)} "
            f"so far (p = {max(peak.p, 1e-16):.1g}); max_compute= (--max-compute {start:.10g}) fits the part before",
        )
    tested = _tested(model)
    late = late_decline(tested) if bounded else None
    if late is not None and late[1] < P_COLLAPSE:
        start = float(model.series.compute[_evaluation(model, tested, late[0])])
        return Shape(
            FALLING,
            f"the pass rate declines over the last third, from {number(start)} {unit_text(unit)} on "
            f"(p = {late[1]:.1g}); max_compute= (--max-compute {start:.10g}) fits the part before",
        )
    rises, p = _trend(few)
    if p > P_FLAT:
        return Shape(FLAT, f"no rise beyond the noise (p = {p:.2g} for a constant {_score(bounded)})")
    if not rises and bounded:
        return Shape(
            FALLING, f"the pass rate declines (a constant has p <= {p:.1g}): no ceiling can be read from this run"
        )
    return None


def _trend(model: FittedModel) -> tuple[bool, float]:
    """Return whether a run rises, and the p-value of a constant.

    Ranks find a trend of any form, the likelihood ratio of a sigmoid finds a steep or a late rise.
    """
    y = _with_anchor(model)
    ranks = rank_trend(y)
    if ranks.p < P_RANK[ranks.rises] or (ranks.tau >= STRONG_TAU and ranks.p < P_STRONG):
        return ranks.rises, min(ranks.p, P_FLAT)
    trend = change(model)
    return trend.rises, trend.p


def _with_anchor(model: FittedModel) -> Array:
    """Return the scores in the order of compute, the observation of R0 first."""
    return model.series.y if model.anchor is None else np.append(model.anchor.value, model.series.y)


def _score(bounded: bool) -> str:
    return "pass rate" if bounded else "score"
