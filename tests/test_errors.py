"""Tests of `rlscaling/test_errors.py`."""

from __future__ import annotations

from rlscaling import FitError, RLScalingError


def test_every_error_is_a_value_error():
    assert issubclass(RLScalingError, ValueError)
    assert issubclass(FitError, RLScalingError)
