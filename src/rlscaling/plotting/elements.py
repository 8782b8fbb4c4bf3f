"""Elements of figures: points, curve, interval, ceiling, budgets, labels; and `FitView`, what they are drawn from."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.errors import FitError
from rlscaling.fitting.budgets import supported_beyond
from rlscaling.fitting.sigmoid_fit import NO_BARE_CEILING, SigmoidFit
from rlscaling.fitting.verdict import Verdict
from rlscaling.forecasting.results import Forecast
from rlscaling.plotting.compute_axis import INK, ComputeAxis, marker_size
from rlscaling.printing.numbers import error_decimals, interval, number
from rlscaling.solver.intervals import containing, percentile_interval
from rlscaling.uncertainty.bootstrap import Bootstrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BLUE, VERMILLION, GREEN, ORANGE, GREY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#777777"
RUN_STYLES = (
    (BLUE, "o"),
    (VERMILLION, "s"),
    (GREEN, "^"),
    ("#CC79A7", "D"),
    (ORANGE, "v"),
    ("#56B4E9", "P"),
    ("#000000", "X"),
)
TITLE_LINES = 3
LEGEND_PLACE = {
    Verdict.NOT_IDENTIFIED: "upper left",  # its wide interval is at the lower right
    Verdict.FLAT: "best",
    Verdict.FALLING: "best",
    Verdict.MISFIT: "best",
}


def draw(ax: Axes, axis: ComputeAxis, view: FitView) -> None:
    """Draw one fit: points, interval, curve and ceiling."""
    fit, data = view.fit, view.fit.data
    left_out = np.logical_not(data.used)
    if data.anchor is not None:
        left_out[data.anchor] = False
    size = marker_size(len(data))
    x, y = axis.place(data.compute), data.pass_rate
    ax.plot(x[data.used], y[data.used], "o", color=GREY, ms=size, mew=0, alpha=0.8, label=f"fitted ({fit.n_points})")
    if left_out.any():
        label = f"left out ({int(left_out.sum())})"
        ax.plot(x[left_out], y[left_out], "o", mfc="none", mec=GREY, ms=size, mew=0.9, label=label)
    if data.anchor is not None:
        ax.plot(
            x[data.anchor], y[data.anchor], "D", color=ORANGE, mec=INK, ms=size + 2.5, mew=0.8, ls="none", zorder=4,
            label="anchor for R0",
        )  # fmt: skip
    _draw_band(ax, axis, view, BLUE, f"{view.percent} interval of the curve")
    _draw_curve(ax, axis, view, BLUE, ("fit", "outside the fitted range"))
    _draw_ceiling(ax, view)


def _draw_band(ax: Axes, axis: ComputeAxis, view: FitView, color: str, label: str) -> None:
    band = view.band(axis.grid)
    if band is None:
        return
    ax.fill_between(axis.grid, band[:, 0], band[:, 1], color=color, alpha=0.18, lw=0, label=label, zorder=1.5)


def _draw_curve(ax: Axes, axis: ComputeAxis, view: FitView, color: str, labels: tuple[str, str]) -> None:
    low, high = view.fit.compute_range
    low = max(low, axis.first)
    inside = np.unique([low, *axis.grid[(axis.grid > low) & (axis.grid < high)], high])
    after = axis.grid[(axis.grid > high) & (axis.grid <= high * view.support)]
    before = axis.grid[axis.grid < low]
    ax.plot(inside, view.fit.predict(inside), color=color, lw=2, label=labels[0], zorder=3)
    for part in (np.r_[before, low], np.r_[high, after]):
        if len(part) > 1:
            ax.plot(part, view.fit.predict(part), color=color, lw=1.6, ls=(0, (4, 2)), label=labels[1], zorder=3)
            labels = (labels[0], "_again")


def _draw_ceiling(ax: Axes, view: FitView) -> None:
    """Draw A as a line with its interval at the right edge; if not identified, only the interval, hatched."""
    across = ax.get_yaxis_transform()
    ci = view.A_interval
    if str(view.fit.verdict) in NO_BARE_CEILING:
        if ci is not None:
            low, high = np.clip(ci, *y_limits(view))
            ax.fill_between(
                [0.95, 1.0], low, high, transform=across, facecolor="none", edgecolor=GREEN, hatch="////", lw=0.8,
                label=f"A not identified, {view.percent}: {interval(*ci)}", zorder=1,
            )  # fmt: skip
        else:
            ax.plot([], [], ls="none", label="A not identified")
        return
    fixed = ci is not None and ci[0] == ci[1]
    label = f"A = {number(view.fit.A)}" + (" (given)" if fixed else "")
    if ci is not None and not fixed:
        label = f"A = {_with_interval(view.fit.A, ci)}"
        ax.fill_between([0.97, 1.0], *ci, transform=across, color=GREEN, alpha=0.45, lw=0, zorder=1)
    ax.axhline(view.fit.A, color=GREEN, lw=1.2, ls="-.", label=label, zorder=2)


def _with_interval(value: float, ci: Sequence[float] | Array) -> str:
    low, high = float(ci[0]), float(ci[1])
    return f"{number(float(value), error_decimals(0.25 * (high - low)))} {interval(low, high)}"


def draw_budgets(ax: Axes, forecast: Forecast, color: str = VERMILLION) -> None:
    """Draw the budgets of a forecast; those at which no number is supported have bars without a marker."""
    ci, new = forecast.confidence_interval, forecast.confidence_interval_new_run
    for i, compute in enumerate(forecast.compute):
        supported = bool(forecast.supported[i])
        span = ci.at(i)
        value = _with_interval(forecast.pass_rate[i], span) if supported else f"not identified {interval(*span)}"
        label = f"at {number(float(compute))}: {value}" if len(forecast.compute) <= 4 else "_many"
        draw_bar(
            ax, float(compute), float(forecast.pass_rate[i]) if supported else None, np.array(span),
            np.array(new.at(i)), color, label,
        )  # fmt: skip
    ax.plot([], [], "_", color=color, ms=8, label=f"{100 * forecast.confidence_level:g} % for a new run")
    if len(forecast.compute) > 4:
        ax.plot([], [], "s-", color=color, ms=5, label=f"forecast, {100 * forecast.confidence_level:g} %")


def draw_bar(
    ax: Axes, x: float, y: float | None, ci: Array, new: Array | None, color: str, label: str, marker: str = "s"
) -> None:
    """Draw a value with its interval (thick), and the interval for a new run (thin, capped)."""
    if new is not None:
        middle = 0.5 * (new[0] + new[1])
        ax.errorbar([x], [middle], yerr=0.5 * (new[1] - new[0]), fmt="none", ecolor=color, elinewidth=1, capsize=4)
    ax.plot([x, x], ci, color=color, lw=3, solid_capstyle="butt", zorder=4, label="_bar" if y is not None else label)
    if y is not None:
        ax.plot([x], [y], marker, color=color, mec="white", mew=0.8, ms=7, zorder=5, ls="none", label=label)


def draw_run(
    ax: Axes, axis: ComputeAxis, view: FitView, color: str, marker: str, compute: float | None
) -> tuple[float, str]:
    """Draw one of several runs; return the height of the end of its curve and a text on its value at ``compute``."""
    data = view.fit.data
    x, size = axis.place(data.compute), marker_size(len(data)) - 1
    left_out = np.logical_not(data.used)
    ax.plot(x[data.used], data.pass_rate[data.used], marker, color=color, ms=size, mew=0, alpha=0.6)
    ax.plot(x[left_out], data.pass_rate[left_out], marker, mfc="none", mec=color, ms=size, mew=0.7, alpha=0.8)
    _draw_band(ax, axis, view, color, "_band")
    _draw_curve(ax, axis, view, color, ("_fit", "_beyond"))
    if view.forecast is not None:
        draw_budgets(ax, view.forecast, color)
    last = min(float(axis.grid[-1]), view.fit.compute_range[1] * view.support)
    height = float(view.fit.predict(last))
    if compute is None or compute > view.fit.compute_range[1] * view.support:
        return height, ""
    value = float(view.fit.predict(compute))
    ci = view.band(np.array([compute]))
    if ci is None:
        return height, f"{number(value, 3)} at {number(compute)}"
    draw_bar(ax, compute, value, ci[0], None, color, "_at", marker)
    return height, f"{_with_interval(value, ci[0])} at {number(compute)}"


def label_ends(
    ax: Axes, labels: list[tuple[float, str, str, str]], *, limits: tuple[float, float] | None = None
) -> None:
    """Write labels to the right of the axes at the heights of their curves, moved apart where they would overlap.

    Heights are in data coordinates, or in coordinates in which ``limits`` are the ends of the axis.
    """
    low, high = ax.get_ylim() if limits is None else limits
    transform = ax.get_yaxis_transform() if limits is None else ax.transAxes
    height = ax.get_position().height * (ax.figure.get_figheight() if hasattr(ax.figure, "get_figheight") else 4.8)
    line = (high - low) * 9 * 1.35 / (72 * height)
    labels = sorted(labels, key=lambda label: label[0])
    texts = ["\n".join(filter(None, (name, value))) for _, value, name, _ in labels]
    half = [0.5 * line * (1 + text.count("\n")) for text in texts]
    places, bottom, top = [], -np.inf, high
    for (y, *_), h in zip(labels, half, strict=True):
        places.append(max(y, bottom + h))
        bottom = places[-1] + h
    for i in reversed(range(len(places))):
        places[i] = min(places[i], top - half[i])
        top = places[i] - half[i]
    for y, text, (*_, color) in zip(places, texts, labels, strict=True):
        ax.text(1.01, y, text, transform=transform, color=color, fontsize=9, va="center", ha="left")


def y_limits(view: FitView) -> tuple[float, float]:
    """Return limits that include the data and, as long as it does not dwarf them, the interval of A."""
    y = view.fit.data.pass_rate
    low, high = float(y.min()), float(y.max())
    room = max(high - low, 0.02 if view.fit.options.bounded else 1e-9)
    ends = [*(view.A_interval or ()), *([] if str(view.fit.verdict) in NO_BARE_CEILING else [view.fit.A])]
    if view.forecast is not None:
        ends += np.ravel(view.forecast.confidence_interval_new_run).tolist()
    ends = [value for value in ends if np.isfinite(value)]
    low = max(min([low, *ends]), low - room)
    high = min(max([high, *ends]), high + 1.5 * room)
    pad = 0.06 * (high - low) if high - low > 1e-6 * room else 0.5 * room  # a constant has no height of its own
    return low - pad, high + pad


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the axes to draw on: those given, or those of a new figure; in a notebook, one that it displays."""
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise FitError(f"ax is a {type(ax).__name__}, not matplotlib axes; options such as bootstrap= go by name")
        return ax
    shell = sys.modules.get("IPython")
    if shell is not None and shell.get_ipython() is not None:
        from matplotlib import pyplot

        return pyplot.subplots(layout="constrained")[1]
    from matplotlib.figure import Figure

    return Figure(layout="constrained").add_subplot()


def literal(text: str) -> str:
    """Return ``text`` with the characters escaped that matplotlib would read as mathematics."""
    return text.replace("$", r"\$")


def y_label(view: FitView) -> str:
    """Return the label of the vertical axis."""
    return "held-out pass rate" if view.fit.options.bounded else "score"


def finish(ax: Axes, axis: ComputeAxis, view: FitView, legend: bool) -> None:
    """Set limits, labels, the title (verdict first) and the legend."""
    axis.finish(ax, view.fit.compute_unit)
    ax.set_ylim(*y_limits(view))
    ax.set_ylabel(y_label(view))
    inches = ax.get_position().width * getattr(ax.figure, "get_figwidth", lambda: 6.4)()
    # the title has the finding, not the advice on how far to continue
    finding = re.split(r"; (?:run to|no run length|look at|plot)", view.fit.reason)[0]
    lines = textwrap.wrap(f"{view.fit.verdict}: {finding}", max(int(inches * 13), 20))
    if len(lines) > TITLE_LINES:
        lines = [*lines[: TITLE_LINES - 1], lines[TITLE_LINES - 1].rsplit(" ", 1)[0] + " ..."]
    ax.set_title(literal("\n".join(lines)), loc="left", fontsize=10)
    if legend:
        where: Any = LEGEND_PLACE.get(view.fit.verdict, "lower right")
        title = literal(view.fit.name) or None
        box = ax.legend(loc=where, fontsize=8, framealpha=0.85, title=title, title_fontproperties={"weight": "bold"})
        box.set_zorder(6)


@dataclass(frozen=True)
class FitView:
    """A fit with the best interval there is: its own, or that of a bootstrap."""

    fit: SigmoidFit
    A_interval: tuple[float, float] | None
    level: float
    bootstrap: Bootstrap | None
    forecast: Forecast | None = None

    def band(self, compute: Array) -> Array | None:
        """Return the interval of the curve at ``compute``, shape (m, 2), as in `extrapolate`; None without draws."""
        if self.bootstrap is None:
            return None
        band = percentile_interval(self.bootstrap.curves(compute), self.level)
        return containing(band, self.fit.predict(compute))

    @property
    def support(self) -> float:
        """How far the curve may be shown, as a multiple of the last compute."""
        return supported_beyond(self.fit.verdict)

    @property
    def percent(self) -> str:
        """The confidence level as it is written, e.g. ``95 %``."""
        return f"{100 * self.level:g} %"


def view(fit: SigmoidFit, boot: Bootstrap | None = None, forecast: Forecast | None = None) -> FitView:
    """Return what is to be drawn of ``fit``: with the replicates of ``boot`` if there are any, else by itself."""
    if boot is not None:
        if boot.fit.params != fit.params:
            raise FitError("bootstrap= belongs to another fit; run bootstrap(fit) on this one, or leave it out")
        ci = boot.confidence_interval["A"]
        return FitView(fit, ci, boot.confidence_level, boot, forecast)
    return FitView(fit, (fit.confidence_interval or {}).get("A"), 0.95, None, forecast)


def view_of(result: SigmoidFit | Bootstrap | Forecast) -> FitView:
    """Return what is to be drawn of any result that can be."""
    if isinstance(result, Forecast):
        return view(result.fit, None, result)
    return view(result.fit, result) if isinstance(result, Bootstrap) else view(result)
