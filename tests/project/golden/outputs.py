"""Outputs as text and JSON that are the same on every machine."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rlscaling as rl
from rlscaling.cli import main

from .commands import CALLS

MOST_ITEMS = 100  # of an array that is kept whole


def settled(text: str) -> str:
    """Return text without the version and the folder of this run, and messages as every Python words them."""
    for folder in {str(Path.cwd()), str(Path.cwd().resolve())}:
        text = text.replace(folder, "<folder>")
    text = text.replace(f"rlscaling {rl.__version__}", "rlscaling <version>")
    return re.sub(r"\(choose from [^)]*\)", lambda found: found[0].replace("'", ""), text)


def said(line: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(shlex.split(line))
    return code, out.getvalue(), err.getvalue()


def text_of(line: str) -> str:
    code, out, err = said(line)
    return settled(f"$ rlscaling {line}\n{out}--- exit code {code}; stderr:\n{err}")


def json_of(line: str) -> Any:
    """Return what a command prints with --json, and how it is laid out."""
    code, out, err = said(f"{line} --json")
    value = json.loads(out)
    layout = [n for n in (None, 1, 2, 4) if json.dumps(value, indent=n, ensure_ascii=out.isascii()) == out.rstrip("\n")]
    return {"exit_code": code, "stderr": err.splitlines(), "indent": layout, "ascii": out.isascii(), "stdout": value}


def help_of(command: str) -> str:
    """Return the help with one line an option, in the words of every Python: ``-o FILE, --out FILE`` or not."""
    code, out, err = said(f"{command} --help")
    assert (code, err) == (0, "")
    out = re.sub(r"(?<=\w)-\n {8,}", "-", out)
    out = re.sub(r"\n {8,}", "  ", out)
    out = re.sub(r"^(  --?[\w-]+)(?: [^\s,]+)+?(?=, --\w)", r"\1", out, flags=re.MULTILINE)
    return settled(re.sub(r"(?<=\S) {2,}", " ", out))


def kernels_as_json() -> Any:
    """The kernels that a machine has are its own; kept are the words for the one that every machine has."""
    value = json_of("kernels")
    answer = value["stdout"]
    names = dict.fromkeys(answer["implementations"], "<here>")
    value["stdout"] = answer | {"implementations": names, "cache": "<cache>", "reason": "<why>"}
    return value


def kernels_as_text() -> str:
    text = re.sub(r"kept in .*", "kept in <cache>", text_of("kernels"))
    text = re.sub(r"(?m)^reference: .*", "reference: <why>", text)
    text = re.sub(r"^(  \w+) +(yes|no) .*$", r"\1 <here>", text, flags=re.MULTILINE)
    return re.sub(r" {2,}(?=\S)", "  ", text)


def report_as_json() -> Any:
    value = json_of(CALLS["report"])
    value["stdout"]["bytes"] = "<bytes>"  # drawings differ between versions of matplotlib
    return value


def demo_as_json() -> Any:
    value = json_of(CALLS["demo"])
    value["file"] = json.loads(Path("rlscaling-demo/demo.json").read_text()) == value["stdout"]
    value["files"] = sorted(path.name for path in Path("rlscaling-demo").iterdir())
    return value


def plain(value: Any) -> Any:
    """Return a value as JSON has it, with six significant digits, long arrays by a few of their numbers."""
    if isinstance(value, np.ndarray) and value.size > MOST_ITEMS:
        ordered = np.sort(value, axis=0)
        at = [0, len(value) // 4, len(value) // 2, -1 - len(value) // 4, -1]
        return {"shape": list(value.shape), "quartiles": plain(ordered[at])}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, str | Path):
        return settled(str(value))
    if isinstance(value, Mapping):
        version = {"version": "<version>"} if value.get("version") == rl.__version__ else {}
        return {str(key): plain(item) for key, item in {**value, **version}.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value if value is None or isinstance(value, bool | int) else repr_of(value)


def repr_of(value: Any) -> str:
    """Return the repr without arrays and long digits, which stand elsewhere with their tolerance."""
    text = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", repr(value))
    text = re.sub(r"array\(\[.*?\](, dtype=\w+)?\)", "array(...)", text, flags=re.DOTALL)
    text = re.sub(r"-?\d+\.\d{5,}(e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", text)
    return settled(text)


def frame_of(frame: Any) -> Any:
    frame = frame.reset_index()
    kinds = {str(name): "text" if str(kind) in ("object", "str") else str(kind) for name, kind in frame.dtypes.items()}
    return {"columns": kinds, "rows": frame.to_dict("records")}


ATTRIBUTES = (
    "verdict", "headline", "reason", "advice", "stop_advice", "seed_advice", "n_points", "n_resamples", "probability",
    "standard_error", "confidence_interval", "confidence_interval_new_run", "prediction_interval", "leader", "decided",
    "leaders_by_A", "best", "slopes", "variants", "refused", "verdicts", "healthy", "status", "choice", "warning",
)  # fmt: skip


def told(result: Any) -> Any:
    """Return everything that a result says of itself: text, HTML, dict, frames."""
    kept: dict[str, Any] = {"class": type(result).__name__, "repr": repr_of(result), "str": str(result).splitlines()}
    if kept["str"] == repr(result).splitlines():
        kept["str"] = "the repr"
    if hasattr(result, "_repr_html_"):
        kept["html"] = result._repr_html_().replace("><", ">\n<").splitlines()
    if hasattr(result, "to_dict"):
        kept["to_dict"] = result.to_dict()
    elif dataclasses.is_dataclass(result):
        kept["fields"] = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    frames = {name: getattr(result, name, None) for name in ("to_frame", "table", "pairs")}
    for name, frame in frames.items():
        frame = frame() if callable(frame) else frame
        if hasattr(frame, "reset_index"):
            kept[name] = frame_of(frame)
    kept |= {name: found for name in ATTRIBUTES if not callable(found := getattr(result, name, print))}
    return plain(kept)


def shown(ax: Any) -> Any:
    """Return what a drawing shows: texts, axes, lines and areas in data coordinates."""
    from matplotlib.colors import to_hex

    ax.figure.canvas.draw()
    lines = [
        {"label": line.get_label(), "colour": to_hex(line.get_color()), "style": line.get_linestyle(),
         "marker": str(line.get_marker()), "xy": np.asarray(line.get_xydata(), dtype=float)}
        for line in ax.lines
    ]  # fmt: skip
    areas = [
        {"kind": type(area).__name__.removeprefix("FillBetween"), "label": area.get_label(),
         "colours": [to_hex(c) for c in area.get_facecolor()],
         "paths": [path.vertices for path in area.get_paths()][:3]}
        for area in ax.collections
    ]  # fmt: skip
    axes = {
        name: {"label": axis.get_label_text(), "scale": axis.get_scale(), "limits": np.sort(axis.get_view_interval()),
               "ticks": [tick.get_text() for tick in axis.get_ticklabels()]}
        for name, axis in (("x", ax.xaxis), ("y", ax.yaxis))
    }  # fmt: skip
    legend = ax.get_legend()
    texts = [text.get_text() for text in [*ax.texts, *(legend.get_texts() if legend else ())]]
    return plain({"title": ax.get_title(), **axes, "texts": texts, "lines": lines, "areas": areas})


def drawn(draw: Callable[[], Any]) -> Any:
    """Return what a drawing on a figure of its own shows."""
    import matplotlib.pyplot as plt

    plt.close("all")
    try:
        return shown(draw())
    finally:
        plt.close("all")


def page(report: rl.Report) -> str:
    """Return the page of a report, each drawing by its description and its words."""

    def words(drawing: re.Match[str]) -> str:
        label = re.search(r'aria-label="([^"]*)"', drawing[0])
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawing[0])
        return "<svg: " + " | ".join([label[1] if label else "no description", *texts]) + ">"

    text = re.sub(r"<svg.*?</svg>", words, report.html, flags=re.DOTALL)
    return settled(text.replace("><", ">\n<"))
