"""Tests of `rlscaling/option_fields.py`."""

from __future__ import annotations

import argparse
import dataclasses
import math

import pytest

from rlscaling.option_fields import add_options, check_options, given_options, option


@dataclasses.dataclass(frozen=True)
class Options:
    form: str = option("sigmoid", "form of the curve", choices=("sigmoid", "power-law"))
    margin: float = option(0.02, "a margin of 5 %", above=0.0, metavar="X")
    spread: float = option(0.015, "a spread", least=0.0)
    count: int = option(1000, "a number", least=2, flag="--number -n")
    limit: float = option(math.inf, "a limit")
    fast: bool = option(False, "be fast", default_help="no")
    hidden: int = 0  # no option of the command


def parse(*words: str, defaults: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_options(parser, Options, defaults=defaults)
    return parser.parse_args(words)


def test_what_is_not_given_is_left_out() -> None:
    assert given_options(parse(), Options) == {}
    assert given_options(parse("--form", "power-law", "-n", "5", "--fast"), Options) == {
        "form": "power-law", "count": 5, "fast": True,
    }  # fmt: skip
    assert Options(**given_options(parse(defaults=True), Options)) == Options()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--form", "line"), "invalid choice: 'line'"),
        (("--margin", "0"), "0 is not a positive, finite number"),
        (("--spread", "-1"), "-1 is not a finite number of 0 or more"),
        (("--number", "1"), "'1' is not a whole number of 2 or more"),
        (("--limit", "nan"), "'nan' is not a number"),
        (("--limit", "run.csv"), "'run.csv' is not a number; files go before this option"),
    ],
)
def test_text_is_read_within_the_limits_of_the_field(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(argparse.ArgumentError, match=message):
        parse(*words)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"form": "line"}, "form='line' is unknown; choose one of sigmoid, power-law"),
        ({"margin": 0}, "margin=0 must be more than 0; the default is 0.02"),
        ({"count": 1}, "count=1 must be 2 or more; the default is 1000"),
    ],
)
def test_values_are_checked(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_options(Options(**values), ValueError)  # type: ignore[arg-type]


def test_help_has_the_default() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, Options)
    text = " ".join(parser.format_help().split())
    assert "a margin of 5 % (default: 0.02)" in text
    assert "be fast (default: no)" in text
    assert "hidden" not in text
