"""What a backtest says: directions, pooled scores, families."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling import FamilyBacktest, FitError, SigmoidParams, Trace, backtest, simulate
from rlscaling.forecasting.backtest_results import Backtest, ForecastOrigin

C = np.arange(0.0, 16_001.0, 400.0)
FAST = ("sigmoid", "last-value")


def runs(n: int) -> list[Trace]:
    return [
        simulate(SigmoidParams(0.55 + 0.02 * k, 1.8, 2000.0, 0.3), compute=C, rng=k, name=f"run{k}") for k in range(n)
    ]


def origin(cutoff: float, actual: list[float], forecast: float) -> ForecastOrigin:
    n = len(actual)
    compute = tuple(np.linspace(1.1, 2.0, n) * cutoff)
    nothing = (float("nan"),) * n
    beyond = tuple(np.array(compute) / cutoff)
    return ForecastOrigin(
        "sigmoid", cutoff, compute, beyond, tuple(actual), (forecast,) * n, nothing, nothing, (1.0,) * n
    )


def test_direction_of_one_cutoff_counts_evaluations() -> None:
    found = Backtest(runs(1)[0], ("sigmoid",), (100.0,), (origin(100.0, [0.52] * 10, 0.51),), 0)
    assert found.direction == "all 10 later evaluations lie above the forecast, on average 0.01 higher"
    mixed = Backtest(runs(1)[0], ("sigmoid",), (100.0,), (origin(100.0, [0.5, 0.52, 0.5, 0.48], 0.51),), 0)
    assert mixed.direction.startswith("1 of 4 later evaluations lie above the forecast")
    assert mixed.direction.endswith("lower")


def test_direction_of_several_cutoffs_counts_forecasts() -> None:
    below = origin(100.0, [0.4] * 5, 0.5), origin(140.0, [0.4] * 5, 0.6)
    found = Backtest(runs(1)[0], ("sigmoid",), (100.0, 140.0), below, 0)
    assert found.direction == "the run came out above none of 2 forecasts to 2x, on average 0.15 lower"
    assert found.direction in str(found)
    assert found.to_dict()["direction"] == found.direction


def test_a_family_pools_the_scores_of_its_runs() -> None:
    team = runs(3)
    family = backtest(team, methods=FAST, rng=0)
    assert isinstance(family, FamilyBacktest)
    alone = [backtest(run, methods=FAST, rng=0) for run in team]
    pooled, parts = family.score("sigmoid", 2.0), [one.score("sigmoid", 2.0) for one in alone]
    assert pooled.n == sum(part.n for part in parts)
    assert pooled.n_covered == sum(part.n_covered for part in parts)
    assert pooled.mean_error == pytest.approx(np.average([p.mean_error for p in parts], weights=[p.n for p in parts]))
    assert family.headline.startswith("on these 3 runs forecasts to 2x (sigmoid) have been off by")
    assert "run1" in str(family)
    assert len(family.to_dict()["runs"]) == 3
    assert set(family.to_frame()["run"]) == {"run0", "run1", "run2"}


def test_a_run_that_cannot_be_backtested_is_named() -> None:
    short = simulate(SigmoidParams(0.6, 1.8, 2000.0, 0.3), compute=C[:5], rng=9, name="short")
    family = backtest([*runs(2), short], methods=FAST, rng=0)
    assert list(family.refused) == ["short"]
    assert "not backtested: short" in str(family)
    with pytest.raises(FitError, match="none of 1 runs can be backtested; short"):
        backtest([short], methods=FAST)


def test_leave_one_out_learns_from_the_others() -> None:
    long = np.arange(0.0, 40_001.0, 1000.0)
    team = [
        simulate(SigmoidParams(0.6, 1.8, 1500.0 + 50 * k, 0.3), compute=long, rng=k, name=f"run{k}") for k in range(4)
    ]
    family = backtest(team, methods=("averaged",), prior="leave-one-out", cutoffs=[6000], rng=0)
    assert family.learned
    assert "learned from the others" in str(family)
    plain = backtest(team, methods=("averaged",), cutoffs=[6000], rng=0)
    assert family.score("averaged", 2.0).mean_error != plain.score("averaged", 2.0).mean_error
    with pytest.raises(FitError, match="a prior takes 3"):
        backtest(team[:2], methods=("averaged",), prior="leave-one-out")


def test_what_is_no_family_is_refused() -> None:
    hours, steps = runs(2)
    steps = Trace(steps.compute, steps.pass_rate, compute_unit="steps", name="steps")
    with pytest.raises(FitError, match="give runs in one unit"):
        backtest([hours, steps], methods=FAST)
    with pytest.raises(FitError, match="for several runs"):
        backtest(hours, prior="leave-one-out")  # type: ignore[call-overload]
    with pytest.raises(FitError, match="weights= are those of one run"):
        backtest([hours], weights=np.ones(len(hours)))  # type: ignore[call-overload]
    with pytest.raises(FitError, match="list of traces"):
        backtest([])
