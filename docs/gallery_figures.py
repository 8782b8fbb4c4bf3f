"""The figures of the gallery: `python docs/gallery_figures.py` draws those in `images/gallery/` anew."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "gallery.md"
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n!\[[^\]\n]+\]\((?P<image>[^)\n]+)\))?", re.MULTILINE | re.DOTALL
)
SIZE, DPI = (8.0, 5.0), 80  # inches; 640 pixels wide
COLORS = 64  # lines and text need no more, and the files stay small


def draw_figures(page: Path = PAGE, folder: Path = DOCS) -> list[Path]:
    """Run the code of the page block by block; write the figure of each to the path, below ``folder``, of its image."""
    names: dict[str, Any] = {}
    written = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        value = run_block(block["code"], names)
        if block["image"]:
            written.append(folder / block["image"])
            save(value.figure, written[-1])
    return written


def run_block(code: str, names: dict[str, Any]) -> Any:
    """Return what the last line of the code stands for, as a notebook shows it."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, PAGE.name, "exec"), names)
    return eval(compile(ast.Expression(last.value), PAGE.name, "eval"), names) if isinstance(last, ast.Expr) else None


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a small file that is the same for the same figure."""
    figure.set_size_inches(SIZE)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.open(drawn).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


if __name__ == "__main__":
    for path in draw_figures():
        print(f"{path.relative_to(DOCS)}: {path.stat().st_size / 1000:.0f} KB")
