"""The bytes of a drawn figure."""

from __future__ import annotations

import io

from matplotlib.axes import Axes


def drawn(ax: Axes) -> bytes:
    stream = io.BytesIO()
    ax.figure.savefig(stream, format="png", dpi=40)
    return stream.getvalue()
