"""``python -m rlscaling.trainer``: as ``rlscaling train``, without the fit at the end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rlscaling.errors import RLScalingError
from rlscaling.trainer.jobs import jobs_of, run_jobs
from rlscaling.trainer.options import add_arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rlscaling.trainer", description=__doc__, allow_abbrev=False)
    add_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        jobs = jobs_of(options)
    except RLScalingError as error:
        parser.error(str(error))
    try:
        for trained in run_jobs(jobs, resume=options.resume):
            print(trained)
    except RLScalingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
