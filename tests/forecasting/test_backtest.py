"""Tests of `rlscaling/forecasting/backtest.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.scalerl import RUN, TRUTH
from rlscaling import FitError, backtest, fit_trace, plot_backtest, simulate


def test_backtest_of_a_noise_free_sigmoid_is_exact() -> None:
    trace = simulate(TRUTH, compute=np.arange(0, 16_001, 200.0), n_prompts=None, name="exact")
    found = backtest(trace, cutoffs=[8000], rng=0)
    assert found.score("sigmoid", 2.0).median_error < 1e-6
    late = trace.compute > 0.8 * 16_000
    last = float(np.mean(trace.pass_rate[trace.compute <= 8000][-2:]))  # the last twentieth of 41
    assert found.score("last-value", 2.0).median_error == pytest.approx(abs(last - trace.pass_rate[late].mean()))
    assert found.score("sigmoid", 2.0).n_better == 1


def test_backtest_counts_what_its_table_says() -> None:
    found = backtest(RUN, methods=("sigmoid", "last-value"), rng=0)
    frame = found.to_frame()
    chosen = frame[(frame.method == "sigmoid") & (frame.beyond <= 2.0 * (1 + 1e-9))]
    covered = int(((chosen.low <= chosen.actual) & (chosen.actual <= chosen.high)).sum())
    score = found.score("sigmoid", 2.0)
    assert (score.n_covered, score.n_intervals) == (covered, len(chosen))
    assert found.to_dict()["scores"][0]["held"] == covered
    assert str(found).startswith("on this run a forecast to 2x (sigmoid) has been off by")
    assert "nearest at 2x" in found.advice
    assert found.headline in found._repr_html_()


def test_backtest_refuses_bad_input() -> None:
    with pytest.raises(FitError, match="no later evaluations"):
        backtest(RUN, cutoffs=[16_000])
    with pytest.raises(FitError, match="cutoff 300: .* too few"):
        backtest(RUN, cutoffs=[300])
    with pytest.raises(FitError, match="choose from"):
        backtest(RUN, methods=("crystal_ball",))
    with pytest.raises(FitError, match="takes a Trace"):
        backtest(fit_trace(RUN))  # type: ignore[arg-type]
    with pytest.raises(FitError, match="first half of the run cannot be fitted"):
        backtest(RUN.up_to(3500.0))
    with pytest.raises(FitError, match="not backtested"):
        plot_backtest(backtest(RUN, cutoffs=[8000], rng=0), model="averaged")
