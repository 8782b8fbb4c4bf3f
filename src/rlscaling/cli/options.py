"""Groups of options that several commands share, made from the fields of the options classes."""

from __future__ import annotations

import argparse
import dataclasses

from rlscaling.cli.arguments import add_renamed, device_factor
from rlscaling.cli.inputs import ComparisonOptions
from rlscaling.fitting.options import FitOptions
from rlscaling.forecasting.extrapolate import METHODS as FORECASTS
from rlscaling.forecasting.extrapolate import method_of
from rlscaling.option_fields import add_options, level, not_negative, number, whole_number, workers
from rlscaling.readers.options import COMPUTE_SOURCES, ReadOptions
from rlscaling.uncertainty.bootstrap import BOOTSTRAP_SCHEMES, SCHEME


def add_paths(parser: argparse.ArgumentParser, help: str, nargs: str | int = "+") -> None:
    """Add the files to read."""
    parser.add_argument("paths", metavar="PATH", nargs=nargs, help=help)


def add_fit_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a fit, first those that choose the evaluations."""
    names = [field.name for field in dataclasses.fields(FitOptions) if "option" in field.metadata]
    first = ("min_compute", "max_compute", "exclude")
    add_options(parser.add_argument_group("fit"), FitOptions, [*first, *(n for n in names if n not in first)])


def add_reading_options(parser: argparse.ArgumentParser, *, without: tuple[str, ...] = ("compute_unit",)) -> None:
    """Add the options of reading files; ``compute_unit`` is an option of a fit where there is one."""
    fields = [field.name for field in dataclasses.fields(ReadOptions) if "option" in field.metadata]
    add_options(parser.add_argument_group("reading files"), ReadOptions, [f for f in fields if f not in without])


def add_log_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the files and the reading options of ``ingest`` and ``doctor``."""
    add_paths(
        parser, "files, folders or quoted globs: logs of trainers, W&B, TensorBoard, MLflow or trackio; tables; traces"
    )
    add_reading_options(parser, without=())
    parser.add_argument(  # its name until 1.0
        "--compute", dest="compute_from", choices=COMPUTE_SOURCES, default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )


def add_interval_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of intervals and forecasts."""
    group = parser.add_argument_group("intervals")
    group.add_argument(
        "--scheme", choices=tuple(BOOTSTRAP_SCHEMES), default=SCHEME,
        help="how the replicates behind the intervals are drawn; of the bootstraps only ar1 keeps its level on real "
        "runs (default: ar1)",
    )  # fmt: skip
    group.add_argument(
        "--forecast", type=method_of, choices=FORECASTS, default="sigmoid",
        help="curve of the forecast; averaged: the average over several forms, on real runs more accurate at 4 times "
        "the compute so far and about as accurate at 2 times (default: sigmoid)",
    )  # fmt: skip
    group.add_argument(
        "--resamples", dest="n_resamples", metavar="N", type=whole_number(2), default=1000,
        help="number of replicates (default: 1000)",
    )  # fmt: skip
    group.add_argument(
        "--confidence-level", metavar="P", type=level, default=0.95,
        help="confidence level of the printed intervals; verdicts always use 0.95 (default: 0.95)",
    )  # fmt: skip
    group.add_argument(
        "--seed-sd", metavar="X", type=not_negative, default=0.015,
        help="standard deviation of A between training runs of one recipe, for the new-run intervals (default: 0.015)",
    )  # fmt: skip
    add_seed(group)
    group.add_argument(
        "--n-jobs", "--jobs", metavar="N", type=workers, default=1,
        help="number of workers; -1: one per core; the results do not depend on it (default: 1)",
    )  # fmt: skip


def add_comparison_options(group: argparse._ArgumentGroup, *, by: str) -> None:
    """Add how recipes are compared, of ``compare``, ``loo`` and ``report``."""
    group.add_argument(
        "--by", choices=("run", "recipe"), default=by,
        help="run: every run is a recipe of its own; recipe: runs whose headers name the same recipe are its training "
        f"runs (default: {by})",
    )  # fmt: skip
    add_options(group, ComparisonOptions, ("margin", "own_R0"), defaults=True)
    add_renamed(
        group, "--device-factors", ("--device-factor",), metavar="NAME=X", action="append", type=device_factor,
        help="multiply the hours of runs whose header names this device, by its price or speed; may be repeated "
        "(default: none)",
    )  # fmt: skip
    add_options(group, ComparisonOptions, ("n_resamples", "confidence_level", "seed_sd", "seed"), defaults=True)


def add_seed(group: argparse._ActionsContainer) -> None:
    """Add the seed of the replicates."""
    add_options(group, ComparisonOptions, ("seed",), defaults=True)


def add_reach(group: argparse._ActionsContainer) -> None:
    """Add the pass rates to reach."""
    group.add_argument(
        "--reach", metavar="R", nargs="+", type=number, default=[],
        help="also estimate the compute at which these pass rates are reached (default: none)",
    )  # fmt: skip


def add_json(group: argparse._ActionsContainer) -> None:
    """Add the choice of JSON."""
    group.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")


def add_plot(group: argparse._ActionsContainer, help: str) -> None:
    """Add a figure to draw, and whether it may replace a file."""
    group.add_argument("--plot", metavar="FILE", help=f"{help} (default: none)")
    group.add_argument("--overwrite", action="store_true", help="let --plot replace a file (default: no)")
