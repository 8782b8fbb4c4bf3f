"""Backtests, plans and the monitor: closed forms, planted changes, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.scalerl import RUN, TRUTH
from rlscaling import FitError, Trace, fit_sigmoid, fit_trace, plan, refit


def test_plan_grows_with_the_demand_and_says_when_reached() -> None:
    fit = fit_trace(RUN, max_compute=5000)
    loose, tight = (plan(fit, target_half_width=x, rng=0).needed for x in (0.04, 0.01))
    assert fit.compute_range[1] <= loose.low <= loose.median <= loose.high
    assert tight.median > loose.median
    short = plan(fit_trace(RUN), rng=0)
    assert not short.reached
    assert short.needed.median >= 7.5 * short.fit.C_mid
    assert str(short).startswith("A is known to ±0.02 if the run keeps to the sigmoid")
    done = plan(fit_trace(RUN), target_half_width=0.03, rng=0)
    assert done.reached
    assert done.needed is None
    assert str(done).startswith("A is known to ±0.03 already")
    assert done.to_dict()["reached"] is True


def test_plan_alternatives_never_need_more() -> None:
    found = plan(fit_trace(RUN, max_compute=5000), target_half_width=0.01, rng=0)
    now, often, prompts = (way.compute.median for way in found.ways)
    assert often <= now
    assert prompts <= now
    assert [way.name for way in found.ways] == ["as now", "twice as often", "4 times the prompts"]


def test_more_prompts_help_as_far_as_sampling_is_the_noise() -> None:
    """White noise that is all sampling: four times the prompts are a quarter of the variance."""
    from rlscaling.forecasting.plan import _rate

    rho, sd = np.array([0.0, 0.9]), np.array([0.01, 0.01])
    assert _rate(1e-4, 1.0, 4.0)(rho, sd)[0] == pytest.approx(4.0)
    assert _rate(1e-4, 2.0, 1.0)(rho, sd)[0] == pytest.approx(2.0)
    assert np.all(_rate(0.0, 1.0, 4.0)(rho, sd) == pytest.approx(1.0))


def test_stop_advice_matches_the_curve_late() -> None:
    found = plan(fit_trace(RUN), next_compute=10_000, rng=0)
    true_gain = float(TRUTH.predict(26_000) - TRUTH.predict(16_000))
    assert abs(found.gain - true_gain) < 2.5 * found.gain_error
    assert found.stop_advice.startswith("the next 10,000 GPU-hours buy")


def test_plan_of_rewards_takes_shares_of_their_range() -> None:
    part = RUN.up_to(5000)
    fits = [fit_sigmoid(part.compute, unit * part.pass_rate - 30, A_max=np.inf) for unit in (1.0, 50.0)]
    one, other = (plan(fit, rng=0) for fit in fits)
    assert other.present == pytest.approx(one.present, rel=1e-6)
    assert other.needed.median == pytest.approx(one.needed.median, rel=0.05)
    assert [width for _, width in other.seeds] == pytest.approx([width for _, width in one.seeds], rel=1e-6)


def test_plan_is_the_same_for_the_same_seed() -> None:
    fit = fit_trace(RUN, max_compute=6000)
    assert plan(fit, compute=20_000, rng=1).to_dict() == plan(fit, compute=20_000, rng=1).to_dict()


def test_plan_refuses_or_says_so() -> None:
    fit = fit_trace(RUN, max_compute=5000)
    with pytest.raises(FitError, match="not a positive number"):
        plan(fit, target_half_width=0.0)
    with pytest.raises(FitError, match="seed_sd=-0.1 must be"):
        plan(fit, seed_sd=-0.1)
    with pytest.raises(FitError, match="A was given as 0.6"):
        plan(refit(fit, A=0.6))
    with pytest.raises(FitError, match="too few for a plan"):
        plan(fit_trace(RUN, max_compute=2200))
    with pytest.raises(FitError, match="takes a SigmoidFit"):
        plan(RUN)  # type: ignore[arg-type]
    unreachable = plan(fit, target_half_width=1e-7, rng=0)
    assert "no run length" in unreachable.headline
    assert unreachable.to_dict()["ways"][0]["median"] is None
    C = np.arange(0.0, 16_001.0, 400.0)
    flat = fit_trace(Trace(C, 0.4 + 0.005 * np.random.default_rng(0).standard_normal(len(C))))
    assert plan(flat, rng=0).headline.startswith("no plan: the verdict is flat")
