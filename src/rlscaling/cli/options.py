"""Groups of options that several commands share, made from the fields of the options classes."""

from __future__ import annotations

import argparse
import dataclasses

from rlscaling.cli.arguments import add_renamed, device_factor
from rlscaling.cli.inputs import ComparisonOptions
from rlscaling.fitting.options import FitOptions
from rlscaling.option_fields import add_options, level, not_negative, number, whole_number, workers
from rlscaling.readers.options import COMPUTE_SOURCES, ReadOptions
from rlscaling.solver.resampling import SCHEMES
from rlscaling.uncertainty.bootstrap import POSTERIOR

FORECASTS = ("sigmoid", "auto")


def add_paths(parser: argparse.ArgumentParser, help: str, nargs: str | int = "+") -> None:
    """Add the files to read."""
    parser.add_argument("paths", metavar="PATH", nargs=nargs, help=help)


def add_fit_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a fit."""
    add_options(parser.add_argument_group("fit"), FitOptions)


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
        "--scheme", choices=(*SCHEMES, POSTERIOR), default="ar1",
        help="how replicates are drawn; of the bootstraps only ar1 keeps its level on real runs (default: ar1)",
    )  # fmt: skip
    group.add_argument(
        "--forecast", choices=FORECASTS, default="sigmoid",
        help="auto: average over curves; on real runs nearer at 4x the data, about as near at 2x (default: sigmoid)",
    )  # fmt: skip
    group.add_argument(
        "--resamples", dest="n_resamples", metavar="N", type=whole_number(2), default=1000,
        help="replicates (default: 1000)",
    )  # fmt: skip
    group.add_argument(
        "--confidence-level", metavar="P", type=level, default=0.95,
        help="level of the printed intervals; the verdict is always at 0.95 (default: 0.95)",
    )  # fmt: skip
    group.add_argument(
        "--seed-sd", metavar="X", type=not_negative, default=0.015,
        help="spread of A between seeds of one recipe, for the new-run intervals (default: 0.015)",
    )  # fmt: skip
    add_seed(group)
    group.add_argument(
        "--n-jobs", "--jobs", metavar="N", type=workers, default=1,
        help="workers, -1: all cores; the numbers do not depend on it (default: 1)",
    )  # fmt: skip


def add_comparison_options(group: argparse._ArgumentGroup, *, by: str) -> None:
    """Add how recipes are compared, of ``compare``, ``loo`` and ``report``."""
    group.add_argument(
        "--by", choices=("run", "recipe"), default=by,
        help="run: every run is a recipe; recipe: runs whose header names the same recipe are its seeds "
        f"(default: {by})",
    )  # fmt: skip
    add_options(group, ComparisonOptions, ("margin", "own_R0"), defaults=True)
    add_renamed(
        group, "--device-factors", ("--device-factor",), metavar="NAME=X", action="append", type=device_factor,
        help="price or speed of an hour on a device, as the header names it; may be given again (default: none)",
    )  # fmt: skip
    add_options(group, ComparisonOptions, ("n_resamples", "confidence_level", "seed_sd", "seed"), defaults=True)


def add_seed(group: argparse._ActionsContainer) -> None:
    """Add the seed of the replicates."""
    add_options(group, ComparisonOptions, ("seed",), defaults=True)


def add_reach(group: argparse._ActionsContainer) -> None:
    """Add the pass rates to reach."""
    group.add_argument(
        "--reach", metavar="R", nargs="+", type=number, default=[],
        help="also give the compute at which these pass rates are reached (default: none)",
    )  # fmt: skip


def add_json(group: argparse._ActionsContainer, help: str = "print one JSON object and nothing else") -> None:
    """Add the choice of JSON."""
    group.add_argument("--json", action="store_true", help=f"{help} (default: text)")


def add_plot(group: argparse._ActionsContainer, help: str) -> None:
    """Add a figure to draw, and whether it may replace a file."""
    group.add_argument("--plot", metavar="FILE", help=f"{help} (default: none)")
    group.add_argument("--overwrite", action="store_true", help="let --plot replace a file (default: no)")
