"""`plot_comparison`, `plot_loo` and `plot_crossover`: recipes on one axis, leave-one-out lines, a crossing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlscaling.arrays import Array
from rlscaling.comparing.recipe_estimate import RecipeEstimate, Scope
from rlscaling.errors import FitError
from rlscaling.plotting.compute_axis import INK, ComputeAxis, marker_size
from rlscaling.plotting.elements import GREY, RUN_STYLES, axes_or_new, draw_bar, label_ends, literal
from rlscaling.printing.numbers import interval, number, plus_minus, probability, unit_text
from rlscaling.solver.intervals import percentile_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rlscaling.comparing.compare import Comparison
    from rlscaling.comparing.leave_one_out import LeaveOneOut


BESIDE = 0.006  # of the axis: distance between the bars at one budget
IN_COLOUR = 6  # recipes with a colour and a label; the others are thin and grey


def plot_comparison(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Draw the recipes of a comparison: evaluations, curves with intervals, and the first budget.

    Parameters
    ----------
    comparison : Comparison
        From `compare`.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Each curve is labelled with its pass rate at the budget and the probability of being the best there; if the data
    do not support a number, with the interval only. Of more than six recipes the most likely best are coloured, the
    others grey.

    Examples
    --------
    >>> from rlscaling import compare, datasets, fit_trace, plot_comparison
    >>> demo = datasets.load_demo()
    >>> fits = {name: fit_trace(demo[name]) for name in ("scalerl", "batch-2048")}
    >>> len(plot_comparison(compare(fits, rng=0)).texts)
    2
    """
    ax = axes_or_new(ax)
    order = sorted(comparison.recipes, key=lambda recipe: -max(comparison.best[recipe.name], 0.0))
    compute, budget = (
        np.concatenate([fit.data.compute for recipe in order for fit in recipe.fits]),
        comparison.compute[0],
    )
    axis = ComputeAxis(compute, max(budget, max(recipe.last_compute for recipe in order)))
    for recipe in order[IN_COLOUR:]:
        ax.plot(axis.grid, recipe.predict(axis.grid), color=GREY, lw=0.6, alpha=0.5, zorder=1)
    labels = []
    for i, recipe in enumerate(order[:IN_COLOUR]):
        color, marker = RUN_STYLES[i]
        _draw_recipe(ax, axis, recipe, color, marker, comparison.confidence_level)
        place = budget * (axis.right / axis.left) ** (BESIDE * (i - 0.5 * (min(len(order), IN_COLOUR) - 1)))
        labels.append((*_draw_budget(ax, comparison, recipe, place, color, marker), literal(recipe.name), color))
    scores = np.concatenate([fit.data.pass_rate for recipe in order for fit in recipe.fits])
    low, high = float(scores.min()), float(scores.max())
    room = high - low or 0.02
    ends = np.clip([y for line in ax.lines for y in np.asarray(line.get_ydata(), dtype=float)], low - room, high + room)
    ax.set_ylim(ends.min() - 0.06 * room, ends.max() + 0.06 * room)
    label_ends(ax, labels)
    axis.finish(ax, comparison.compute_unit)
    ax.set_ylabel("held-out pass rate" if order[0].fits[0].options.bounded else "score")
    more = f" ({len(order) - IN_COLOUR} more in grey)" if len(order) > IN_COLOUR else ""
    best = probability(comparison.best[comparison.leader])
    unit = unit_text(comparison.compute_unit)
    title = f"best at {number(budget)} {unit}: {comparison.leader}, probability {best}{more}"
    ax.set_title(literal(title), loc="left", fontsize=10)
    return ax


def _draw_recipe(ax: Axes, axis: ComputeAxis, recipe: RecipeEstimate, color: str, marker: str, level: float) -> None:
    for fit in recipe.fits:
        data, size = fit.data, marker_size(len(fit.data)) - 1
        x, left_out = axis.place(data.compute), np.logical_not(data.used)
        ax.plot(x[data.used], data.pass_rate[data.used], marker, color=color, ms=size, mew=0, alpha=0.5)
        ax.plot(x[left_out], data.pass_rate[left_out], marker, mfc="none", mec=color, ms=size, mew=0.7, alpha=0.7)
    if not recipe.verdict.has_curve:
        return
    band = percentile_interval(recipe.curves(axis.grid[None, :], Scope.RECIPE), level)
    ax.fill_between(axis.grid, band[:, 0], band[:, 1], color=color, alpha=0.15, lw=0, zorder=1.5)
    inside = axis.grid <= recipe.last_compute
    ax.plot(axis.grid[inside], recipe.predict(axis.grid[inside]), color=color, lw=2, zorder=3)
    ax.plot(axis.grid[~inside], recipe.predict(axis.grid[~inside]), color=color, lw=1.6, ls=(0, (4, 2)), zorder=3)


def _draw_budget(
    ax: Axes, comparison: Comparison, recipe: RecipeEstimate, place: float, color: str, marker: str
) -> tuple[float, str]:
    """Draw the interval at the budget; return the height of the label and its second line."""
    budget = comparison.compute[0]
    if not recipe.verdict.has_curve:
        return float(recipe.fits[0].data.pass_rate[-1]), str(recipe.verdict)
    ci = np.array(comparison.interval(recipe.curves(np.array([[budget]]), Scope.RECIPE)[:, 0]))
    value = float(recipe.predict(budget))
    supported = comparison.supported(recipe.name, budget)
    draw_bar(ax, place, value if supported else None, ci, None, color, "_at", marker)
    text = plus_minus(value, 0.25 * float(ci[1] - ci[0])) if supported else interval(*ci)
    return value, f"{text}; P(best) {probability(comparison.best[recipe.name])}"


def plot_loo(result: LeaveOneOut, ax: Axes | None = None) -> Axes:
    """Draw leave-one-out lines: log F(R) against log C, on which the slope is ``B`` [ScaleRL, Fig. 7].

    ``F = C_mid**B / ((A - R0) / (R - R0) - 1)`` with the common ceiling equals ``C**B`` on the curve. Evaluations close
    to the ceiling or to R0, where noise dominates, are pale.

    Parameters
    ----------
    result : LeaveOneOut
        From `leave_one_out`.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, leave_one_out, plot_loo
    >>> demo = datasets.load_demo()
    >>> fits = {name: fit_trace(demo[name]) for name in ("scalerl", "batch-512")}
    >>> plot_loo(leave_one_out(fits, rng=0)).get_ylabel()
    'F(R)'
    """
    ax = axes_or_new(ax)
    names = [result.reference, *sorted(result.variants, key=lambda name: -result.slopes[name])]
    unit, heights, ends, labels = result.comparison.compute_unit, [], [], []
    for i, name in enumerate(names):
        C, F, weight = result.linearized(name)
        if len(C) < 2:
            continue
        color, marker = RUN_STYLES[i % len(RUN_STYLES)]
        ax.scatter(C, F, s=14, marker=marker, color=color, alpha=np.clip(weight / weight.max(), 0.08, 0.9), lw=0)
        row = result.record(name)
        B = float(row["B"])
        line = np.array([C.min(), C.max()])
        ax.plot(line, line**B, color=color, lw=2.4 if name == result.reference else 1.6, zorder=3)
        own = "" if row["common_ceiling"] else " (own A)"
        labels.append((float(line[1] ** B), f"B = {number(B, 2)}{own}", literal(name), color))
        heights += (line**B).tolist()
        ends += line.tolist()
    if not labels:
        raise FitError("no recipe has evaluations between R0 and A to draw; look at the fits one by one")
    ComputeAxis(np.array(ends), max(ends)).finish(ax, unit)
    ax.set_yscale("log")
    span = max(heights) / min(heights)
    ax.set_ylim(min(heights) / span**0.05, max(heights) * span**0.05)
    _label_lines(ax, labels)
    ax.set_ylabel("F(R)")
    title = "slope = B" if result.refit is None else f"slope = B, with one ceiling A = {number(result.refit.A, 3)}"
    ax.set_title(title, loc="left", fontsize=10)
    return ax


def _label_lines(ax: Axes, labels: list[tuple[float, str, str, str]]) -> None:
    """Label the ends of lines on a logarithmic axis."""
    low, high = np.log(ax.get_ylim())
    placed = [((np.log(y) - low) / (high - low), value, name, color) for y, value, name, color in labels]
    label_ends(ax, placed, limits=(0.0, 1.0))


def plot_crossover(comparison: Comparison, x: str, y: str, ax: Axes | None = None) -> Axes:
    """Draw the difference of two recipes against compute, with its interval, and where they cross.

    Parameters
    ----------
    comparison : Comparison
        From `compare`.
    x, y : str
        ``x`` leads above 0, ``y`` below.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import compare, datasets, fit_trace, plot_crossover
    >>> demo = datasets.load_demo()
    >>> fits = {name: fit_trace(demo[name]) for name in ("scalerl", "batch-2048")}
    >>> ax = plot_crossover(compare(fits, rng=0), "scalerl", "batch-2048")
    >>> ax.get_title("left").startswith("batch-2048 overtakes scalerl at")
    True
    """
    ax = axes_or_new(ax)
    crossing = comparison.crossover(x, y)
    first, second = comparison.recipe(x), comparison.recipe(y)
    compute = np.concatenate([fit.data.compute for recipe in (first, second) for fit in recipe.fits])
    ends = [comparison.compute[0], first.last_compute, second.last_compute]
    ends += [1.5 * c for c in (crossing.compute, crossing.confidence_interval[1]) if c < 20.0 * max(ends)]
    axis = ComputeAxis(compute[compute > 0], max(ends))
    grid = axis.grid
    band: Array = percentile_interval(
        first.curves(grid[None, :], Scope.RECIPE) - second.curves(grid[None, :], Scope.RECIPE),
        comparison.confidence_level,
    )
    color = RUN_STYLES[0][0]
    percent = f"{100 * comparison.confidence_level:g} %"
    ax.fill_between(grid, band[:, 0], band[:, 1], color=color, alpha=0.18, lw=0, label=f"{percent} of the difference")
    common = grid <= min(first.last_compute, second.last_compute)
    difference = first.predict(grid) - second.predict(grid)
    ax.plot(grid[common], difference[common], color=color, lw=2, label="difference of the curves")
    ax.plot(grid[~common], difference[~common], color=color, lw=1.6, ls=(0, (4, 2)), label="beyond the data of one")
    ax.axhline(0.0, color=INK, lw=0.9)
    low, high = crossing.confidence_interval
    if np.isfinite(crossing.compute):
        ax.axvspan(
            low, min(high, axis.right), color=RUN_STYLES[1][0], alpha=0.15, lw=0, label=f"{percent} of the crossing"
        )
        ax.plot([crossing.compute], [0.0], "o", color=RUN_STYLES[1][0], ms=7, zorder=5, label="crossing")
    axis.finish(ax, comparison.compute_unit)
    ax.set_ylabel(literal(f"{x} - {y}"))
    unit = unit_text(comparison.compute_unit)
    title = f"{crossing.leader_after} leads throughout"
    if np.isfinite(crossing.compute):
        title = f"{crossing.leader_after} overtakes {crossing.leader_before} at {number(crossing.compute)} {unit}"
    ax.set_title(literal(title), loc="left", fontsize=10)
    ax.legend(loc="best", fontsize=8, framealpha=0.85)
    return ax
