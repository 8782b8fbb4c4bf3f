"""Tests of `rlscaling/fitting/options.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.fit_series import Y_QUIET, C
from rlscaling import FitError, fit_sigmoid
from rlscaling.fitting.options import resolve_options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute_unit": "hours"}, "compute_unit='hours' is unknown; choose one of gpu-hours"),
        ({"compute_unit": "tokens"}, r"compute is in tokens.*no default cutoff; give min_compute="),
        ({"compute_unit": "flops"}, r"compute is in FLOPs.*0 keeps everything"),
        ({"min_compute": math.nan}, "min_compute=nan is not a finite number"),
        ({"min_compute": math.inf}, "min_compute=inf is not a finite number"),
        ({"min_compute": "early"}, "min_compute='early' is not a number"),
        ({"min_compute": -1}, "leave no range"),
        ({"min_compute": 3000, "max_compute": 2000}, "min_compute=3000 and max_compute=2000 leave no range"),
        ({"exclude": 5}, "exclude=5 is not a list of"),
        ({"exclude": [5]}, "exclude=5 is not a pair"),
        ({"exclude": [(2, 1)]}, r"exclude=\(2, 1\): the lower end is above the upper one"),
        ({"exclude": [("a", 1)]}, "exclude='a' is not a number"),
        ({"B_bounds": (2, 1)}, "B_bounds=.*swap them"),
        ({"B_bounds": 3}, "B_bounds=3 is not a pair"),
        ({"B_bounds": (0, 1)}, "B must be positive"),
        ({"B_bounds": (0.1, math.inf)}, "B_bounds=inf is not a finite number"),
        ({"B": -1.0}, "B must be positive"),
        ({"B": "steep"}, "B='steep' is not a number"),
        ({"A": 1.2}, r"A=1.2 is outside .*: pass rates are fractions.*; for unbounded scores give A_max=inf"),
        ({"A": 61}, r"A=61 is outside .*: pass rates are fractions, 0.61 for 61 %; for unbounded"),
        ({"R0": 30}, r"R0=30 is outside .*: pass rates are fractions, 0.3 for 30 %; for unbounded"),
        ({"A": 0.2, "R0": 0.3}, r"A=0.2 is outside \(R0=0.3"),
        ({"A": math.nan}, "A=nan is not a finite number"),
        ({"R0": -0.1}, r"R0=-0.1 is outside \[0, A_max=1\): pass rates are fractions; for unbounded"),
        ({"R0": 1.0}, "R0=1 is outside"),
        ({"R0": "fixed"}, "R0='fixed' is unknown; give a number"),
        ({"R0": math.nan}, "R0=nan is not a finite number"),
        ({"R0": "free", "R0_se": 0.02}, 'R0="free" has no anchor'),
        ({"R0_se": 0}, "R0_se=0 must be positive"),
        ({"A_max": 1.5}, "A_max=1.5: a pass rate has a bound in"),
        ({"A_max": 0}, "A_max=0: a pass rate has a bound in"),
        ({"A_max": -math.inf}, "A_max=-inf is not a finite number"),
        ({"method": "curve_fit"}, "method='curve_fit' is unknown; choose one of varpro, paper-grid"),
        ({"grid": {"A": [0.6], "C_mid": [1000]}}, 'grid= is used with method="paper-grid" only'),
        ({"on_error": "ignore"}, "on_error='ignore' is unknown"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(FitError, match=message):
        fit_sigmoid(C, Y_QUIET, **options)


def test_an_unknown_option_names_the_known_ones():
    with pytest.raises(FitError, match=r"unknown option 'cutoff'.*min_compute"):
        resolve_options({"cutoff": 3})
    with pytest.raises(TypeError, match="cutoff"):
        fit_sigmoid(C, Y_QUIET, cutoff=3)


def test_bug_an_array_for_R0_is_refused_in_words():
    with pytest.raises(FitError, match="R0"):
        fit_sigmoid(C, Y_QUIET, R0=np.array([0.3, 0.4]))


def test_unbounded_scores_take_any_R0_and_A():
    fit = fit_sigmoid(C, 100 * Y_QUIET - 50, A_max=math.inf, R0=-15.0, A=11.0)
    assert (fit.A, fit.R0, fit.verdict) == (11.0, -15.0, "ceiling-given")
