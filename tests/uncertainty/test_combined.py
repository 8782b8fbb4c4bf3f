"""The combined forecast: what it is made of, and where the sigmoid takes over."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rlscaling import Verdict, bootstrap, extrapolate, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.solver.departures import HORIZON
from rlscaling.solver.intervals import ConfidenceInterval
from rlscaling.uncertainty.combined import (
    AVERAGED,
    DAMPED_TREND,
    LAST_VALUE,
    SIGMOID,
    damped_trend,
    how_known,
    last_value,
    point_forecast,
    weight_of_sigmoid,
)

RNG = np.random.default_rng(5)
C = np.arange(0.0, 4001.0, 100.0)
EARLY = fit_sigmoid(C, sigmoid(C, 0.6, 1.8, 3000.0, 0.3) + RNG.normal(0, 0.004, len(C)), min_compute=0)
LONG = np.arange(0.0, 40_001.0, 500.0)
DONE = fit_sigmoid(LONG, sigmoid(LONG, 0.6, 1.8, 2500.0, 0.3) + RNG.normal(0, 0.002, len(LONG)))


def test_last_value_is_the_mean_of_the_last_twentieth() -> None:
    assert last_value(EARLY) == pytest.approx(EARLY.data.pass_rate[-2:].mean())  # of 41
    few = fit_sigmoid(C[:10], EARLY.data.pass_rate[:10], min_compute=0)
    assert last_value(few) == few.data.pass_rate[9]


def test_trend_of_a_line_in_log_compute_fades() -> None:
    x = np.geomspace(100, 10_000, 30)
    fit = fit_sigmoid(x, 0.1 + 0.05 * np.log(x / 100), min_compute=0)
    far = damped_trend(fit, np.array([10_000.0, 20_000.0, 1e9]))
    assert far[0] == pytest.approx(fit.data.pass_rate[-1], abs=1e-9)
    undamped = 0.05 * np.log(2)
    assert 0.8 * undamped < far[1] - far[0] < undamped
    assert far[2] - far[0] == pytest.approx(0.05 * 2.5, rel=0.02)


def test_weight_of_the_sigmoid_by_what_is_known() -> None:
    budgets = EARLY.compute_range[1] * np.array([1.0, HORIZON, 100.0])

    def known_to(half_width: float, verdict: Verdict) -> object:
        around = {**EARLY.confidence_interval, "A": ConfidenceInterval(0.6 - half_width, 0.6 + half_width)}
        return dataclasses.replace(EARLY, verdict=verdict, confidence_interval=around)

    assert weight_of_sigmoid(known_to(0.019, Verdict.IDENTIFIED), budgets).tolist() == [1.0, 1.0, 1.0]
    assert weight_of_sigmoid(known_to(0.05, Verdict.APPROXIMATE), budgets) == pytest.approx([0.0, 1.0, 1.0])
    assert weight_of_sigmoid(known_to(0.075, Verdict.WEAK), budgets) == pytest.approx([0.0, 0.5, 0.5])
    assert weight_of_sigmoid(known_to(0.2, Verdict.NOT_IDENTIFIED), budgets).tolist() == [0.0, 0.0, 0.0]
    assert how_known(known_to(0.01, Verdict.MISFIT), 0.1, 0.05) == 0.0


def test_a_given_ceiling_is_the_sigmoid() -> None:
    given = fit_sigmoid(C, EARLY.data.pass_rate, min_compute=0, A=0.6)
    found = extrapolate(given, [8000, 50_000], rng=0)
    assert found.pass_rate == pytest.approx(given.predict([8000, 50_000]))
    assert list(found.members) == [SIGMOID]


def test_an_identified_run_is_forecast_by_its_sigmoid() -> None:
    assert DONE.verdict is Verdict.IDENTIFIED
    boot = bootstrap(DONE, rng=0)
    one, other = (extrapolate(DONE, 100_000, method=m, bootstrap=boot) for m in ("combined", "sigmoid"))
    assert np.array_equal(one.distribution, other.distribution)
    assert (one.method, other.method) == ("combined", "sigmoid")


def test_members_make_the_forecast() -> None:
    budgets = np.array([8000.0, 16_000.0])
    found = extrapolate(EARLY, budgets, rng=0)
    assert set(found.members) >= {LAST_VALUE, DAMPED_TREND, AVERAGED}
    share = weight_of_sigmoid(EARLY, budgets)
    last = 0.5 - 0.15 * np.log2(budgets / EARLY.compute_range[1])
    m = found.members
    others = last * m[LAST_VALUE] + 0.5 * (1 - last) * (m[DAMPED_TREND] + m[AVERAGED])
    curve = m.get(SIGMOID, np.zeros(2))
    assert found.pass_rate == pytest.approx(share * curve + (1 - share) * others)
    assert np.median(found.distribution, axis=0) == pytest.approx(found.pass_rate, abs=0.03)


def test_within_the_data_it_follows_them() -> None:
    inside = np.array([1000.0, 2000.0, 4000.0])
    pass_rate, _ = point_forecast(EARLY, inside, EARLY.predict(inside), lambda: np.array([0.1, 0.2, 0.3]))
    share = weight_of_sigmoid(EARLY, inside)
    assert pass_rate == pytest.approx(share * EARLY.predict(inside) + (1 - share) * np.array([0.1, 0.2, 0.3]))


def test_unbounded_scores_stay_near_their_range() -> None:
    x = np.geomspace(1e3, 1e5, 25)
    rising = fit_sigmoid(x, 50 * (x / 1e5) ** 2, min_compute=0, A_max=np.inf, compute_unit="steps")
    found = extrapolate(rising, [2e5, 4e5, 1e7], rng=0)
    assert np.all(found.pass_rate <= 101.0)
    low, high = found.prediction_interval
    assert np.all(np.isfinite(low))
    assert np.all(high[:2] <= 101.0 + 4 * 50 * np.array([1.0, 3.0]) + 1.0)


def test_the_same_for_the_same_seed() -> None:
    one, other = (extrapolate(EARLY, [8000, 1e5], rng=3) for _ in range(2))
    assert np.array_equal(one.distribution, other.distribution)
    assert one.to_dict() == other.to_dict()
