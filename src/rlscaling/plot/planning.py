"""The picture of a backtest: the run, and what was forecast from each cutoff."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from rlscaling.errors import FitError

from .axis import ComputeAxis, marker_size
from .drawing import GREY, RUN_STYLES, literal, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rlscaling.backtesting import Backtest


def plot_backtest(found: Backtest, ax: Axes | None = None, *, model: str | None = None) -> Axes:
    """Draw the forecasts of one model from every cutoff over the evaluations that came.

    Each forecast starts at its cutoff, a dotted line of its colour; the band is the 95 % interval of an evaluation.

    Parameters
    ----------
    found : Backtest
        From `backtest`.
    ax : matplotlib Axes, optional
        Where to draw. None makes a figure, reached as ``ax.figure``.
    model : str, optional
        Which of the models. Default: ``auto``, else ``sigmoid``, else the first.

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
    model = model or next(m for m in ("auto", "sigmoid", *found.models) if m in found.models)
    if model not in found.models:
        raise FitError(f"model={model!r} was not backtested; choose from {', '.join(found.models)}")
    ax = ax if ax is not None else new_axes()
    trace = found.trace
    axis = ComputeAxis(trace.compute, float(trace.compute[-1]))
    ax.plot(
        axis.place(trace.compute), trace.pass_rate, "o", color=GREY, mew=0, alpha=0.8, ms=marker_size(len(trace)),
        label="evaluations",
    )  # fmt: skip
    for i, origin in enumerate(found.of(model)):
        color, marker = RUN_STYLES[i % len(RUN_STYLES)]
        x, low, high = np.array(origin.compute), np.array(origin.low), np.array(origin.high)
        if np.isfinite(low).any():
            ax.fill_between(x, low, high, color=color, alpha=0.13, lw=0)
        ax.plot(x, origin.forecast, color=color, lw=1.8, label=f"from {origin.cutoff:,.4g}")
        ax.plot(x[-1:], origin.forecast[-1:], marker, color=color, ms=6)
        ax.axvline(origin.cutoff, color=color, lw=0.9, ls=":")
    axis.finish(ax, trace.compute_unit)
    ax.set_ylabel("score" if trace.scale == "reward" else "held-out pass rate")
    ax.set_title(literal("\n".join(textwrap.wrap(found.headline, 85))), loc="left", fontsize=10)
    ax.legend(loc="upper left", fontsize=8, title=literal(f"{trace.name}: {model.replace('_', ' ')}"))
    return ax
