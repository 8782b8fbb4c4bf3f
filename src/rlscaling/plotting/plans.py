"""`plot_backtest` and `plot_plan`: forecasts from each cutoff against the run, and how far to run."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from rlscaling.errors import FitError
from rlscaling.forecasting.extrapolate import method_of
from rlscaling.plotting.compute_axis import INK, ComputeAxis, marker_size
from rlscaling.plotting.elements import GREY, RUN_STYLES, axes_or_new, literal
from rlscaling.printing.numbers import number, rough, unit_text
from rlscaling.validation import renamed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rlscaling.forecasting.backtest_results import Backtest
    from rlscaling.forecasting.plan import Plan


MOST_POINTS = 300  # of a forecast


@renamed(model="method")
def plot_backtest(backtest: Backtest, ax: Axes | None = None, *, method: str | None = None) -> Axes:
    """Draw the forecasts of one method from every cutoff, and the evaluations that were observed.

    Each forecast starts at its cutoff, a dotted line in its colour; the band is the 95 % interval of an evaluation.

    Parameters
    ----------
    backtest : Backtest
        From `backtest`.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.
    method : str, optional
        Which of the methods. Default: ``combined``, ``averaged``, ``sigmoid``, or else the first.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import backtest, datasets, plot_backtest
    >>> ax = plot_backtest(backtest(datasets.load_demo()["scalerl"], cutoffs=[4000, 8000], rng=0))
    >>> len(ax.get_legend().get_texts())
    3
    """
    method = backtest.main_method if method is None else method_of(method)
    if method not in backtest.methods:
        raise FitError(f"method={method!r} was not backtested; choose from {', '.join(backtest.methods)}")
    ax = axes_or_new(ax)
    trace = backtest.trace
    axis = ComputeAxis(trace.compute, float(trace.compute[-1]))
    ax.plot(
        axis.place(trace.compute), trace.pass_rate, "o", color=GREY, mew=0, alpha=0.8, ms=marker_size(len(trace)),
        label="evaluations",
    )  # fmt: skip
    for i, origin in enumerate(backtest.forecasts_of(method)):
        color, marker = RUN_STYLES[i % len(RUN_STYLES)]
        some = np.unique(np.linspace(0, len(origin.compute) - 1, MOST_POINTS).astype(int))  # enough for a smooth curve
        x, y, low, high = (np.array(v)[some] for v in (origin.compute, origin.forecast, origin.low, origin.high))
        if np.isfinite(low).any():
            ax.fill_between(x, low, high, color=color, alpha=0.13, lw=0)
        ax.plot(x, y, color=color, lw=1.8, label=f"from {number(origin.cutoff)}")
        ax.plot(x[-1:], y[-1:], marker, color=color, ms=6)
        ax.axvline(origin.cutoff, color=color, lw=0.9, ls=":")
    axis.finish(ax, trace.compute_unit)
    ax.set_ylabel("score" if trace.scale == "reward" else "held-out pass rate")
    ax.set_title(literal("\n".join(textwrap.wrap(backtest.headline, 85))), loc="left", fontsize=10)
    ax.legend(loc="upper left", fontsize=8, title=literal(f"{trace.name}: {method.replace('-', ' ')}"))
    return ax


def plot_plan(plan: Plan, ax: Axes | None = None) -> Axes:
    """Draw how far to run: a bar for each alternative, 10-90 % of the draws with the median, from the compute so far.

    An arrow at the end of a bar means that in a tenth of the draws or more no run length suffices.

    Parameters
    ----------
    plan : Plan
        From `plan`.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, plan, plot_plan
    >>> ax = plot_plan(plan(fit_trace(datasets.load_demo()["scalerl-8k"], max_compute=5000), rng=0))
    >>> [label.get_text() for label in ax.get_yticklabels()][:2]
    ['as now', 'twice as often']
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    ax = axes_or_new(ax)
    last, unit = plan.fit.compute_range[1], unit_text(plan.fit.compute_unit)
    ends = [value for way in plan.ways for value in (way.compute.low, way.compute.median, way.compute.high)]
    right = 1.3 * max([2.0 * last, *filter(math.isfinite, ends)])
    ax.axvline(last, color=INK, lw=0.9, ls=":")
    ax.annotate(" so far", (last, 1.0), xycoords=("data", "axes fraction"), va="top", fontsize=8, color=INK)
    for k, way in enumerate(plan.ways):
        (color, marker), c = RUN_STYLES[k % len(RUN_STYLES)], way.compute
        low, median, high = (min(value, right) for value in (c.low, c.median, c.high))
        ax.plot([low, high], [k, k], color=color, lw=7, alpha=0.3, solid_capstyle="butt")
        if math.isinf(c.high):
            ax.plot([right / 1.05], [k], ">", color=color, ms=8)
        if math.isfinite(c.median):
            ax.plot([median], [k], marker, color=color, ms=7)
            ax.annotate(rough(c.median), (median, k), (0, 9), textcoords="offset points", ha="center", fontsize=9)
    ax.set_xscale("log")
    ax.set_xlim(last / 1.2, right)
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(lambda value, _: rough(value))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_yticks(range(len(plan.ways)), [way.name for way in plan.ways])
    ax.set_ylim(max(len(plan.ways), 1) - 0.4, -0.7)
    ax.set_xlabel(f"run to ({unit})")
    ax.grid(True, axis="x", color="#DDDDDD", lw=0.6)
    name = f"[{plan.fit.name}] " if plan.fit.name else ""
    ax.set_title(literal("\n".join(textwrap.wrap(name + plan.headline, 85))), loc="left", fontsize=10)
    if not plan.ways:
        ax.set_axis_off()
    return ax
