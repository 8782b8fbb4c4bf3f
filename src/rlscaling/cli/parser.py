"""The options of the command. Nothing heavy is imported here: ``rlscaling --help`` answers at once."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NoReturn

from rlscaling.version import __version__

DEFAULT_OUT = "rlscaling-demo"
UNITS = ("gpu-hours", "device-hours", "wall-hours", "tokens", "flops", "rollouts", "steps")
SCALES = ("auto", "fraction", "percent", "pm1", "reward")
SCHEMES = ("ar1", "residual", "pairs", "block", "binomial", "posterior")
FORECASTS = ("sigmoid", "auto")
METHODS = ("varpro", "paper-grid")
OPERANDS = {
    "demo": "",
    "train": "--out DIR ",
    "recipes": "[NAME ...] ",
    "kernels": "",
    "export-recipe": "NAME ",
    "export-log": "TRACE ",
}
"""What a command is given before its options, where that is not one or more paths."""

ABOUT = """\
Decide from the first few thousand GPU-hours of a reinforcement-learning run what it will reach at 100,000.

The pass rate on held-out prompts is fitted by R = R0 + (A - R0) / (1 + (C_mid / C)^B) against compute C. Every answer
opens with a verdict: whether the data can tell the ceiling A at all.
"""
EXIT_CODES = """\
exit codes:
  0    answered
  2    the command line cannot be carried out as written
  3    data refused; in a batch the other runs are still answered
  4    with --require-identified: a verdict is neither identified nor approximate
  5    workers died; with --out, what was finished is kept
"""
DEMO_FIRST = "examples (after 'rlscaling demo', which writes the file):\n"
FIT_EXAMPLES = f"""\
{DEMO_FIRST}  rlscaling fit {DEFAULT_OUT}/scalerl.jsonl --extrapolate 100000 --plot fit.png
  rlscaling fit {DEFAULT_OUT}/scalerl.jsonl --max-compute 8000 --cutoffs --json

{EXIT_CODES}"""
EXTRAPOLATE_EXAMPLES = f"""\
{DEMO_FIRST}  rlscaling extrapolate {DEFAULT_OUT}/scalerl.jsonl
  rlscaling extrapolate {DEFAULT_OUT}/scalerl.jsonl --to 20000 50000 100000 --confidence-level 0.9 --json

{EXIT_CODES}"""
TRAIN_EXAMPLES = f"""\
examples (they need torch: pip install 'rlscaling[trainer]'):
  rlscaling train --out runs/scalerl
  rlscaling train --recipe dapo --steps 400 --seeds 0,1,2 --out runs/dapo
  rlscaling train --out runs/scalerl --resume

{EXIT_CODES}"""
RECIPES_EXAMPLES = """\
examples:
  rlscaling recipes
  rlscaling recipes scalerl dapo --all
"""
KERNELS_EXAMPLES = """\
examples (they need torch: pip install 'rlscaling[trainer]'):
  rlscaling kernels
  RLSCALING_KERNELS=emulate rlscaling kernels --json
"""
DEMO_EXAMPLES = """\
examples:
  rlscaling demo
  rlscaling demo --out my-demo --json
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors read like all others of the command."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is, and exit with 2."""
        self.exit(2, f"rlscaling: error: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command; each subcommand sets ``command`` to what runs it."""
    from rlscaling.cli.compare_options import add_compare, add_loo
    from rlscaling.cli.export_options import add_export
    from rlscaling.cli.log_options import add_doctor, add_ingest
    from rlscaling.cli.plan_options import add_planning
    from rlscaling.cli.report_options import add_report

    parser = Parser(
        prog="rlscaling", description=ABOUT, epilog="Start with: rlscaling demo\n\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"rlscaling {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    fit = subcommand(commands, "fit", "fit runs: what is the ceiling, and do the data tell", FIT_EXAMPLES, _run_fit)
    _add_shared(fit, ("--extrapolate",), "also forecast the pass rate at these budgets (default: no forecast)")
    more = subcommand(
        commands, "extrapolate", "forecast the pass rate at a budget", EXTRAPOLATE_EXAMPLES, _run_forecast
    )
    to_help = "budgets to forecast (default: 100000 where compute is in GPU-hours, else there is none)"
    _add_shared(more, ("--to", "--extrapolate"), to_help)
    add_compare(commands)
    add_loo(commands)
    add_planning(commands)
    add_report(commands)
    add_ingest(commands)
    add_doctor(commands)
    _add_training(commands)
    add_export(commands)
    kernels = subcommand(
        commands, "kernels", "show which kernels the trainer uses here, and why", KERNELS_EXAMPLES, _run_kernels
    )
    kernels.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")
    demo = subcommand(
        commands, "demo", "see it work on bundled simulated runs; needs no files", DEMO_EXAMPLES, _run_demo
    )
    demo.add_argument("--out", metavar="DIR", default=DEFAULT_OUT, help=f"folder to write to (default: {DEFAULT_OUT})")
    add_seed(demo)
    demo.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")
    return parser


def _run_fit(args: argparse.Namespace) -> int:
    from rlscaling.cli.commands import analyse

    return analyse(args, forecast_first=False)


def _run_forecast(args: argparse.Namespace) -> int:
    from rlscaling.cli.commands import analyse

    return analyse(args, forecast_first=True)


def _run_demo(args: argparse.Namespace) -> int:
    from rlscaling.cli.demo import demo

    return demo(args)


def _run_kernels(args: argparse.Namespace) -> int:
    from rlscaling.cli.kernels import kernels

    return kernels(args)


def _add_training(commands: argparse._SubParsersAction[Parser]) -> None:
    from rlscaling.trainer.command.arguments import add_arguments

    train = subcommand(
        commands, "train", "train a small model with a recipe, and fit its trace", TRAIN_EXAMPLES, _run_train
    )
    add_arguments(train)
    train.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")
    recipes = subcommand(
        commands, "recipes", "show what each recipe sets, with sources", RECIPES_EXAMPLES, _run_recipes
    )
    recipes.add_argument("names", metavar="NAME", nargs="*", help="recipes to show in full (default: all, in short)")
    recipes.add_argument("--all", action="store_true", help="every field, not only those of the paper's axes")
    recipes.add_argument("--json", action="store_true", help="print one JSON object instead of text (default: text)")


def _run_train(args: argparse.Namespace) -> int:
    from rlscaling.cli.train import train

    return train(args)


def _run_recipes(args: argparse.Namespace) -> int:
    from rlscaling.cli.recipes import recipes

    return recipes(args)


def subcommand(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    about: str,
    epilog: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """Add a command: its help, its examples, what runs it."""
    parser = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + ".", epilog=epilog, allow_abbrev=False,
        usage=f"rlscaling {name} {OPERANDS.get(name, 'PATH [PATH ...] ')}[options]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(command=run)
    return parser


def _add_shared(parser: argparse.ArgumentParser, budgets: tuple[str, ...], budgets_help: str) -> None:
    from rlscaling.cli.log_options import add_device_factor

    parser.add_argument(
        "paths", metavar="PATH", nargs="+",
        help="trace (JSON lines, CSV, Parquet, JSON), log or folder of a trainer or logger, quoted glob, or fit saved "
        "with --save; several are one batch",
    )  # fmt: skip
    parser.add_argument(*budgets, dest="budgets", metavar="C", nargs="+", type=positive, help=budgets_help)
    add_fit_options(parser.add_argument_group("fit"))
    reading = parser.add_argument_group("reading files")
    add_reader_options(reading)
    add_device_factor(reading)
    _add_interval_options(parser.add_argument_group("intervals"))
    _add_output_options(parser.add_argument_group("output"))


def add_fit_options(group: argparse._ArgumentGroup) -> None:
    """Add the options of a fit."""
    group.add_argument(
        "--min-compute", metavar="X", type=_cutoff,
        help="leave earlier evaluations out; epoch: those of the first epoch, where the trace records its end "
        "(default: 1500 GPU-hours; other units have none; 0 keeps everything)",
    )  # fmt: skip
    group.add_argument("--max-compute", metavar="X", type=_number, help="leave later evaluations out (default: inf)")
    group.add_argument(
        "--exclude", metavar="LOW:HIGH", action="append", type=_range,
        help="leave a range of compute out; may be given again (default: none)",
    )  # fmt: skip
    group.add_argument(
        "--R0", metavar="VALUE|free", type=_R0,
        help="pass rate before RL (default: anchored on the earliest evaluation if before the cutoff, else free)",
    )  # fmt: skip
    group.add_argument(
        "--R0-se", metavar="X", type=_number, help="how far the anchor may sit off the curve (default: 0.015)"
    )
    group.add_argument("--A", metavar="X", type=_number, help="fix the ceiling (default: fitted)")
    group.add_argument("--B", metavar="X", type=_number, help="fix the exponent (default: fitted)")
    group.add_argument(
        "--A-max",
        metavar="X",
        type=_number,
        help="upper bound of A; inf: unbounded scores (default: 1, for rewards inf)",
    )
    group.add_argument(
        "--B-bounds", metavar=("LO", "HI"), nargs=2, type=_number, help="bounds of the exponent (default: 0.1 10)"
    )
    group.add_argument(
        "--method", choices=METHODS, help="paper-grid reproduces the paper's procedure (default: varpro)"
    )
    group.add_argument(
        "--compute-unit", metavar="U", choices=UNITS,
        help=f"one of {', '.join(UNITS)} (default: what the file says, else gpu-hours)",
    )  # fmt: skip


def add_reader_options(group: argparse._ArgumentGroup) -> None:
    """Add the options of reading files."""
    from rlscaling.cli.log_options import add_log_options

    group.add_argument("--compute-column", metavar="NAME", help="column of compute (default: found by its name)")
    group.add_argument(
        "--pass-rate-column", metavar="NAME", help="column of the pass rate (default: found by its name)"
    )
    group.add_argument(
        "--scale", choices=SCALES,
        help="what the scores are; auto: fractions, or rewards where values say so (default: auto)",
    )  # fmt: skip
    group.add_argument("--run", metavar="NAME", help="the run to take from a file of several (default: all)")
    group.add_argument("--run-column", metavar="NAME", help="column that tells runs apart (default: found by its name)")
    group.add_argument("--domain", metavar="NAME", help="the domain to take from a file of several (default: all)")
    group.add_argument(
        "--drop-missing", action="store_true", default=None,
        help="leave rows without compute or pass rate out (default: refuse them)",
    )  # fmt: skip
    add_log_options(group)


def _add_interval_options(group: argparse._ArgumentGroup) -> None:
    from rlscaling.cli.table_options import add_workers

    group.add_argument(
        "--scheme", choices=SCHEMES, default="ar1",
        help="how replicates are drawn; of the bootstraps only ar1 keeps its level on real runs (default: ar1)",
    )  # fmt: skip
    group.add_argument(
        "--forecast", choices=FORECASTS, default="sigmoid",
        help="auto: average over curves; on real runs nearer at 4x the data, about as near at 2x (default: sigmoid)",
    )  # fmt: skip
    group.add_argument("--resamples", metavar="N", type=count_from(2), default=1000, help="replicates (default: 1000)")
    group.add_argument(
        "--confidence-level", metavar="P", type=level, default=0.95,
        help="level of the printed intervals; the verdict is always at 0.95 (default: 0.95)",
    )  # fmt: skip
    group.add_argument(
        "--seed-sd", metavar="X", type=not_negative, default=0.015,
        help="spread of A between seeds of one recipe, for the new-run intervals (default: 0.015)",
    )  # fmt: skip
    add_seed(group)
    add_workers(group)


def add_seed(group: argparse._ActionsContainer) -> None:
    """Add the seed of the replicates."""
    group.add_argument(
        "--seed", metavar="N", type=count_from(0), default=0,
        help="seed of the replicates: same seed, same numbers (default: 0)",
    )  # fmt: skip


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    from rlscaling.cli.table_options import add_table_options

    group.add_argument(
        "--reach", metavar="R", nargs="+", type=_number, default=[],
        help="also give the compute at which these pass rates are reached (default: none)",
    )  # fmt: skip
    group.add_argument("--cutoffs", action="store_true", help="also show how A depends on --min-compute (default: no)")
    group.add_argument("--json", action="store_true", help="print one JSON object and nothing else (default: text)")
    group.add_argument(
        "--plot", metavar="FILE", help="draw a picture (.png, .svg, .pdf); several runs become panels (default: none)"
    )
    group.add_argument(
        "--save", metavar="FILE", help="save the fit (.json); for several runs a folder (default: not saved)"
    )
    add_table_options(group)
    group.add_argument("--overwrite", action="store_true", help="let --plot, --save, --out replace files (default: no)")
    group.add_argument(
        "--require-identified", action="store_true",
        help="exit with 4 unless every verdict is identified or approximate (default: no)",
    )  # fmt: skip


# --- values -------------------------------------------------------------------------------------------------


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        hint = "; files go before this option" if "." in text or "/" in text else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a number{hint}") from None
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def _cutoff(text: str) -> float | str:
    return text if text == "epoch" else _number(text)


def positive(text: str) -> float:
    """Return a positive, finite amount."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive, finite number")
    return value


def not_negative(text: str) -> float:
    """Return a finite number of 0 or more."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of 0 or more")
    return value


def level(text: str) -> float:
    """Return a level in (0, 1)."""
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1; for 95 % give 0.95")
    return value


def _R0(text: str) -> float | str:
    return text if text == "free" else _number(text)


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not LOW:HIGH, e.g. 3000:3500")
    return (_number(low) if low else 0.0), (_number(high) if high else math.inf)


def count_from(least: int) -> Callable[[str], int]:
    """Return what reads a whole number of ``least`` or more."""

    def count(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return count
