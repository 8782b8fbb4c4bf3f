"""Pictures of a trace, a fit, a forecast, several runs and a comparison, drawn on your axes.

The compute axis is logarithmic; compute 0 has a place of its own at the left edge, marked "0", behind a break.
Colours are those of Okabe and Ito, and no colour is the only sign of anything: points left out are hollow, the anchor
for R0 is a diamond, the curve is dashed beyond the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from rlscaling.errors import FitError
from rlscaling.fitting.budgets import SUPPORTED_BEYOND
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.forecasting.results import Forecast
from rlscaling.plotting.compute_axis import ComputeAxis, marker_size
from rlscaling.plotting.elements import (
    BLUE,
    RUN_STYLES,
    draw,
    draw_budgets,
    draw_run,
    finish,
    label_ends,
    literal,
    new_axes,
    view,
    view_of,
    y_label,
    y_limits,
)
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.bootstrap import Bootstrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BEYOND = 3.0  # times the data: how far a curve is drawn when no budget asks for more


def plot_trace(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the evaluations of a run, with their standard errors where the trace has them.

    Parameters
    ----------
    trace : Trace
        The run.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, reached as ``ax.figure``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import datasets, plot_trace
    >>> plot_trace(datasets.load_demo()["scalerl"]).get_ylabel()
    'held-out pass rate'
    """
    ax = ax if ax is not None else new_axes()
    C, y = trace.compute, trace.pass_rate
    axis = ComputeAxis(C, float(C[-1]))
    ax.plot(axis.place(C), y, color=BLUE, lw=0.8, alpha=0.5)
    se = trace.pass_rate_se
    if se is not None:
        ax.errorbar(axis.place(C), y, yerr=np.nan_to_num(se), fmt="none", ecolor=BLUE, elinewidth=0.8, alpha=0.6)
    ax.plot(axis.place(C), y, "o", color=BLUE, ms=marker_size(len(C)))
    axis.finish(ax, trace.compute_unit)
    ax.set_ylabel("score" if trace.scale == "reward" else "held-out pass rate")
    ax.set_title(
        literal(trace.name) + (" (simulated)" if trace.metadata.get("simulated") else ""), loc="left", fontsize=10
    )
    return ax


def plot_fit(
    fit: SigmoidFit, bootstrap: Bootstrap | None = None, ax: Axes | None = None, *, legend: bool = True
) -> Axes:
    """Draw a fit: evaluations, curve and ceiling; the verdict opens the title.

    Parameters
    ----------
    fit : SigmoidFit
        The fit.
    bootstrap : Bootstrap, optional
        Its replicates: adds the interval of the curve, and the interval of ``A`` is theirs.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, reached as ``ax.figure``.
    legend : bool
        Whether to add a legend.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Where the verdict is ``ceiling-not-identified``, ``flat`` or ``falling`` there is no line for ``A``: only its
    interval, hatched. The curve ends where a forecast would no longer be supported.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, plot_fit
    >>> ax = plot_fit(fit_trace(datasets.load_demo()["scalerl"]))
    >>> ax.get_title("left")[:11]
    'identified:'
    """
    seen = view(fit, bootstrap)
    end = fit.compute_range[1] * (BEYOND if seen.support > SUPPORTED_BEYOND else SUPPORTED_BEYOND)
    axis = ComputeAxis(fit.data.compute, end)
    ax = ax if ax is not None else new_axes()
    draw(ax, axis, seen)
    finish(ax, axis, seen, legend)
    return ax


def plot_forecast(
    forecast: Forecast, ax: Axes | None = None, *, bootstrap: Bootstrap | None = None, legend: bool = True
) -> Axes:
    """Draw a forecast: the fit, and the budgets with their intervals.

    The thick bar is the interval for this run, the thin one for a new run of the recipe. A budget where no number is
    supported has bars and no marker.

    Parameters
    ----------
    forecast : Forecast
        From `extrapolate`.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, reached as ``ax.figure``.
    bootstrap : Bootstrap, optional
        The replicates behind it: adds the interval of the curve.
    legend : bool
        Whether to add a legend.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import datasets, extrapolate, fit_trace, plot_forecast
    >>> ax = plot_forecast(extrapolate(fit_trace(datasets.load_demo()["scalerl"]), 100_000, rng=0))
    >>> ax.get_xlabel()
    'compute (GPU-hours)'
    """
    fit = forecast.fit
    seen = view(fit, bootstrap, forecast)
    axis = ComputeAxis(fit.data.compute, max(fit.compute_range[1], float(forecast.compute.max())))
    ax = ax if ax is not None else new_axes()
    draw(ax, axis, seen)
    draw_budgets(ax, forecast)
    finish(ax, axis, seen, legend)
    return ax


def plot_runs(
    results: Mapping[str, SigmoidFit | Bootstrap | Forecast], ax: Axes | None = None, *, at: float | None = None
) -> Axes:
    """Draw several runs over each other, each labelled at the end of its curve.

    Parameters
    ----------
    results : mapping of str to SigmoidFit, Bootstrap or Forecast
        By name. A `Bootstrap` adds the interval of the curve, a `Forecast` its budgets.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, reached as ``ax.figure``.
    at : float, optional
        A budget to draw every curve to; with a `Bootstrap` its interval there is drawn as a bar.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, plot_runs
    >>> demo = datasets.load_demo()
    >>> ax = plot_runs({name: fit_trace(demo[name]) for name in ("scalerl", "batch-2048")}, at=100_000)
    >>> len(ax.texts)
    2
    """
    views = {name: view_of(result) for name, result in results.items()}
    units = {v.fit.compute_unit for v in views.values()}
    if len(units) != 1:
        what = f"compute is in {', '.join(sorted(units))}" if units else "no runs were given"
        raise FitError(f"{what}; give one or more runs with compute in one unit")
    ends = [v.fit.compute_range[1] * min(BEYOND, v.support) for v in views.values()]
    ends += [at] if at is not None else []
    ends += [float(v.forecast.compute.max()) for v in views.values() if v.forecast is not None]
    axis = ComputeAxis(np.concatenate([v.fit.data.compute for v in views.values()]), max(ends))
    ax = ax if ax is not None else new_axes()
    labels = []
    for i, (name, one) in enumerate(views.items()):
        color, marker = RUN_STYLES[i % len(RUN_STYLES)]
        labels.append((*draw_run(ax, axis, one, color, marker, at), literal(f"{name}: {one.fit.verdict}"), color))
    limits = np.array([y_limits(v) for v in views.values()])
    ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())
    label_ends(ax, labels)
    axis.finish(ax, units.pop())
    ax.set_ylabel(y_label(next(iter(views.values()))))
    return ax
