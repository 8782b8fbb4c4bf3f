"""Figures of a command: one run large, several as panels."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscaling.batch.analysis import Analysis
from rlscaling.plotting.elements import literal
from rlscaling.plotting.runs import plot_fit, plot_forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


ONE, PANEL, WIDE = (7.5, 5.0), (4.6, 3.6), (9.0, 5.0)  # inches


def draw_analysis(analysis: Analysis, ax: Axes, *, legend: bool = True) -> None:
    """Draw the forecast of a run where there is one, else its fit."""
    if analysis.forecast is not None:
        plot_forecast(analysis.forecast, ax, bootstrap=analysis.bootstrap, legend=legend)
    else:
        plot_fit(analysis.fit, ax, bootstrap=analysis.bootstrap, legend=legend)


def save_figure(analyses: Sequence[Analysis], path: Path) -> None:
    """Draw one run large, or several as panels named above their verdicts, and write the file."""
    from matplotlib.figure import Figure

    if len(analyses) == 1:
        figure = Figure(figsize=ONE, layout="constrained")
        draw_analysis(analyses[0], figure.add_subplot())
    else:
        columns = min(max(2, math.isqrt(len(analyses) - 1) + 1), 12)
        rows = math.ceil(len(analyses) / columns)
        figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
        for analysis, ax in zip(analyses, figure.subplots(rows, columns, squeeze=False).ravel(), strict=False):
            draw_analysis(analysis, ax, legend=False)
            ax.set_title(f"{literal(analysis.name)}\n{ax.get_title('left')}", loc="left", fontsize=9)
        for ax in figure.axes[len(analyses) :]:
            ax.set_axis_off()
    write_figure(figure, path)


def save_wide(path: Path, draw: Callable[[Axes], object]) -> None:
    """Draw one wide figure, with room for labels right of the curves, write it and say so."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=WIDE, layout="constrained")
    draw(figure.add_subplot())
    write_figure(figure, path)
    print(f"rlscaling: drew {path}", file=sys.stderr)


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure without the date, so that the same numbers give the same file."""
    undated: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
    suffix = path.suffix.lower()
    figure.savefig(path, dpi=150, format=suffix[1:], metadata=undated[suffix])
