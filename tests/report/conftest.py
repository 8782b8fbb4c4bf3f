"""A report on three runs, one of them too short."""

from __future__ import annotations

import pytest

from helpers.report_pages import RUNS
from rlscaling import make_report


@pytest.fixture(scope="module")
def report():
    return make_report(RUNS, rng=0)
