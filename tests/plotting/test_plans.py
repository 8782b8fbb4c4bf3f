"""Tests of `rlscaling/plotting/plans.py`."""

from __future__ import annotations

import pytest

from helpers.scalerl import RUN
from rlscaling import backtest, fit_trace, plan, plot_backtest, plot_plan


def test_plot_backtest_draws_every_cutoff() -> None:
    ax = plot_backtest(backtest(RUN, cutoffs=[5000, 8000], rng=0), method="sigmoid")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["evaluations", "from 5,000", "from 8,000"]


def test_plot_plan_draws_every_way_and_marks_what_never_comes() -> None:
    found = plan(fit_trace(RUN, max_compute=5000), rng=0)
    ax = plot_plan(found)
    assert [label.get_text() for label in ax.get_yticklabels()] == [way.name for way in found.ways]
    bars = [line for line in ax.lines if line.get_linewidth() == 7]
    for bar, way in zip(bars, found.ways, strict=True):
        assert bar.get_xdata()[0] == pytest.approx(way.compute.low)
    never = plot_plan(plan(fit_trace(RUN, max_compute=5000), target_half_width=1e-7, rng=0))
    assert sum(line.get_marker() == ">" for line in never.lines) == len(found.ways)
    assert "no run length" in never.get_title("left")
    assert (
        plot_plan(plan(fit_trace(RUN), target_half_width=0.1, rng=0))
        .get_title("left")
        .startswith("[scalerl] A is known")
    )
