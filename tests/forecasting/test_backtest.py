"""Tests of `rlscaling/forecasting/backtest.py`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from helpers.scalerl import RUN, TRUTH
from rlscaling import FitError, Trace, backtest, fit_trace, plot_backtest, simulate


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
        plot_backtest(backtest(RUN, cutoffs=[8000], methods=("sigmoid",)), model="averaged")


def test_bug_weights_are_cut_with_the_beginnings() -> None:
    """scipy/scipy#21772: the weights were not cut, so every backtest of a weighted run failed."""
    equal = backtest(RUN, weights=np.full(len(RUN), 7.0), methods=("sigmoid", "power-law", "last-value"), rng=0)
    plain = backtest(RUN, methods=("sigmoid", "power-law", "last-value"), rng=0)
    np.testing.assert_allclose([s.mean_error for s in equal.scores], [s.mean_error for s in plain.scores], rtol=1e-6)
    with pytest.raises(FitError, match=f"weights has 3 values for {len(RUN)} evaluations"):
        backtest(RUN, weights=[1.0, 2.0, 3.0])


def test_each_later_evaluation_has_the_interval_of_its_weight() -> None:
    sd = np.where(np.arange(len(RUN)) % 2 == 0, 0.002, 0.04)  # the curve and its drift are uncertain by about 0.005
    noisy = dataclasses.replace(
        RUN, pass_rate=TRUTH.predict(RUN.compute) + np.random.default_rng(3).normal(0, 1, len(RUN)) * sd
    )
    found = backtest(noisy, weights=1.0 / sd**2, cutoffs=[8000], methods=("sigmoid", "averaged"), rng=0)
    for origin in found.origins:
        width, weight = np.array(origin.high) - np.array(origin.low), np.array(origin.weight)
        assert width[weight == weight.min()].min() > 3.0 * width[weight == weight.max()].max()
        assert origin.coverage(2.0)[0] >= 0.85 * origin.coverage(2.0)[1]


def test_bug_a_half_that_cannot_be_fitted_says_why_and_no_other_remedy() -> None:
    """'run on' was the remedy for any reason."""
    with pytest.raises(FitError, match="half of the run cannot be fitted: 0 points .* add min_compute=0") as error:
        backtest(RUN.up_to(2800.0))
    assert "run on" not in str(error.value)


def test_bug_an_error_of_a_hundred_is_printed_as_100() -> None:
    """Scores of any size: the headline said 'off by 1e+02'."""
    trace = simulate(TRUTH, compute=np.arange(0, 16_001, 400.0), n_prompts=None, name="reward")
    bent = Trace(trace.compute, 1e5 * trace.pass_rate + 2.0 * (trace.compute / 400) ** 2, metadata={"scale": "reward"})
    text = str(backtest(bent, rng=0))
    assert "e+" not in text, text
