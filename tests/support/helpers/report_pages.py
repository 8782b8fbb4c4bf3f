"""Runs for a report, and a parser of its page."""

from __future__ import annotations

from html.parser import HTMLParser

from rlscaling import datasets

DEMO = datasets.load_demo()
RUNS = {name: DEMO[name] for name in ("scalerl", "batch-2048")} | {"three": DEMO["scalerl"].up_to(500)}
SECTIONS = ["verdicts", "comparison", "runs", "refused", "receipts", "method"]


class Page(HTMLParser):
    """Ids, sections, addresses and visible text of a page; tags must be closed in order."""

    VOID = ("meta", "link", "br", "img", "use", "path", "image")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.sections: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self.sections += [given["id"]] if tag == "section" and given.get("id") else []
        self.addresses += [value for name, value in attrs if value and name in ("href", "src", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "svg", "title"} & set(self.open):
            self.text += [data.strip()] if data.strip() else []
