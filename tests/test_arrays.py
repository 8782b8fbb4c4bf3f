"""Tests of `rlscaling/test_arrays.py`."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rlscaling.arrays import as_floats
from rlscaling.errors import TraceError
from rlscaling.traces.series import check_series


class FakeTensor:
    """Just enough of a torch tensor: ``numpy`` works for detached float64 on the CPU only."""

    def __init__(self, values, dtype="torch.bfloat16", device="cuda", grad=True):
        self.values, self.dtype, self.device, self.grad = values, dtype, device, grad

    def detach(self):
        return FakeTensor(self.values, self.dtype, self.device, grad=False)

    def cpu(self):
        return FakeTensor(self.values, self.dtype, "cpu", self.grad)

    def double(self):
        return FakeTensor(self.values, "torch.float64", self.device, self.grad)

    def numpy(self):
        assert (self.dtype, self.device, self.grad) == ("torch.float64", "cpu", False)
        return np.array(self.values)


@pytest.mark.parametrize(
    "values",
    [
        [0.25, 0.5],
        (0.25, 0.5),
        np.array([0.25, 0.5], dtype=np.float16),
        np.ma.MaskedArray([0.25, 0.5]),
        [Decimal("0.25"), np.float32(0.5)],
        (value for value in (0.25, 0.5)),
        pd.Series([0.25, 0.5], index=[7, 9]),
        pd.Series([0.25, 0.5], dtype="Float64"),
        pd.Index([0.25, 0.5]),
        pl.Series([0.25, 0.5]),
        FakeTensor([0.25, 0.5]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_as_floats_takes_every_kind_of_series(values):
    array = as_floats(values, "pass_rate")
    assert array.dtype == np.float64
    assert array.tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([0.25, pd.NA], dtype="Float64"),
        pd.Series([1, pd.NA], dtype="Int64"),
        pl.Series([0.25, None]),
        pl.Series([1, None]),
        np.ma.MaskedArray([0.25, 0.5], mask=[False, True]),
    ],
    ids=["pandas-float", "pandas-int", "polars-float", "polars-int", "masked"],
)
def test_missing_entries_become_nan_which_the_check_refuses(values):
    assert np.isnan(as_floats(values, "pass_rate")).tolist() == [False, True]
    with pytest.raises(TraceError, match="pass_rate at position 1 is nan: not a finite number; drop or repair"):
        check_series([1, 2], values)


def test_as_floats_takes_real_torch_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([0.25, 0.5], dtype=torch.bfloat16, requires_grad=True)
    assert as_floats(tensor, "pass_rate").tolist() == [0.25, 0.5]
    assert as_floats([torch.tensor(0.25), torch.tensor(0.5)], "pass_rate").tolist() == [0.25, 0.5]
    for bad in (torch.tensor([True]), torch.tensor([1j])):
        with pytest.raises(TraceError, match="not real numbers"):
            as_floats(bad, "pass_rate")


def test_as_floats_copies():
    values = np.array([0.1, 0.2])
    as_floats(values, "x")[0] = 9
    assert values[0] == 0.1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([*[0.1] * 17, "n/a"], r"pass_rate\[17\] is 'n/a': text, not a number; drop or repair"),
        (pd.Series([0.1, "x"], dtype=object), r"pass_rate\[1\] is 'x': text"),
        (pl.Series(["a", "b"]), r"pass_rate\[0\] is 'a': text"),
        (np.array(["a"]), r"pass_rate\[0\] is 'a': text"),
        ([0.1, None], r"pass_rate\[1\] is None: missing"),
        ([0.1, 1j], r"pass_rate\[1\] is 1j: a complex number"),
        ([0.1, True], r"pass_rate\[1\] is True: a truth value"),
        (np.array([True, False]), r"pass_rate\[0\] is True: a truth value"),
        ([0.1, [0.2]], r"pass_rate\[1\] is \[0.2\]: not a number"),
        ([10**400], r"pass_rate\[0\] is 1000.*\.\.\.: too large"),
        ([[0.1, 0.2]], r"pass_rate is of shape \(1, 2\)"),
        (pd.DataFrame({"a": [1.0]}), r"of shape \(1, 1\); pass one number per evaluation"),
        (np.array(0.5), "a single value"),
        (0.5, "pass_rate is 0.5: not a series"),
        ("0.1, 0.2", "pass_rate is '0.1, 0.2': not a series"),
        (None, "pass_rate is None: not a series"),
        ({"a": 1}, "not a series"),
        (pd.Series(pd.to_datetime(["2025-01-01"])), "a date or duration"),
        (FakeTensor([True], dtype="torch.bool"), "tensor of torch.bool: not real numbers"),
    ],
)
def test_as_floats_says_what_is_no_number(values, message):
    with pytest.raises(TraceError, match=message):
        as_floats(values, "pass_rate")
