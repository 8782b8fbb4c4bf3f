"""Tests of `rlscaling/report/page.py`."""

from __future__ import annotations

import re

from helpers.report_pages import DEMO, SECTIONS, Page
from rlscaling import make_report


def test_every_section_stands_and_the_verdict_comes_first(report) -> None:
    page = Page(report.html)
    assert page.sections == [section for section in SECTIONS if section != "receipts"]
    assert page.text[0] == "RL compute scaling"
    assert page.text[1].startswith(("decided: ", "undecided: "))
    assert "three" in page.text[page.text.index("Not used") :]
    assert report.refused[0][0] == "three"


def test_the_page_needs_nothing_else(report) -> None:
    page = Page(report.html)
    outside = [address for address in page.addresses if not address.startswith(("#", "data:"))]
    assert outside == []
    assert "<script" not in report.html
    assert len(page.ids) == len(set(page.ids))
    used = {address[1:] for address in page.addresses if address.startswith("#")}
    used |= set(re.findall(r"url\(#([^)]+)\)", report.html))
    assert used <= set(page.ids)


def test_names_are_text_and_nothing_else() -> None:
    name = '<b>&"bold"\'$x^2$'
    report = make_report({name: DEMO["scalerl"]}, rng=0, title=name)
    page = Page(report.html)
    assert page.text[0] == name
    assert "<b>" not in report.html
    colour = make_report({"#000000": DEMO["scalerl"]}, rng=0, n_resamples=100).html
    assert "var(--ink)" not in re.sub(r"<[^>]*>", "", colour[colour.index("<body>") :])
