"""Tests of `rlscaling/printing/document.py`."""

from __future__ import annotations

from rlscaling.printing.document import html_table, text_table


def test_tables():
    assert text_table([["a", "1"], ["long", "22"]], ["", "n"]) == "         n\n  a      1\n  long  22"
    html = html_table([["<b>", "1"]], ["x & y", "n"], "t < u", ["note > here"])
    assert "&lt;b&gt;" in html
    assert "x &amp; y" in html
    assert "t &lt; u" in html
    assert "note &gt; here" in html
