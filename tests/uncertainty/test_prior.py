"""Tests of `rlscaling/uncertainty/prior.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.scalerl import TRUTH, run_fit
from rlscaling import FitError, Prior, bootstrap, extrapolate, learn_prior, refit
from rlscaling.uncertainty.prior import DEFAULT


def test_a_family_of_runs_gives_a_prior() -> None:
    family = [run_fit(20_000.0, seed) for seed in range(3)]
    prior = learn_prior(family)
    assert prior.A[0] == pytest.approx(0.61, abs=0.01)
    assert not prior.relative
    early = run_fit(3300.0, 9)
    at = 20_000.0
    with_family, without = (extrapolate(early, at, method="averaged", prior=p, rng=0) for p in (prior, None))
    truth = float(TRUTH.predict(at))
    assert abs(with_family.pass_rate[0] - truth) < 0.02
    assert np.ptp(with_family.confidence_interval) < np.ptp(without.confidence_interval)
    assert "3 runs" in with_family.notes[-1]


def test_errors_of_priors_and_methods() -> None:
    fit = run_fit(8000.0)
    with pytest.raises(FitError, match="a prior needs 3"):
        learn_prior([fit])
    with pytest.raises(FitError, match="takes SigmoidFits, not int"):
        learn_prior([1])  # type: ignore[list-item]
    with pytest.raises(FitError, match="no mean with a positive sd"):
        Prior(A=(0.6, 0.0))
    with pytest.raises(FitError, match="must name sigmoid or slow"):
        Prior(shapes=(("cubic", 1.0),))
    with pytest.raises(FitError, match="finite sizes"):
        Prior(wander=())
    with pytest.raises(FitError, match="length=0 must be positive"):
        Prior(length=0.0)
    with pytest.raises(FitError, match="unknown; choose"):
        extrapolate(fit, 1e4, method="magic")
    with pytest.raises(FitError, match='used with method="combined" and "averaged" only'):
        extrapolate(fit, 1e4, method="sigmoid", prior=DEFAULT)
    with pytest.raises(FitError, match="replicates of the sigmoid"):
        extrapolate(fit, 1e4, method="averaged", bootstrap=bootstrap(fit, n_resamples=10, rng=0))
    with pytest.raises(FitError, match="takes a Prior"):
        extrapolate(fit, 1e4, method="averaged", prior=0.5)  # type: ignore[arg-type]
    with pytest.raises(FitError, match="unbounded scores"):
        learn_prior([refit(fit, A_max=np.inf)])
