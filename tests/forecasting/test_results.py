"""Tests of `rlscaling/forecasting/results.py`."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from helpers.forecast_fits import BOOT, FIT
from rlscaling import FitError, compute_to_reach, extrapolate
from rlscaling.forecasting.results import Reach


def test_the_level_changes_without_resampling():
    forecast = extrapolate(FIT, [1e5], bootstrap=BOOT)
    half = forecast.at_level(0.5)
    np.testing.assert_allclose(half.confidence_interval.at(0), np.quantile(forecast.distribution[:, 0], [0.25, 0.75]))
    with pytest.raises(FitError, match="for 95 % give 0.95"):
        forecast.at_level(95)
    assert extrapolate(FIT, bootstrap=BOOT.at_level(0.8)).confidence_level == 0.8


def test_faces_of_a_forecast():
    forecast = extrapolate(FIT, [5e4, 1e5], bootstrap=BOOT)
    assert str(forecast).startswith(f"{forecast.verdict}: ")
    assert "100,000" in str(forecast)
    assert str(forecast.verdict) in forecast._repr_html_()
    assert repr(forecast).startswith(f"Forecast({forecast.verdict}, 100000: ")
    frame = forecast.to_frame()
    assert frame["compute"].tolist() == [5e4, 1e5]
    saved = json.loads(json.dumps(forecast.to_dict(), allow_nan=False))
    assert [row["compute"] for row in saved] == [5e4, 1e5]
    assert saved[1]["ci"] == frame.loc[1, ["ci_low", "ci_high"]].tolist()
    assert saved[0]["supported"] is True


def test_intervals_of_infinite_draws_are_order_statistics():
    def interval(draws, level):
        return Reach(FIT, 0.55, 1.0, np.array(draws), level).confidence_interval

    assert interval([1.0, 2.0, 3.0, math.inf], 0.95) == (1.0, math.inf)
    assert interval([math.inf] * 5, 0.5) == (math.inf, math.inf)
    assert interval(np.arange(1.0, 101.0), 0.9) == (5.0, 96.0)
    assert Reach(FIT, 0.55, 1.0, np.array([1.0, math.inf]), 0.9).probability == 0.5


def test_every_printed_result_begins_with_the_verdict():
    for result in (FIT, BOOT, extrapolate(FIT, bootstrap=BOOT), compute_to_reach(FIT, 0.55, bootstrap=BOOT)):
        assert str(result).startswith(str(FIT.verdict))
        assert str(FIT.verdict) in repr(result)
    assert next(iter(FIT.to_dict())) == "verdict"
