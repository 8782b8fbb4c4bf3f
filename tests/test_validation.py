"""Tests of `rlscaling/validation.py`."""

from __future__ import annotations

import numpy as np
import pytest

import rlscaling as rl
from rlscaling.validation import check_n_resamples, renamed

RUN = rl.datasets.load_demo()["scalerl-8k"]
FIT = rl.fit_trace(RUN)


@renamed(at="compute")
def double(*, compute: float) -> float:
    return 2.0 * compute


def test_an_old_name_is_the_new_one() -> None:
    assert double(compute=3.0) == double(at=3.0) == 6.0  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"double\(\) got both compute= and at=, its old name; drop at="):
        double(compute=3.0, at=3.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'when'"):
        double(when=3.0)  # type: ignore[call-arg]


def test_old_names_of_public_functions_work_without_a_word() -> None:
    """Silent until 1.0: every warning is an error in these tests."""
    assert not rl.fit_sigmoid([1.0], [0.1], on_failure="return")
    assert not rl.fit_trace(RUN.up_to(900), on_failure="return")
    assert rl.plan(FIT, at=20_000, rng=0).to_dict() == rl.plan(FIT, compute=20_000, rng=0).to_dict()
    fits = {"a": FIT, "b": rl.refit(FIT, max_compute=6000)}
    assert rl.allocate(fits, 1e4, at=32_000, rng=0) == rl.allocate(fits, 1e4, compute=32_000, rng=0)
    assert rl.cutoff_sensitivity(RUN, cutoffs=[1500]).rows == rl.cutoff_sensitivity(RUN, min_compute=[1500]).rows


def test_old_names_of_methods_work_too() -> None:
    old, new = (rl.extrapolate(FIT, 16_000, method=method, rng=0) for method in ("auto", "averaged"))
    assert old.to_dict() == new.to_dict()
    assert old.method == new.method == "averaged"
    old_names, new_names = ("power_law", "last_value"), ("power-law", "last-value")
    old_test = rl.backtest(RUN, cutoffs=[4000], models=old_names, rng=0)
    assert old_test.methods == new_names
    assert old_test.to_dict() == rl.backtest(RUN, cutoffs=[4000], methods=new_names, rng=0).to_dict()
    assert old_test.score("last_value", 2.0) == old_test.score("last-value", 2.0)


@pytest.mark.parametrize("n", [1, 2.5, True, "many"])
def test_numbers_of_replicates(n: object) -> None:
    with pytest.raises(rl.FitError, match="must be a whole number of 2 or more; 1000 is usual"):
        check_n_resamples(n)


def test_a_number_of_replicates_may_be_of_numpy() -> None:
    assert check_n_resamples(np.int64(100), least=100) == 100
    with pytest.raises(rl.FitError, match="100 or more"):
        check_n_resamples(99, least=100)
