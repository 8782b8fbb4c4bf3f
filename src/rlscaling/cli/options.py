"""Groups of options that several commands share, made from the fields of the options classes."""

from __future__ import annotations

import argparse
import dataclasses

from rlscaling.batch.analysis import AnalysisOptions
from rlscaling.cli.arguments import add_renamed, device_factor
from rlscaling.cli.inputs import ComparisonOptions
from rlscaling.fitting.options import FitOptions
from rlscaling.option_fields import add_options
from rlscaling.readers.options import COMPUTE_SOURCES, ReadOptions


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
    names = ("scheme", "forecast", "n_resamples", "confidence_level", "seed_sd", "seed", "n_jobs")
    add_options(parser.add_argument_group("intervals"), AnalysisOptions, names, defaults=True)


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
    """Add the seed of the random numbers."""
    add_options(group, AnalysisOptions, ("seed",), defaults=True)


def add_json(group: argparse._ActionsContainer) -> None:
    """Add the choice of JSON."""
    group.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")


def add_plot(group: argparse._ActionsContainer, help: str) -> None:
    """Add a figure to draw, and whether it may replace a file."""
    group.add_argument("--plot", metavar="FILE", help=f"{help} (default: none)")
    group.add_argument("--overwrite", action="store_true", help="let --plot replace a file (default: no)")
