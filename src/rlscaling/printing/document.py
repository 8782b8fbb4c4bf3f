"""`Document(headline, tables, notes)` with a plain-text and an HTML rendering; the base of every printed result."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], header: Sequence[str] | None = None, indent: str = "  ") -> str:
    """Return aligned columns: the first to the left, the others to the right."""
    lines = ([list(header)] if header else []) + [list(r) for r in rows]
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
    out = []
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]
        out.append(indent + "  ".join(cells).rstrip())
    return "\n".join(out)


def html_table(rows: Sequence[Sequence[str]], header: Sequence[str], title: str, notes: Sequence[str] = ()) -> str:
    """Return a small self-contained HTML table with a title above and notes below."""
    head = "".join(f"<th style='text-align:left'>{html.escape(h)}</th>" for h in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    foot = "".join(f"<div><small>{html.escape(n)}</small></div>" for n in notes)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><b>{html.escape(title)}</b>{table}{foot}</div>"


class Printed(ABC):
    """A result that is a sentence, a table and lines below it: plain text in a terminal, HTML in a notebook."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The answer in a sentence."""

    @property
    @abstractmethod
    def header(self) -> Sequence[str]:
        """Names of the columns of `rows`."""

    @abstractmethod
    def rows(self) -> list[list[str]]:
        """Return the table as text."""

    def foot(self) -> list[str]:
        """Return the lines below the table."""
        return []

    def __str__(self) -> str:
        rows = self.rows()
        table = text_table(rows, self.header) if rows else ""
        return "\n".join(filter(None, [self.headline, table, *(f"  {text}" for text in self.foot())]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.headline})"

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self.header, self.headline, self.foot())
