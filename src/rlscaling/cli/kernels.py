"""``rlscaling kernels``."""

from __future__ import annotations

import argparse
import sys

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.cli import options
from rlscaling.cli.output import Printer, print_json
from rlscaling.trainer.errors import needing_torch
from rlscaling.version import __version__

EXAMPLES = """\
examples (they need torch: pip install 'rlscaling[trainer]'):
  rlscaling kernels
  RLSCALING_KERNELS=emulate rlscaling kernels --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the implementation in use and what each of them needs, and return the exit code."""
    with needing_torch():
        from rlscaling.trainer.kernels import backends, binary_cache, ops
    name, reason = ops.backend()
    survey = backends.survey()
    if args.json:
        implementations = {key: {"available": available, "about": about} for key, (available, about) in survey.items()}
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        print_json({**head, "backend": name, "reason": reason, "implementations": implementations,
                    "cache": str(binary_cache.folder())})  # fmt: skip
        return 0
    printer = Printer(sys.stdout)
    printer.line(f"{name}: {reason}", style="bold")
    printer.line()
    rows = [[key, "yes" if available else "no", about] for key, (available, about) in survey.items()]
    printer.table(["implementation", "here", "with"], rows)
    printer.line()
    printer.line(f"{backends.VARIABLE}=NAME forces one. Compiled kernels are kept in {binary_cache.folder()}")
    return 0
