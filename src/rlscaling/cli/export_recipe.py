"""``rlscaling export-recipe``: a recipe in the options of another engine, and what that engine cannot do.

``rlscaling export-log``: a trace in the words of verl.
"""

from __future__ import annotations

import argparse
import sys

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.cli.inputs import UsageError
from rlscaling.cli.output import print_json
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.export.engines import ENGINES, export_recipe
from rlscaling.trainer.export.verl_log import export_log
from rlscaling.version import __version__


def export(args: argparse.Namespace) -> int:
    """Print the options and return the exit code."""
    try:
        found = export_recipe(args.recipe, args.to)
    except TrainError as error:
        raise UsageError(str(error)) from None
    if args.json:
        head = {"schema_version": SCHEMA_VERSION, "version": __version__}
        about = {"recipe": found.recipe, "engine": found.engine, "engine_version": ENGINES[found.engine].about}
        print_json({**head, **about, "options": dict(found.options), "not_reproduced": dict(found.missing)})
    else:
        print(found)
    return 0


def write_log(args: argparse.Namespace) -> int:
    """Write the log and return the exit code."""
    try:
        n = export_log(args.trace, args.out, overwrite=args.overwrite)
    except TrainError as error:
        raise UsageError(str(error)) from None
    print(f"rlscaling: wrote {n:,} lines to {args.out}", file=sys.stderr)
    return 0
