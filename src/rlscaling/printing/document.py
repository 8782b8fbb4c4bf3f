"""`Document`: a headline, tables and footnotes, as plain text and as HTML; the base of every printed result."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlscaling.serialization import plain


@dataclass(frozen=True)
class Table:
    """A table of text: the first column names the row.

    Attributes
    ----------
    header : tuple of str
        Names of the columns.
    rows : tuple of tuple of str
        As many cells each as the header.
    title : str
        A line above; empty for none.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""

    @classmethod
    def of(cls, header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
        """Return the table of any sequences."""
        return cls(tuple(header), tuple(tuple(row) for row in rows), title)


class Document(ABC):
    """A result that prints itself: what it says in one line, tables, and lines below them.

    A subclass gives the parts. Plain text, the HTML of notebooks, the layout of a terminal and the page of a report are
    made of them, here and in `rlscaling.cli.output`.
    """

    @property
    @abstractmethod
    def headline(self) -> str:
        """The result in one line."""

    def tables(self) -> Sequence[Table]:
        """Return the tables, in order."""
        return ()

    def footnotes(self) -> Sequence[str]:
        """Return the lines below the tables."""
        return ()

    @abstractmethod
    def _record(self) -> dict[str, Any]:
        """Return the fields of the result by name, for `to_dict`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready values: arrays as lists, numbers that are not finite as None."""
        return dict(plain(self._record()))

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.headline})"

    def _repr_html_(self) -> str:
        return as_html(self)


def as_text(document: Document) -> str:
    """Return a document as plain text: one table close under the headline, several apart from each other."""
    tables = [table for table in document.tables() if table.rows]
    apart = len(tables) > 1
    lines = [document.headline]
    for table in tables:
        lines += [""] * apart + ([f"  {table.title}"] if table.title else []) + [text_table(table.rows, table.header)]
    return "\n".join([*lines, *([""] * apart), *(f"  {text}" for text in document.footnotes())])


def as_html(document: Document) -> str:
    """Return a document as HTML for notebooks: no style sheet, no script."""
    parts = [f"<div><b>{html.escape(document.headline)}</b></div>"]
    parts += [_html_of(table) for table in document.tables() if table.rows]
    parts += [f"<div><small>{html.escape(text)}</small></div>" for text in document.footnotes()]
    return f"<div>{''.join(parts)}</div>"


def _html_of(table: Table) -> str:
    title = f"<div>{html.escape(table.title)}</div>" if table.title else ""
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in table.header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def text_table(rows: Sequence[Sequence[str]], header: Sequence[str] | None = None, indent: str = "  ") -> str:
    """Return aligned columns: the first to the left, the others to the right."""
    lines = ([list(header)] if header else []) + [list(r) for r in rows]
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
    out = []
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]
        out.append(indent + "  ".join(cells).rstrip())
    return "\n".join(out)
