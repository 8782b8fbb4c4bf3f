"""From parsed arguments to runs and options objects, checked before any file is read."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import AnalysisOptions
from rlscaling.batch.sources import RunSource
from rlscaling.batch.sources import find_runs as runs_at
from rlscaling.cli.arguments import UsageError
from rlscaling.errors import RLScalingError
from rlscaling.fitting.options import EPOCH, FitOptions, resolve_options
from rlscaling.option_fields import given_options, level, option
from rlscaling.readers.options import ReadOptions
from rlscaling.uncertainty.seed_spread import SEED_SD

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
TRACE_SUFFIXES = (".parquet", ".jsonl", ".csv")
PAGE_SUFFIXES = (".html", ".htm")


@dataclasses.dataclass(frozen=True)
class InputOptions:
    """Which files to read, and how; ``given`` names the reading options of the command line."""

    paths: tuple[str, ...]
    read: ReadOptions
    given: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class OutputOptions:
    """What a command prints and draws."""

    json: bool = False
    plot: Path | None = None
    overwrite: bool = False


@dataclasses.dataclass(frozen=True)
class FitOutput(OutputOptions):
    """What ``fit`` and ``extrapolate`` print, draw and write."""

    forecast_first: bool = False
    save: str | None = None
    table: Path | None = None
    resume: bool = False
    require_identified: bool = False


@dataclasses.dataclass(frozen=True)
class ComparisonOptions:
    """How recipes are compared; the fields are arguments of `compare`, which documents them."""

    margin: float = option(0.02, "ceilings closer than this count as equal", above=0.0, metavar="X")
    own_R0: bool = option(
        False, "give each run its own R0, as for different base models", flag="--own-R0", default_help="one shared R0"
    )
    device_factors: Mapping[str, float] | None = None
    n_resamples: int = option(1000, "number of draws, at least 100", flag="--resamples", least=100, metavar="N")
    confidence_level: float = option(
        0.95,
        "confidence level of the intervals; 1 - P is the family-wise error rate of the verdicts",
        metavar="P",
        parse=level,
    )
    seed_sd: float = option(
        SEED_SD,
        "standard deviation of A between training runs of one recipe, where no recipe has several",
        least=0.0,
        metavar="X",
    )
    seed: int = option(0, "seed of the random numbers: the same seed gives the same results", least=0, metavar="N")

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `compare`."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return values | {"shared_R0": not values.pop("own_R0"), "rng": values.pop("seed")}


@dataclasses.dataclass(frozen=True)
class FitRequest:
    """What ``rlscaling fit`` or ``rlscaling extrapolate`` was asked for."""

    inputs: InputOptions
    analysis: AnalysisOptions
    output: FitOutput


@dataclasses.dataclass(frozen=True)
class ComparisonRequest:
    """What ``rlscaling compare`` or ``rlscaling loo`` was asked for."""

    inputs: InputOptions
    analysis: AnalysisOptions
    by: str
    comparison: ComparisonOptions
    output: OutputOptions
    budgets: tuple[float, ...] | None = None
    reference: str = ""


@dataclasses.dataclass(frozen=True)
class ReportRequest:
    """What ``rlscaling report`` was asked for."""

    inputs: InputOptions
    fit: dict[str, Any]
    by: str
    comparison: ComparisonOptions
    budgets: tuple[float, ...] | None
    out: Path
    title: str
    output: OutputOptions


@dataclasses.dataclass(frozen=True)
class BacktestRequest:
    """What ``rlscaling backtest`` was asked for."""

    inputs: InputOptions
    analysis: AnalysisOptions
    cutoffs: tuple[float, ...] | None
    methods: tuple[str, ...]
    pool: bool
    leave_one_out: bool
    output: OutputOptions


@dataclasses.dataclass(frozen=True)
class PlanRequest:
    """What ``rlscaling plan`` was asked for."""

    inputs: InputOptions
    analysis: AnalysisOptions
    target: float
    budget: float | None
    next: float | None
    gain: float
    split: float | None
    output: OutputOptions


@dataclasses.dataclass(frozen=True)
class WatchRequest:
    """What ``rlscaling watch`` was asked for."""

    inputs: InputOptions
    analysis: AnalysisOptions
    once: bool
    interval: float
    output: OutputOptions


@dataclasses.dataclass(frozen=True)
class IngestRequest:
    """What ``rlscaling ingest`` was asked for."""

    inputs: InputOptions
    out: Path | None
    output: OutputOptions


@dataclasses.dataclass(frozen=True)
class DoctorRequest:
    """What ``rlscaling doctor`` was asked for."""

    inputs: InputOptions
    output: OutputOptions


def fit_request(args: argparse.Namespace, *, forecast_first: bool) -> FitRequest:
    """Return what ``fit`` (or, with the forecast first, ``extrapolate``) was asked for."""
    analysis = _analysis_options(args)
    if args.budgets is not None or forecast_first:
        analysis = dataclasses.replace(analysis, budgets=tuple(args.budgets or ()))
    shared = dataclasses.asdict(_output_options(args))
    output = FitOutput(
        **shared, forecast_first=forecast_first, save=args.save, table=None if args.out is None else Path(args.out),
        resume=args.resume_table, require_identified=args.require_identified,
    )  # fmt: skip
    return FitRequest(_input_options(args), analysis, output)


def comparison_request(args: argparse.Namespace) -> ComparisonRequest:
    """Return what ``compare`` or ``loo`` was asked for."""
    return ComparisonRequest(
        analysis=_analysis_options(args), output=_output_options(args), inputs=_input_options(args),
        by=args.by, comparison=_comparison_options(args),
        budgets=_optional_tuple(getattr(args, "budgets", None)), reference=getattr(args, "reference", ""),
    )  # fmt: skip


def report_request(args: argparse.Namespace) -> ReportRequest:
    """Return what ``report`` was asked for."""
    fit, out = fit_options(args), Path(args.out)
    if out.suffix.lower() not in PAGE_SUFFIXES:
        raise UsageError(f"--out {out}: a report is an HTML file; end the name in .html")
    check_new(out, "--out", args.overwrite)
    return ReportRequest(
        fit=fit, inputs=_input_options(args, receipt=True), by=args.by, comparison=_comparison_options(args),
        budgets=_optional_tuple(args.budgets), out=out, title=args.title,
        output=OutputOptions(json=args.json, overwrite=args.overwrite),
    )  # fmt: skip


def backtest_request(args: argparse.Namespace) -> BacktestRequest:
    """Return what ``backtest`` was asked for."""
    return BacktestRequest(
        analysis=_analysis_options(args), output=_output_options(args), inputs=_input_options(args),
        cutoffs=_optional_tuple(args.beginnings), methods=tuple(args.methods), pool=args.pool or args.leave_one_out,
        leave_one_out=args.leave_one_out,
    )  # fmt: skip


def plan_request(args: argparse.Namespace) -> PlanRequest:
    """Return what ``plan`` was asked for."""
    return PlanRequest(
        analysis=_analysis_options(args), output=_output_options(args), inputs=_input_options(args),
        target=args.target, budget=args.budget, next=args.next, gain=args.gain, split=args.split,
    )  # fmt: skip


def watch_request(args: argparse.Namespace) -> WatchRequest:
    """Return what ``watch`` was asked for."""
    return WatchRequest(
        analysis=_analysis_options(args), inputs=_input_options(args), once=args.once, interval=args.interval,
        output=OutputOptions(json=args.json),
    )  # fmt: skip


def ingest_request(args: argparse.Namespace) -> IngestRequest:
    """Return what ``ingest`` was asked for."""
    out = None if args.out is None else Path(args.out)
    if out is not None:
        check_new(out, "--out", args.overwrite)
        if out.suffix not in TRACE_SUFFIXES:
            raise UsageError(f"--out {out}: end the name in .parquet (or .jsonl or .csv for a single run)")
    output = OutputOptions(json=args.json, overwrite=args.overwrite)
    return IngestRequest(_input_options(args, receipt=True), out, output)


def doctor_request(args: argparse.Namespace) -> DoctorRequest:
    """Return what ``doctor`` was asked for."""
    return DoctorRequest(_input_options(args, receipt=True), OutputOptions(json=args.json))


# --- options objects ------------------------------------------------------------------------------------------


def fit_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a fit that were given, checked for contradictions before any file is read.

    Raises
    ------
    UsageError
        When two options contradict each other, or a value is out of range.
    """
    options = given_options(args, FitOptions)
    options.pop("compute_unit", None)  # of the file where it says so; a saved fit is fitted again with another
    try:
        checkable = {name: value for name, value in options.items() if (name, value) != ("min_compute", EPOCH)}
        resolve_options({"A_max": math.inf, "min_compute": 0.0} | checkable)
    except RLScalingError as error:
        raise UsageError(str(error)) from None
    return options


def _analysis_options(args: argparse.Namespace) -> AnalysisOptions:
    """Return what is computed for every run: the fit, and the intervals where the command has options for them."""
    options = given_options(args, AnalysisOptions)
    return AnalysisOptions(options=fit_options(args), **options | {"reach": tuple(options.get("reach", ()))})


def _input_options(args: argparse.Namespace, *, receipt: bool = False) -> InputOptions:
    """Return what is to be read, and how; with a receipt for tables too, which logs always have.

    Raises
    ------
    UsageError
        When a value cannot be used.
    """
    options = given_options(args, ReadOptions)
    try:
        read = ReadOptions(**options, receipt=receipt)
    except RLScalingError as error:
        raise UsageError(str(error)) from None
    return InputOptions(tuple(args.paths), read, tuple(name for name in options if name != "compute_unit"))


def _output_options(args: argparse.Namespace) -> OutputOptions:
    """Return what is printed and drawn; a figure that could not be written is refused here."""
    if args.plot is None:
        return OutputOptions(json=args.json, overwrite=args.overwrite)
    plot = Path(args.plot)
    if plot.suffix.lower() not in FIGURE_SUFFIXES:
        raise UsageError(f"--plot {plot}: the suffix says the format; choose one of {', '.join(FIGURE_SUFFIXES)}")
    check_new(plot, "--plot", args.overwrite)
    return OutputOptions(json=args.json, plot=plot, overwrite=args.overwrite)


def _comparison_options(args: argparse.Namespace) -> ComparisonOptions:
    options = given_options(args, ComparisonOptions)
    return ComparisonOptions(**options | {"device_factors": dict(options.get("device_factors", ())) or None})


def _optional_tuple(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)


def check_new(path: Path, option: str, overwrite: bool) -> None:
    """Refuse a file that could not be written, before any work is done."""
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file")
    if path.exists() and not overwrite:
        raise UsageError(f"{option} {path} exists and is not written over; choose another name, or add --overwrite")


# --- runs -----------------------------------------------------------------------------------------------------


def find_runs(inputs: InputOptions, leave_out: Iterable[Path] = ()) -> list[RunSource]:
    """Return every run that the paths stand for, in order, those that cannot be read with the reason."""
    runs = runs_at(inputs.paths, inputs.read, inputs.given, leave_out)
    for run in runs:
        for text in run.messages:
            print(f"rlscaling: {text}", file=sys.stderr)
    return runs


def check_one_figure(output: OutputOptions, runs: Sequence[RunSource]) -> None:
    """Refuse one figure for several runs."""
    if output.plot is not None and len(runs) > 1:
        raise UsageError(f"--plot {output.plot}: {len(runs)} runs; draw them one by one")


def recipe_names(headers: Mapping[str, Mapping[str, Any]], by: str) -> dict[str, str]:
    """Return the recipe of each run: its own, or that which its header names.

    Raises
    ------
    UsageError
        When two runs name the same recipe and the same seed: they would count as two training runs.
    """
    if by == "run":
        return {name: name for name in headers}
    recipes: dict[str, str] = {}
    seeds: dict[tuple[str, str], str] = {}
    for name, header in headers.items():
        recipe, seed = str(header.get("recipe") or name), header.get("seed")
        if seed is not None and (recipe, str(seed)) in seeds:
            raise UsageError(
                f"{seeds[recipe, str(seed)]} and {name} both say recipe {recipe!r}, seed {seed}: leave one of them "
                "out, or take every run as a recipe with --by run"
            )
        seeds[recipe, str(seed)] = name
        recipes[name] = recipe
    return recipes
