"""``rlscaling export-recipe``: a recipe in the options of another engine, and what that engine cannot do."""

from __future__ import annotations

import argparse

from rlscaling import __version__
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.export import ENGINES, export_recipe

from .answers import SCHEMA_VERSION
from .inputs import UsageError
from .output import print_json


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
