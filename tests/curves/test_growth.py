"""Tests of `rlscaling/curves/growth.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.curve_points import HOURS
from rlscaling import fit_curve
from rlscaling.curves.growth import gompertz, richards
from rlscaling.curves.sigmoid import sigmoid


@pytest.mark.parametrize("R0", [None, 0.3])
def test_gompertz_and_richards_recover_themselves(R0):
    fit = fit_curve(HOURS[1:], gompertz(HOURS[1:], 0.62, 1.2, 3000.0, 0.3), form="gompertz", R0=R0)
    np.testing.assert_allclose([fit.params[k] for k in ("A", "B", "C_0", "R0")], (0.62, 1.2, 3000.0, 0.3), rtol=1e-5)
    fit = fit_curve(HOURS[1:], richards(HOURS[1:], 0.62, 1.8, 3000.0, 0.6, 0.3), form="richards", R0=R0)
    np.testing.assert_allclose(fit.predict(HOURS[1:]), richards(HOURS[1:], 0.62, 1.8, 3000.0, 0.6, 0.3), atol=1e-6)
    assert fit.params["A"] == pytest.approx(0.62, abs=1e-3)


def test_richards_at_nu_1_is_the_sigmoid():
    np.testing.assert_allclose(
        richards(HOURS, 0.61, 1.92, 2542.0, 1.0, 0.35), sigmoid(HOURS, 0.61, 1.92, 2542.0, 0.35), rtol=1e-14
    )
    assert float(gompertz(0.0, 0.6, 1.0, 100.0, 0.3)) == 0.3
    assert float(gompertz(1e30, 0.6, 1.0, 100.0, 0.3)) == pytest.approx(0.6)


def test_a_ceiling_at_its_bound_is_kept_and_said():
    y = gompertz(HOURS[1:], 1.5, 1.0, 9000.0, 0.1)
    assert y.max() < 1.0
    for form in ("gompertz", "richards"):
        fit = fit_curve(HOURS[1:], y, form=form)
        assert fit.params["A"] == 1.0
        assert "A" in fit.at_bound
        assert "at its bound: A" in str(fit)
