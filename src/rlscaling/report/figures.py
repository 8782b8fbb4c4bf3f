"""Figures of a report: SVG within the page, whose ink, grid and background follow the reader's colour scheme."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rlscaling.plotting.compute_axis import INK
from rlscaling.plotting.elements import BLUE, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WIDE, SINGLE = (9.0, 5.0), (7.5, 4.4)  # inches
MOST_MARKERS, DPI = 400, 150
COLOURS = {  # fixed colours of the figures, and the property of the page that replaces each
    INK: "ink", "#000000": "ink", "#ffffff": "paper", "#dddddd": "rule", BLUE: "blue", GREY: "grey",
}  # fmt: skip


def svg(draw: Callable[[Axes], object], size: tuple[float, float], label: str, prefix: str) -> str:
    """Return a figure as an SVG element.

    Parameters
    ----------
    draw : callable
        Draws on the axes passed to it.
    size : tuple of float
        Inches.
    label : str
        What the figure shows, for readers who cannot see it.
    prefix : str
        Of the identifiers in it: two figures of a page must not share any.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "rlscaling"}):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        for line in ax.lines:  # SVG has an element per point: beyond some hundreds an image is smaller
            line.set_rasterized(line.get_marker() not in ("", "None") and np.size(line.get_xdata()) > MOST_MARKERS)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True, dpi=DPI)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", text)
    text = re.sub(r"<[^>]*>", lambda tag: _restyled(tag[0]), text)
    text = re.sub(r"\s*\n\s*", " ", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", f'<svg role="img" aria-label="{_attribute(label)}"', 1)


def _restyled(tag: str) -> str:
    """Return a tag with two decimals and the colours of the page; the text between tags is left alone."""
    tag = re.sub(r"(\d\.\d\d)\d+", r"\1", tag)
    for colour, name in COLOURS.items():
        tag = re.sub(colour, f"var(--{name})", tag, flags=re.IGNORECASE)
    return tag


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
