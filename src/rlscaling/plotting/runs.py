"""`plot_trace`, `plot_fit`, `plot_forecast` and `plot_runs`: figures of single runs, and of several on one axis.

The compute axis is logarithmic; compute 0 is at the left edge, marked "0", before a break. Colours are those of Okabe
and Ito, and nothing is told by colour alone: points left out are hollow, the observation of R0 is a diamond, the curve
is dashed beyond the data.
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
    axes_or_new,
    draw,
    draw_budgets,
    draw_run,
    finish,
    label_ends,
    literal,
    view,
    view_of,
    y_label,
    y_limits,
)
from rlscaling.traces.trace import Trace
from rlscaling.uncertainty.bootstrap import Bootstrap
from rlscaling.validation import renamed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BEYOND = 3.0  # times the data: how far a curve is drawn unless a budget lies beyond


def plot_trace(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the evaluations of a run, with their standard errors where the trace has them.

    Parameters
    ----------
    trace : Trace
        The run.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import datasets, plot_trace
    >>> plot_trace(datasets.load_demo()["scalerl"]).get_ylabel()
    'held-out pass rate'
    """
    ax = axes_or_new(ax)
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
    fit: SigmoidFit, ax: Axes | None = None, *, bootstrap: Bootstrap | None = None, legend: bool = True
) -> Axes:
    """Draw a fit: evaluations, curve and ceiling; the verdict opens the title.

    Parameters
    ----------
    fit : SigmoidFit
        The fit.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.
    bootstrap : Bootstrap, optional
        Its replicates, which add the interval of the curve and give the interval of ``A``.
    legend : bool
        Whether to add a legend.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    With the verdict ``ceiling-not-identified``, ``flat`` or ``falling`` there is no line for ``A``: only its interval,
    hatched. The curve ends where a forecast would no longer be supported.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, plot_fit
    >>> ax = plot_fit(fit_trace(datasets.load_demo()["scalerl"]))
    >>> ax.get_title("left")[:12]
    'approximate:'
    """
    shown = view(fit, bootstrap)
    end = fit.compute_range[1] * (BEYOND if shown.support > SUPPORTED_BEYOND else SUPPORTED_BEYOND)
    axis = ComputeAxis(fit.data.compute, end)
    ax = axes_or_new(ax)
    draw(ax, axis, shown)
    finish(ax, axis, shown, legend)
    return ax


def plot_forecast(
    forecast: Forecast, ax: Axes | None = None, *, bootstrap: Bootstrap | None = None, legend: bool = True
) -> Axes:
    """Draw a forecast: the fit, and the budgets with their intervals.

    The thick bar is the interval for this run, the thin one that for a new run of the recipe. A budget at which no
    number is supported has bars but no marker.

    Parameters
    ----------
    forecast : Forecast
        From `extrapolate`.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.
    bootstrap : Bootstrap, optional
        The replicates of the forecast, which add the interval of the curve.
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
    shown = view(fit, bootstrap, forecast)
    axis = ComputeAxis(fit.data.compute, max(fit.compute_range[1], float(forecast.compute.max())))
    ax = axes_or_new(ax)
    draw(ax, axis, shown)
    draw_budgets(ax, forecast)
    finish(ax, axis, shown, legend)
    return ax


@renamed(at="compute")
def plot_runs(
    results: Mapping[str, SigmoidFit | Bootstrap | Forecast], ax: Axes | None = None, *, compute: float | None = None
) -> Axes:
    """Draw several runs on one axis, each labelled at the end of its curve.

    Parameters
    ----------
    results : mapping of str to SigmoidFit, Bootstrap or Forecast
        By name. A `Bootstrap` adds the interval of the curve, a `Forecast` its budgets.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, available as ``ax.figure``.
    compute : float, optional
        A budget up to which every curve is drawn; a `Bootstrap` adds its interval there as a bar.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, plot_runs
    >>> demo = datasets.load_demo()
    >>> ax = plot_runs({name: fit_trace(demo[name]) for name in ("scalerl", "batch-2048")}, compute=100_000)
    >>> len(ax.texts)
    2
    """
    views = {name: view_of(result) for name, result in results.items()}
    units = {v.fit.compute_unit for v in views.values()}
    if len(units) != 1:
        what = f"compute is in {', '.join(sorted(units))}" if units else "no runs were given"
        raise FitError(f"{what}; give one or more runs with compute in one unit")
    ends = [v.fit.compute_range[1] * min(BEYOND, v.support) for v in views.values()]
    ends += [compute] if compute is not None else []
    ends += [float(v.forecast.compute.max()) for v in views.values() if v.forecast is not None]
    axis = ComputeAxis(np.concatenate([v.fit.data.compute for v in views.values()]), max(ends))
    ax = axes_or_new(ax)
    labels = []
    for i, (name, run) in enumerate(views.items()):
        color, marker = RUN_STYLES[i % len(RUN_STYLES)]
        labels.append((*draw_run(ax, axis, run, color, marker, compute), literal(f"{name}: {run.fit.verdict}"), color))
    limits = np.array([y_limits(v) for v in views.values()])
    ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())
    label_ends(ax, labels)
    axis.finish(ax, units.pop())
    ax.set_ylabel(y_label(next(iter(views.values()))))
    return ax
