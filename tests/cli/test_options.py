"""Options that several commands share: made from the options classes, with their choices."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from typing import Any

import pytest

from rlscaling import compare, fit_sigmoid
from rlscaling.cli import options
from rlscaling.cli.app import build_parser
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


def subparser(name: str) -> argparse.ArgumentParser:
    (group,) = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return group.choices[name].complete()


@pytest.mark.parametrize(
    ("command", "former", "new"),
    [
        ("fit", ["--extrapolate", "1e5"], ["--compute", "1e5"]),
        ("extrapolate", ["--to", "2e4", "1e5"], ["--compute", "2e4", "1e5"]),
        ("extrapolate", ["--extrapolate", "1e5"], ["--compute", "1e5"]),
        ("extrapolate", ["--forecast", "auto"], ["--forecast", "averaged"]),
        ("compare", ["--at", "1e5"], ["--compute", "1e5"]),
        ("compare", ["--device-factor", "H100=0.5"], ["--device-factors", "H100=0.5"]),
        ("report", ["-o", "a.html", "--at", "1e5"], ["-o", "a.html", "--compute", "1e5"]),
        ("plan", ["--at", "1e5"], ["--compute", "1e5"]),
        ("backtest", ["--models", "power_law", "auto"], ["--methods", "power-law", "averaged"]),
        ("ingest", ["--compute", "tokens"], ["--compute-from", "tokens"]),
        ("doctor", ["--compute", "tokens"], ["--compute-from", "tokens"]),
    ],
)
def test_former_spellings_work_and_are_not_in_the_help(command: str, former: list[str], new: list[str]) -> None:
    parser = subparser(command)
    assert parser.parse_args(["run.csv", *former]) == parser.parse_args(["run.csv", *new])
    old_names = {word for word in former if word.startswith("--")} - {word for word in new if word.startswith("--")}
    assert not old_names & set(re.findall(r"^  (--[\w-]+)", parser.format_help(), flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("function", "options_class", "own"),
    [
        (fit_sigmoid, FitOptions, {"compute", "pass_rate", "weights", "on_error", "on_failure"}),
        (compare, ComparisonOptions, {"fits", "compute", "rng", "n_jobs", "on_progress", "shared_R0"}),
    ],
)
def test_options_are_the_arguments_of_the_function(function: Any, options_class: type, own: set[str]) -> None:
    parameters = inspect.signature(function).parameters
    arguments = {name: parameter.default for name, parameter in parameters.items() if name not in own}
    fields = {field.name: field.default for field in dataclasses.fields(options_class)}
    assert arguments == {name: value for name, value in fields.items() if name not in ("own_R0", "seed")}
