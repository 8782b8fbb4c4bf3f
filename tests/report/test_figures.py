"""Tests of `rlscaling/report/figures.py`."""

from __future__ import annotations

import re


def test_pictures_keep_their_numbers_and_follow_the_colours_of_the_page(report) -> None:
    pictures = re.findall(r"<svg.*?</svg>", report.html, flags=re.DOTALL)
    assert len(pictures) == 1 + 2 * 2
    assert all('role="img"' in picture and "aria-label=" in picture for picture in pictures)
    assert not any("#222222" in picture or "#ffffff" in picture.lower() for picture in pictures)
    labels = re.findall(r">([^<>]*P\(best\)[^<>]*)<", pictures[0])
    assert all(re.search(r"0\.\d{3}", label) for label in labels), labels
