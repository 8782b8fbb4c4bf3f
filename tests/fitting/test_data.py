"""Tests of `rlscaling/fitting/data.py`."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from helpers.fit_series import Y_QUIET, C, Y
from rlscaling import TraceError, fit_sigmoid, fit_trace
from rlscaling.fitting.data import build
from rlscaling.fitting.sigmoid_fit import FailedFit
from rlscaling.traces.trace import Trace


class Tensor:
    """What the door needs of a torch tensor: detach, cpu, dtype, double, numpy."""

    def __init__(self, values):
        self.values = values
        self.dtype = "torch.float32"

    def detach(self):
        return self

    cpu = double = detach

    def numpy(self):
        return np.asarray(self.values, dtype=np.float64)


def containers():
    import polars as pl

    yield "list", list
    yield "list of numpy scalars", lambda v: [np.float64(x) for x in v]
    yield "tuple", tuple
    yield "float64", np.asarray
    yield "pandas", pd.Series
    yield "pandas with an odd index", lambda v: pd.Series(v, index=range(100, 100 + len(v)))
    yield "pandas nullable", lambda v: pd.Series(v, dtype="Float64")
    yield "pandas arrow", lambda v: pd.Series(v, dtype="double[pyarrow]")
    yield "polars", pl.Series
    yield "torch-like", Tensor
    yield "masked", lambda v: np.ma.masked_array(v, mask=False)
    yield "strided", lambda v: np.repeat(v, 2)[::2]


@pytest.mark.parametrize("make", [make for _, make in containers()], ids=[name for name, _ in containers()])
def test_any_container_gives_the_same_fit(make):
    assert fit_sigmoid(make(C), make(Y)).params == fit_sigmoid(C, Y).params


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint16, "Int64"])
def test_whole_numbers_of_compute(dtype):
    compute = pd.Series(C.astype(int), dtype=dtype) if isinstance(dtype, str) else C.astype(dtype)
    assert fit_sigmoid(compute, Y).params == fit_sigmoid(C, Y).params


def test_half_precision_logs():
    fit = fit_sigmoid(C.astype(np.float32), Y.astype(np.float32))
    np.testing.assert_allclose(fit.params.as_tuple(), fit_sigmoid(C, Y).params.as_tuple(), rtol=1e-4)
    assert fit_sigmoid(C, Y.astype(np.float16)).A == pytest.approx(fit_sigmoid(C, Y).A, abs=1e-3)


def test_missing_values_of_series_are_named():
    import polars as pl

    for values in (pd.Series([*Y[:-1], None], dtype="Float64"), pl.Series([*Y[:-1], None])):
        with pytest.raises(ValueError, match=r"pass_rate (at position 40|\[40\]) is nan"):
            fit_sigmoid(C, values)


def test_the_input_is_neither_changed_nor_shared():
    compute, pass_rate = C.copy(), Y.copy()
    fit = fit_sigmoid(compute, pass_rate)
    np.testing.assert_array_equal(compute, C)
    np.testing.assert_array_equal(pass_rate, Y)
    pass_rate[:] = 0
    np.testing.assert_array_equal(fit.data.pass_rate, Y)


def test_steps_measure_the_gaps_between_evaluations():
    steps = np.concatenate([np.arange(0, 20) * 100.0, 1900.0 + np.arange(1, 22) * 200.0])
    fit = fit_trace(Trace(C, Y, columns={"step": steps}))
    ratio = fit.fitted_model().ratio
    assert set(np.round(ratio, 9)) == {0.5, 1.0} or set(np.round(ratio, 9)) == {1.0, 2.0}
    assert set(fit_sigmoid(C, Y).fitted_model().ratio) == {1.0}


def test_the_model_behind_a_fit_is_the_same_model():
    fit = fit_sigmoid(C, Y)
    model = fit.fitted_model()
    assert model.params == fit.params.as_tuple()
    np.testing.assert_array_equal(model.residual, fit.residual)
    problem, series, anchor = build(fit.data, fit.options)
    assert anchor is not None
    assert anchor.compute == 0.0
    assert (anchor.value, anchor.standard_error) == (Y[0], 0.015)
    assert len(series) == len(problem.compute) == fit.n_points


def spoiled(values, i, value):
    out = list(values)
    out[i] = value
    return out


@pytest.mark.parametrize(
    ("compute", "pass_rate", "message"),
    [
        (C, spoiled(Y_QUIET, 7, math.nan), "pass_rate at position 7 is nan: not a finite number; drop or repair"),
        (C, spoiled(Y_QUIET, 7, math.inf), "pass_rate at position 7 is inf"),
        (spoiled(C, 3, math.nan), Y_QUIET, "compute at position 3 is nan"),
        (spoiled(C, 40, math.inf), Y_QUIET, "compute at position 40 is inf"),
        (spoiled(C, 0, -1.0), Y_QUIET, "compute at position 0 is -1: negative"),
        (C, spoiled(Y_QUIET, 2, "n/a"), r"pass_rate\[2\] is 'n/a': text, not a number"),
        (C, spoiled(Y_QUIET, 2, None), r"pass_rate\[2\] is None: missing"),
        (C, spoiled(Y_QUIET, 2, True), r"pass_rate\[2\] is True: a truth value"),
        (
            C,
            100 * Y_QUIET,
            r"outside \[0, 1\].*looks like percent; divide by 100, or .*scale=\"percent\" \(--scale percent\)",
        ),
        (C, 2 * Y_QUIET - 1, r"outside \[0, 1\].*\+1/-1 rewards; take \(y \+ 1\) / 2, or .*scale=\"pm1\""),
        (C, 1000 * Y_QUIET, r"outside \[0, 1\].*A_max=inf"),
        (C, Y_QUIET[:-1], "compute has 41 values and pass_rate 40"),
        (C[:-1], Y_QUIET, "compute has 40 values and pass_rate 41"),
        ([], [], "no evaluations: compute and pass_rate are empty"),
        (spoiled(C, 5, C[6]), Y_QUIET, r"compute 2400 is a duplicate.*average them or keep one"),
        (spoiled(C, 20, 7000.0), Y_QUIET, "compute falls from 7600 to 7000 at position 20; sort by compute"),
        (np.r_[C[:20], C[:21]], Y_QUIET, "looks like 2 runs one after the other"),
        (np.repeat(C[:20], 2), Y_QUIET[:40], r"every compute value is a duplicate \(2 times each\)"),
        (np.ones((2, 5)), Y_QUIET, r"compute is of shape \(2, 5\)"),
        ("compute", Y_QUIET, "compute is 'compute': not a series of numbers"),
        (None, Y_QUIET, "compute is None: not a series"),
        (3.0, Y_QUIET, "compute is 3.0: not a series"),
        (C * 1j, Y_QUIET, "a complex number"),
    ],
)
def test_data_that_cannot_be_used_are_refused_in_words(compute, pass_rate, message):
    with pytest.raises(TraceError, match=message):
        fit_sigmoid(compute, pass_rate)
    failed = fit_sigmoid(compute, pass_rate, on_error="return")
    assert isinstance(failed, FailedFit)
    assert not failed
    assert str(failed).startswith("no fit: ")
    assert failed.to_dict() == {"run": "", "error": failed.error}
