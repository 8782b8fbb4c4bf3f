"""`COMMANDS`: name, help and module of every command; a module is imported when its command is asked for."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass
from typing import Any

from rlscaling.cli.arguments import Parser
from rlscaling.cli.exit_codes import EXIT_CODES
from rlscaling.version import __version__

ABOUT = """\
Decide from the first few thousand GPU-hours of a reinforcement-learning run what it will reach at 100,000.

The pass rate on held-out prompts is fitted by R = R0 + (A - R0) / (1 + (C_mid / C)^B) against compute C. Every result
begins with a verdict: whether the data identify the ceiling A at all.
"""


@dataclass(frozen=True)
class Command:
    """What is known of a command before its module is imported.

    Attributes
    ----------
    help : str
        A line for ``rlscaling --help``.
    module : str
        The module of `rlscaling.cli` that holds it.
    add_arguments, run : str
        Names of the two functions of the module: one adds the command's arguments to a parser, the other takes the
        parsed arguments and returns the exit code.
    operands : str
        What the command takes before its options.
    """

    help: str
    module: str
    add_arguments: str = "add_arguments"
    run: str = "run"
    operands: str = "PATH [PATH ...] "


COMMANDS = {
    "fit": Command("fit the curve to runs and judge whether they identify the ceiling", "fit"),
    "extrapolate": Command(
        "forecast the pass rate at a compute budget", "fit", "add_extrapolate_arguments", "run_extrapolate"
    ),
    "compare": Command("compare recipes at a compute budget: which is best, and how certain that is", "compare"),
    "loo": Command(
        "compare a recipe with its leave-one-out variants", "compare", "add_leave_one_out_arguments",
        "run_leave_one_out",
    ),
    "backtest": Command("test forecasts from the beginning of a run against the rest of it", "backtest"),
    "plan": Command("estimate how much longer to run, and what that would bring", "plan"),
    "watch": Command("watch a running log and report when the run departs from its curve", "watch"),
    "report": Command("write one HTML page: verdicts, comparison, forecasts, backtests, plans, receipts", "report"),
    "ingest": Command("read logs, report what was used, assumed and left out, and save the evaluations", "ingest"),
    "doctor": Command("find problems in logs before they are fitted, each with its remedy", "doctor"),
    "train": Command("train a small model with a recipe and fit its trace", "train", operands="--out DIR "),
    "recipes": Command("show the settings of each recipe, with their sources", "recipes", operands="[NAME ...] "),
    "export-recipe": Command(
        "print a recipe as the options of TRL or verl", "export", "add_recipe_arguments", "run_recipe", "NAME "
    ),
    "export-log": Command(
        "convert a trace of the trainer to a log of verl", "export", "add_log_arguments", "run_log", "TRACE "
    ),
    "kernels": Command("show which kernels the trainer uses on this machine, and why", "kernels", operands=""),
    "demo": Command("see the analysis of bundled simulated runs; needs no files", "demo", operands=""),
}  # fmt: skip


class CommandParser(Parser):
    """The parser of one command, which imports the command's module when it is first used."""

    def __init__(self, *, command: Command, **options: Any) -> None:
        super().__init__(**options)
        self._command: Command | None = command

    def complete(self) -> CommandParser:
        """Add the arguments of the command, once, and return the parser."""
        command, self._command = self._command, None
        if command is not None:
            module = importlib.import_module(f"rlscaling.cli.{command.module}")
            getattr(module, command.add_arguments)(self)
            self.set_defaults(run_command=getattr(module, command.run))
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments of the command, which are added here; what it does not know is an error of its own."""
        parsed, unknown = Parser.parse_known_args(self.complete(), args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command; ``run_command`` of the parsed arguments is the function to call."""
    parser = Parser(
        prog="rlscaling", description=ABOUT, epilog="Start with: rlscaling demo\n\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"rlscaling {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, command in COMMANDS.items():
        commands.add_parser(
            name, command=command, help=command.help, description=command.help[0].upper() + command.help[1:] + ".",
            usage=f"rlscaling {name} {command.operands}[options]", allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
    return parser
