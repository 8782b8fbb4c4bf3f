"""Tests of `rlscaling/printing/numbers.py`."""

from __future__ import annotations

import math

import pytest

from rlscaling.printing.numbers import error_decimals, interval, interval_ends, number, plus_minus


@pytest.mark.parametrize(
    ("error", "decimals"),
    # Particle Data Group, rounding: 100-354 keep two digits, 355-949 one, 950-999 round up to 1000 and keep two
    [
        (0.0354, 3),
        (0.0356, 2),
        (0.00421, 3),
        (0.0094, 3),
        (0.00096, 4),
        (0.01, 3),
        (1.5, 1),
        (8.27, 0),
        (152.0, -1),
        (827.0, -2),
    ],
)
def test_the_error_decides_the_digits(error, decimals):
    assert error_decimals(error) == decimals


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.827, 0.119, "0.83 ± 0.12"),  # the PDG's own examples
        (0.827, 0.367, "0.8 ± 0.4"),
        (0.61234, 0.00421, "0.612 ± 0.004"),
        (2541.7, 152.0, "2,540 ± 150"),
        (10_909.0, 951.0, "10,900 ± 1,000"),
        (0.0, 0.01, "0.000 ± 0.010"),
        (-0.5, 0.2, "-0.50 ± 0.20"),
        (2.542e21, 1.2e20, "(2.54 ± 0.12)e+21"),
        (0.61, 0.0, "0.61"),
        (0.61, math.nan, "0.61"),
    ],
)
def test_value_and_error(value, error, text):
    assert plus_minus(value, error) == text


@pytest.mark.parametrize(("value", "error", "text"), [(3e-6, 0.01, "0.000 ± 0.010"), (5e-5, 0.2, "0.00 ± 0.20")])
def test_bug_a_value_far_below_its_error_is_not_printed_in_its_own_power(value, error, text):
    """R0 = 3e-6 with error 0.01 is zero within the error, not (0 ± 10,000)e-6."""
    assert plus_minus(value, error) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.61, "0.61"),
        (216.2, "216.2"),
        (2541.7, "2,542"),
        (100_000.0, "100,000"),
        (1e25, "1e+25"),
        (1e-9, "1e-09"),
        (-3.5, "-3.5"),
        (0.99999, "1"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "unknown"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_intervals_have_the_digits_of_their_width():
    assert interval(0.60412, 0.62083) == "[0.604, 0.621]"
    assert interval(2403.0, 2688.0) == "[2,400, 2,690]"
    assert interval(0.3, 0.3) == "[0.3, 0.3]"
    assert interval(1.2e21, 3.4e21) == "[1.2e+21, 3.4e+21]"
    assert "inf" in interval(0.4, math.inf)


def test_ends_that_lie_a_factor_apart_have_three_digits_each():
    """The width of such an interval is that of its upper end: the lower one would be rounded to nothing."""
    assert interval(1462.3, 12_683.0) == "[1,460, 12,700]"
    assert interval(0.91234, 47.123) == "[0.912, 47.1]"
    assert interval(12.3456, 98_765_432.0) == "[12.3, 9.88e+07]"
    assert interval(2000.0, 4000.0) == "[2,000, 4,000]", "a factor of two is still a width"
    assert interval(0.0, 12_683.0) == "[0, 12,700]", "nothing is a factor above zero"
    assert interval(0.012, 0.6123) == "[0.01, 0.61]", "pass rates keep the decimals of their width"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1763.71, 110_000.0, "1,800 ± 110,000"),
        (62.1937, 40_000.0, "62 ± 40,000"),
        (-62.1937, 40_000.0, "-62 ± 40,000"),
        (62.1937, 4e7, "62 ± 4e+07"),
        (0.0021, 0.5, "0.0021 ± 0.5"),
        (52.785, 330.0, "50 ± 330"),
    ],
)
def test_bug_an_estimate_below_its_error_is_not_printed_as_0(value, error, text):
    """asteca/ASteCA#213; the US census: a C_mid of 1,764 was printed as '0 ± 110,000'."""
    assert plus_minus(value, error) == text


def test_bug_rounding_is_no_error():
    """Data without noise: sixteen digits, and powers of ten like e-151 for a run of zeros."""
    assert plus_minus(0.7000000000000008, 6e-16) == "0.7"
    assert plus_minus(15.00000000000002, 1.7e-14) == "15"
    assert interval(0.6999999999999997, 0.7000000000000022) == "[0.7, 0.7]"
    assert plus_minus(0.0, 5e-152) == number(4e-148) == "0"
    assert interval(-4.27e-151, 4.71e-148) == "[0, 0]"
    assert plus_minus(0.7, 1e-8) == "0.700000000 ± 0.000000010"


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (630.2, 7.84e8, ("630", "7.84e+08")),
        (132.4, 1.5e7, ("132", "1.5e+07")),
        (0.60412, 0.62083, ("0.604", "0.621")),
        (0.0042, 0.6123, ("0.0042", "0.61")),
        (-0.0042, 0.6123, ("-0.0042", "0.61")),
        (1e-6, 0.6123, ("0.00", "0.61")),
    ],
)
def test_the_ends_of_an_interval_are_those_printed(low, high, ends):
    assert interval_ends(low, high) == ends
    assert interval(low, high) == "[{}, {}]".format(*ends)


def test_a_difference_may_be_zero():
    assert plus_minus(0.000014, 0.0083, may_be_zero=True) == "0.000 ± 0.008"
