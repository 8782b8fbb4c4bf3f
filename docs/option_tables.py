"""Tables of the command's options; `python docs/option_tables.py` writes them into `command-line.md` anew."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

from rlscaling.batch.analysis import AnalysisOptions
from rlscaling.fitting.options import FitOptions
from rlscaling.option_fields import info_of
from rlscaling.readers.options import ReadOptions

PAGE = Path(__file__).resolve().parent / "command-line.md"
TABLE = re.compile(r"^(<!-- (\w+) options: [^\n]* -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)


def tables() -> dict[str, str]:
    """Return the tables by the name in their marker."""
    return {
        "fit": option_table(FitOptions, first=("min_compute", "max_compute", "exclude")),
        "read": option_table(ReadOptions),
        "analysis": option_table(AnalysisOptions),
    }


def with_tables(text: str) -> str:
    """Return the text of the page with the tables as the source defines them now."""
    new = tables()
    if [match[2] for match in TABLE.finditer(text)] != list(new):
        raise ValueError(
            f"the page needs one marker '<!-- NAME options: ... -->' each for {', '.join(new)}, in this order"
        )
    return TABLE.sub(lambda match: f"{match[1]}\n{new[match[2]]}\n\n", text)


def option_table(options_class: type, *, first: Iterable[str] = ()) -> str:
    """Return a Markdown table: each option of a class with its meaning and default, those in ``first`` first."""
    names = [field.name for field in dataclasses.fields(options_class) if "option" in field.metadata]
    names = [*first, *(name for name in names if name not in first)]
    rows = [_row(options_class, name) for name in names]
    return "\n".join(
        ["| option | meaning | default |", "| --- | --- | --- |", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def _row(options_class: type, name: str) -> tuple[str, str, str]:
    info = info_of(options_class, name)
    default = options_class.__dataclass_fields__[name].default  # type: ignore[attr-defined]
    flags = (info.flag or f"--{name.replace('_', '-')}").split()
    if info.argparse.get("action") is argparse.BooleanOptionalAction:
        flags += [f"--no-{flag.removeprefix('--')}" for flag in flags]
    value = " ".join([info.metavar] if isinstance(info.metavar, str) else info.metavar or ())
    flags[-1] += f" {value}" if value else ""
    if info.argparse.get("nargs") == "+":
        flags[-1] += f" [{value} ...]"
    meaning = re.sub(r"--[a-z-]+", r"`\g<0>`", info.help)
    if info.choices and not all(choice in info.help for choice in info.choices):
        meaning += f"; one of {', '.join(f'`{choice}`' for choice in info.choices)}"
    return ", ".join(f"`{_cell(flag)}`" for flag in flags), _cell(meaning), _cell(info.default_help or f"{default}")


def _cell(text: str) -> str:
    """Return text as it stands in a cell, where a bar would begin the next one."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
