"""Tests of `rlscaling/traces/series.py`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlscaling.errors import TraceError
from rlscaling.traces.series import check_series


def rising(n=20, start=0.0):
    return (start + np.arange(n) * 10.0).tolist()


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        ([], "no evaluations"),
        ([1, np.nan], "compute at position 1 is nan: not a finite number; drop or repair"),
        ([1, np.inf, np.inf], r"position 1 is inf \(2 such values in all\)"),
        ([-5, 1], "compute at position 0 is -5: negative"),
        ([1, 3, 2, 4], "falls from 3 to 2 at position 2; sort by compute"),
        ([4, 3, 2, 1], "falls from 4 to 3 at position 1, and 2 more times; sort by compute"),
        (
            [1, 2, 2, 3],
            "compute 2 is a duplicate: it is at position 1 and at position 2; average them or keep one",
        ),
        ([1, 1, 1], "compute 1 is a duplicate"),
        ([1, 1, 2, 2], r"is a duplicate \(2 times each\): looks like 2 runs or domains in one series"),
        (
            rising() * 3,
            r"looks like 3 runs one after the other \(compute restarts at positions 20, 40\).*--run",
        ),
        (rising() + rising(start=3), r"looks like 2 runs .*positions 20\)"),
        ([*rising(), 150.0, 160, 170, 200], r"falls from 190 to 150 at position 20; .*if a run was resumed"),
        ([*rising(), 0.0], "falls from 190 to 0 at position 20; sort"),
    ],
)
def test_compute_that_does_not_rise_is_told_apart(compute, message):
    with pytest.raises(TraceError, match=message):
        check_series(compute, [0.5] * len(compute))


def test_messages_name_file_rows_when_they_are_known():
    with pytest.raises(TraceError, match="row 4 and at row 9"):
        check_series([1, 1, 2], [0.1, 0.2, 0.3], rows=[4, 9, 10])
    with pytest.raises(TraceError, match="restarts at rows 23"):
        check_series(rising() * 1 + rising(start=1), [0.5] * 40, rows=list(range(3, 43)))


def test_unequal_lengths_name_both():
    with pytest.raises(TraceError, match="compute has 3 values and pass_rate 2"):
        check_series([1, 2, 3], [0.1, 0.2])


@pytest.mark.parametrize(
    ("pass_rate", "scale", "message"),
    [
        (
            [31.0, 40.0],
            "fraction",
            r"position 0 is 31: outside \[0, 1\].*looks like percent.*scale=\"percent\"",
        ),
        ([-0.4, 0.2], "fraction", r"mean of \+1/-1 rewards; take \(y \+ 1\) / 2, or .*scale=\"pm1\" \(--scale pm1\)"),
        ([0.4, 1.7], "fraction", "position 1 is 1.7.*a reward.*A_max=inf.*--scale reward"),
        ([0.4, 170], "fraction", "A_max=inf"),
        ([-3, 0.4], "fraction", "A_max=inf"),
        ([0.4, 170], "percent", "position 1 is 1.7 after scale='percent': outside"),
        ([0.4, 3], "pm1", "position 1 is 2 after scale='pm1'"),
        ([0.4, 0.5], "log", "scale='log' is unknown; choose one of fraction, percent, pm1, reward"),
    ],
)
def test_scores_that_are_no_fractions_are_told_apart(pass_rate, scale, message):
    with pytest.raises(TraceError, match=message):
        check_series([1, 2], pass_rate, scale=scale)


def test_scales():
    assert check_series([1, 2], [31, 40], scale="percent")[1].tolist() == [0.31, 0.4]
    assert check_series([1, 2], [-1, 0.5], scale="pm1")[1].tolist() == [0, 0.75]
    assert check_series([1, 2], [-7, 900], scale="reward")[1].tolist() == [-7, 900]
    assert check_series([1, 2], [-7, 900], bounded=False)[1].tolist() == [-7, 900]


def test_extreme_but_legal_compute():
    C, y = check_series([0, 1e-3, 1e24], [0, 0.5, 1])
    assert C.tolist() == [0, 1e-3, 1e24]
    assert y.tolist() == [0, 0.5, 1]


@given(st.lists(st.floats(0, 1e24), min_size=2, max_size=20, unique=True), st.randoms())
def test_any_rising_series_passes_and_any_shuffle_of_it_is_refused(values, random):
    ordered = sorted(values)
    C, _ = check_series(ordered, [0.5] * len(ordered))
    assert C.tolist() == ordered
    shuffled = ordered.copy()
    random.shuffle(shuffled)
    if shuffled != ordered:
        with pytest.raises(TraceError, match=r"sort by compute|one after the other"):
            check_series(shuffled, [0.5] * len(ordered))
