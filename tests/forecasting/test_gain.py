"""What more compute buys."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling import FitError, bootstrap, expected_gain, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.forecasting.gain import round_number

RNG = np.random.default_rng(2)
C = np.arange(0.0, 40_001.0, 500.0)
NOISE = RNG.normal(0, 0.003, len(C))


def run(C_mid: float, to: float) -> object:
    seen = to >= C
    return fit_sigmoid(C[seen], (sigmoid(C, 0.6, 1.8, C_mid, 0.3) + NOISE)[seen])


def test_a_finished_run_gains_nothing_and_a_rising_one_does() -> None:
    finished, rising = run(1500.0, 40_000), run(9000.0, 10_000)
    assert expected_gain(finished, 40_000, rng=0).probability < 0.2
    promised = expected_gain(rising, 10_000, rng=0)
    assert promised.probability > 0.9
    true = float(np.diff(sigmoid(np.array([10_000.0, 20_000.0]), 0.6, 1.8, 9000.0, 0.3))[0])
    low, high = promised.confidence_interval
    assert low < true < high
    assert promised.probability_above(-1.0) == 1.0
    assert promised.probability_above(1.0) == 0.0
    assert "more than 0.01 with probability" in str(promised)


def test_next_to_no_compute_buys_next_to_nothing() -> None:
    """The forecast of a noisy run does not begin where its posterior ends: that step is no gain."""
    for seed in range(5):
        C = np.arange(0.0, 8001.0, 800.0)
        y = sigmoid(C, 0.6, 1.8, 2500.0, 0.3) + np.random.default_rng(seed).normal(0, 0.01, len(C))
        gain = expected_gain(fit_sigmoid(C, y, min_compute=0), 1e-3, rng=0)
        assert abs(gain.value) < 1e-5
        assert gain.error < 1e-3


def test_record_and_levels() -> None:
    gain = expected_gain(run(3000.0, 8000), rng=0, threshold=0.005)
    assert gain.next_compute == 5000.0
    record = gain.to_dict()
    assert set(record) == {"compute", "gain", "error", "ci", "threshold", "probability"}
    assert record["threshold"] == 0.005
    narrow, wide = (gain.at_level(level).confidence_interval for level in (0.5, 0.95))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_unbounded_thresholds_are_shares_of_the_range() -> None:
    y = (sigmoid(C, 0.6, 1.8, 3000.0, 0.3) + NOISE)[:21]
    one, other = (expected_gain(fit_sigmoid(C[:21], u * y, A_max=np.inf), 5000, rng=0) for u in (1.0, 50.0))
    assert other.threshold == pytest.approx(50 * one.threshold)
    assert other.probability == pytest.approx(one.probability, abs=0.03)


def test_replicates_that_are_given_are_used() -> None:
    fit = run(3000.0, 8000)
    boot = bootstrap(fit, n_resamples=300, rng=4)
    assert len(expected_gain(fit, 1000, bootstrap=boot).draws) == 300


@pytest.mark.parametrize(("value", "rounded"), [(7.7, 10.0), (0.0033, 0.005), (140.0, 100.0), (150.0, 200.0)])
def test_round_numbers(value: float, rounded: float) -> None:
    assert round_number(value) == pytest.approx(rounded)


def test_refuses_by_name() -> None:
    fit = run(3000.0, 8000)
    with pytest.raises(FitError, match="next_compute|compute"):
        expected_gain(fit, -5.0)
    with pytest.raises(FitError, match="threshold=nan"):
        expected_gain(fit, threshold=float("nan"))
    with pytest.raises(FitError, match="takes a SigmoidFit"):
        expected_gain(3)  # type: ignore[arg-type]
