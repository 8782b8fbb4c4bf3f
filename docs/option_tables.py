"""Tables of the command's options, made from the classes that define them; `conf.py` puts them on the pages."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterable

from rlscaling.option_fields import info_of


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
