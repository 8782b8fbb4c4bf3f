"""Pictures of the command: one run large, several as panels."""

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


PICTURES = (".png", ".svg", ".pdf")
ONE, PANEL, WIDE = (7.5, 5.0), (4.6, 3.6), (9.0, 5.0)  # inches


def draw_answer(given: Analysis, ax: Axes, *, legend: bool = True) -> None:
    """Draw the forecast of a run where there is one, else its fit."""
    if given.forecast is not None:
        plot_forecast(given.forecast, ax, bootstrap=given.bootstrap, legend=legend)
    else:
        plot_fit(given.fit, ax, bootstrap=given.bootstrap, legend=legend)


def save_picture(answers: Sequence[Analysis], path: Path) -> None:
    """Draw one run large, or several as panels named above their verdicts, and write the file."""
    from matplotlib.figure import Figure

    if len(answers) == 1:
        figure = Figure(figsize=ONE, layout="constrained")
        draw_answer(answers[0], figure.add_subplot())
    else:
        columns = min(max(2, math.isqrt(len(answers) - 1) + 1), 12)
        rows = math.ceil(len(answers) / columns)
        figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
        for given, ax in zip(answers, figure.subplots(rows, columns, squeeze=False).ravel(), strict=False):
            draw_answer(given, ax, legend=False)
            ax.set_title(f"{literal(given.name)}\n{ax.get_title('left')}", loc="left", fontsize=9)
        for ax in figure.axes[len(answers) :]:
            ax.set_axis_off()
    write_figure(figure, path)


def save_wide(path: Path, draw: Callable[[Axes], object]) -> None:
    """Draw one wide picture, with room for labels right of the curves, write it and say so."""
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
