"""Options that several commands share: made from the options classes, with their choices."""

from __future__ import annotations

import argparse

from rlscaling.cli import options
from rlscaling.cli.inputs import ComparisonOptions
from rlscaling.fitting.options import METHODS, FitOptions
from rlscaling.option_fields import given_options
from rlscaling.readers.options import ReadOptions
from rlscaling.traces.schema import COMPUTE_UNITS, SCALES
from rlscaling.uncertainty.bootstrap import BOOTSTRAP_SCHEMES


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {action.dest: action for action in parser._actions}


def test_choices_are_those_of_the_library() -> None:
    parser = argparse.ArgumentParser()
    options.add_fit_options(parser)
    options.add_reading_options(parser)
    options.add_interval_options(parser)
    by_name = actions(parser)
    assert tuple(by_name["compute_unit"].choices) == COMPUTE_UNITS
    assert set(by_name["scale"].choices) == {*SCALES, "auto"}
    assert tuple(by_name["scheme"].choices) == tuple(BOOTSTRAP_SCHEMES)
    assert tuple(by_name["method"].choices) == METHODS


def test_options_that_are_not_given_are_left_to_the_library() -> None:
    parser = argparse.ArgumentParser()
    options.add_fit_options(parser)
    options.add_reading_options(parser)
    args = parser.parse_args(["--A", "0.6", "--stitch", "--no-eval-before-update"])
    assert given_options(args, FitOptions) == {"A": 0.6}
    assert given_options(args, ReadOptions) == {"stitch": True, "eval_before_update": False}


def test_comparisons_have_the_defaults_of_their_options() -> None:
    parser = argparse.ArgumentParser()
    options.add_comparison_options(parser.add_argument_group("comparison"), by="run")
    args = parser.parse_args([])
    assert ComparisonOptions(**given_options(args, ComparisonOptions)) == ComparisonOptions()
