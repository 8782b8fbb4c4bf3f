"""The options of reading what trainers and loggers wrote, and of ``rlscaling ingest`` and ``rlscaling doctor``."""

from __future__ import annotations

import argparse
from typing import Any

from rlscaling.cli.parser import UNITS, add_reader_options, positive, subcommand

EXIT_CODES = """\
exit codes:
  0    answered
  2    the command line cannot be carried out as written
  3    data refused, in a batch the others are still read; doctor: something must be decided
"""
INGEST_EXAMPLES = f"""\
examples:
  rlscaling ingest checkpoints/proj/exp.jsonl -o runs.parquet
  rlscaling ingest wandb/ --metric "val-core/*/acc/mean@*" -o runs.parquet
  rlscaling ingest tb/run-1 tb/run-2 --stitch --n-gpus 64 --json

{EXIT_CODES}"""
DOCTOR_EXAMPLES = f"""\
examples:
  rlscaling doctor checkpoints/proj/exp.jsonl
  rlscaling doctor "logs/*" --json

{EXIT_CODES}"""


def add_log_options(group: argparse._ArgumentGroup) -> None:
    """Add the options of logs of trainers."""
    group.add_argument(
        "--metric", metavar="GLOB", help="metric of a log that is the pass rate (default: the one plainly meant)"
    )
    group.add_argument(
        "--compute", choices=("gpu-hours", "wall-hours", "tokens", "flops", "steps"),
        help="what the compute of a log is counted in (default: gpu-hours)",
    )  # fmt: skip
    group.add_argument(
        "--n-gpus", metavar="N", type=positive,
        help="GPUs of the run, generators and trainers together (default: from the log, where it tells)",
    )  # fmt: skip
    group.add_argument(
        "--eval-time", choices=("exclude", "include"), help="whether evaluations count as compute (default: exclude)"
    )
    group.add_argument(
        "--eval-before-update", action=argparse.BooleanOptionalAction, default=None,
        help="the evaluation in a row was made before its update (default: what the framework does)",
    )  # fmt: skip
    group.add_argument(
        "--gap", metavar="SECONDS", type=positive,
        help="time without a row that counts as a pause (default: 3600, or 5 times the usual time if that is longer)",
    )  # fmt: skip
    group.add_argument(
        "--resume", choices=("last", "first", "all"),
        help="which rows count where a resumed run did steps again; all: executed compute (default: last)",
    )  # fmt: skip
    group.add_argument(
        "--stitch", action="store_true", default=None, help="the paths are pieces of one run (default: no)"
    )
    group.add_argument(
        "--missing-start", choices=("refuse", "estimate"),
        help="what to do with a log whose first steps are missing (default: refuse)",
    )  # fmt: skip


def add_device_factor(group: argparse._ArgumentGroup) -> None:
    """Add the factor between devices."""
    group.add_argument(
        "--device-factor", metavar="X|FROM:TO", dest="hours_factor",
        help="multiply hours, to tell them in another device's: a number, a ratio of peak rates such as A100:H100, "
        "or of prices such as price:A100:H100 (default: 1)",
    )  # fmt: skip


def add_ingest(commands: Any) -> None:
    """Add ``ingest``."""
    parser = subcommand(
        commands, "ingest", "read logs, say what was taken, assumed and left out, and keep the evaluations",
        INGEST_EXAMPLES, _ingest,
    )  # fmt: skip
    _add_reading(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--out", metavar="FILE",
        help="write the runs with their receipts: .parquet, or for a single run .jsonl, or .csv without its receipt "
        "(default: not written)",
    )  # fmt: skip
    group.add_argument("--overwrite", action="store_true", help="let --out replace a file (default: no)")
    group.add_argument("--json", action="store_true", help="print one JSON object and nothing else (default: text)")


def add_doctor(commands: Any) -> None:
    """Add ``doctor``."""
    parser = subcommand(
        commands, "doctor", "say what would go wrong with these logs, and the remedy", DOCTOR_EXAMPLES, _doctor
    )
    _add_reading(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="+",
        help="files, folders or quoted globs: logs of trainers, W&B, TensorBoard, MLflow or trackio; tables; traces",
    )  # fmt: skip
    group = parser.add_argument_group("reading files")
    add_reader_options(group)
    add_device_factor(group)
    group.add_argument(
        "--compute-unit",
        metavar="U",
        choices=UNITS,
        help="unit of the compute column of a table (default: by its name)",
    )


def _ingest(args: argparse.Namespace) -> int:
    from rlscaling.cli.ingest import ingest

    return ingest(args)


def _doctor(args: argparse.Namespace) -> int:
    from rlscaling.cli.doctor import doctor

    return doctor(args)
