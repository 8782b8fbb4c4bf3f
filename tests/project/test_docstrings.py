"""Values that a docstring lists are those that the function takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import rlscaling as rl
from rlscaling.fitting.curve_fit import OTHER_FORMS
from rlscaling.fitting.options import METHODS as SOLVERS
from rlscaling.forecasting.backtest import METHODS as BACKTESTED
from rlscaling.forecasting.extrapolate import METHODS as FORECASTS
from rlscaling.trainer.algorithm.losses import LOSSES
from rlscaling.trainer.kernels import ops
from rlscaling.uncertainty.bootstrap import BOOTSTRAP_SCHEMES


@pytest.mark.parametrize(
    ("function", "parameter", "values"),
    [
        (rl.bootstrap, "scheme", BOOTSTRAP_SCHEMES),
        (rl.fit_curve, "form", ("sigmoid", *OTHER_FORMS)),
        (rl.fit_sigmoid, "method", SOLVERS),
        (rl.extrapolate, "method", FORECASTS),
        (rl.backtest, "methods", BACKTESTED),
    ],
)
def test_choices(function: Callable[..., Any], parameter: str, values: Iterable[str]) -> None:
    listed = re.search(rf"^{parameter} : [^{{\n]*\{{(.+)\}}$", inspect.getdoc(function) or "", flags=re.MULTILINE)
    assert listed is not None
    assert set(re.findall(r'"([^"]+)"', listed[1])) == set(values)


def test_forms_in_prose() -> None:
    assert all(f"``{form}``" in (rl.CurveFit.__doc__ or "") for form in OTHER_FORMS)
    words = (rl.select_model.__doc__ or "").lower().replace("-", " ")
    assert all(form.replace("-", " ") in words for form in OTHER_FORMS)


def test_losses() -> None:
    table = re.findall(r"^(\w+) +(?:``-|as )", inspect.getdoc(ops.policy_loss) or "", flags=re.MULTILINE)
    assert sorted(table) == sorted(LOSSES)
