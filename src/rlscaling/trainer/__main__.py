"""``python -m rlscaling.trainer``: as ``rlscaling train``, without the fit at the end; under torchrun on many ranks."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rlscaling.errors import RLScalingError
from rlscaling.trainer.command.arguments import add_arguments
from rlscaling.trainer.command.jobs import jobs_of, run_jobs
from rlscaling.trainer.command.ranks import add_rank_arguments, run_on_ranks
from rlscaling.trainer.distributed.layout import RankInfo, rank_info_of
from rlscaling.trainer.distributed.shutdown import end_rank, ignore_sigterm, sigterm_as_error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rlscaling.trainer", description=__doc__, allow_abbrev=False)
    add_arguments(parser)
    add_rank_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        rank_info = rank_info_of(os.environ)
        if rank_info is not None and rank_info.world_size > 1:
            return _on_ranks(options, rank_info)
        if options.generators is not None or options.trainers is not None:
            parser.error("--generators and --trainers share out the ranks of torchrun, and there is one process only")
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


def _on_ranks(options: argparse.Namespace, rank_info: RankInfo) -> int:
    """Train as one of several ranks, each of which reports why it ends."""
    with sigterm_as_error():
        try:
            for line in run_on_ranks(options, rank_info):
                print(line, flush=True)
        except RLScalingError as error:
            ignore_sigterm()
            print(f"error on rank {rank_info.rank}: {error}", file=sys.stderr, flush=True)
            return 3
    return 0


if __name__ == "__main__":
    code = main()
    if rank_info_of(os.environ) is not None:
        end_rank(code)
    sys.exit(code)
