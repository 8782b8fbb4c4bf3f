"""The command under torchrun: the options that distribute the ranks, and the runs on them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlscaling.trainer.command.jobs import FinishedJob, jobs_of
from rlscaling.trainer.command.progress import Progress
from rlscaling.trainer.distributed.layout import RankInfo, layout_of
from rlscaling.trainer.errors import TrainError, needing_torch

if TYPE_CHECKING:
    from rlscaling.trainer.distributed.layout import Layout
    from rlscaling.trainer.distributed.trainer_rank import DistributedResult


def add_rank_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a training command under torchrun."""
    ranks = parser.add_argument_group("ranks", "Under torchrun: who does what. docs/trainer/distributed.md")
    ranks.add_argument("--generators", metavar="N", type=int, help="ranks that generate (default: those that are left)")
    ranks.add_argument("--trainers", metavar="N", type=int, help="ranks that train (default: one in five)")
    ranks.add_argument(
        "--wait-for-ranks", metavar="S", type=float, default=300.0, help="seconds until all ranks must have started"
    )


def run_on_ranks(options: argparse.Namespace, rank_info: RankInfo) -> Iterator[str]:
    """Train the runs one after the other and yield a report of each as it ends, on rank 0 only.

    Raises
    ------
    TrainError
        On every rank, when one of them cannot begin or go on.
    """
    with needing_torch():
        from rlscaling.trainer.distributed.handshake import SettingsProposal
        from rlscaling.trainer.distributed.launch import Ranks
    ranks = Ranks(rank_info, options.wait_for_ranks)
    try:
        jobs = jobs_of(options)
        layout = layout_of(rank_info.world_size, options.generators, options.trainers)
    except TrainError as error:
        ranks.agree(SettingsProposal({}, str(error)))  # raises it, here and on all other ranks
        raise
    for number, job in enumerate(jobs, start=1):
        label = f"[{number}/{len(jobs)}] " if len(jobs) > 1 else ""
        progress = Progress(job.config.steps, label=label)
        try:
            result = ranks.train(
                job.config, job.folder, layout, resume=options.resume, on_row=progress, save_model=job.save_model
            )
        finally:
            progress.close()
        if result is not None:
            yield f"{FinishedJob(job, result)}\n{summary(layout, result)}"
    ranks.close()


def summary(layout: Layout, result: DistributedResult) -> str:
    """Return one line: the ranks, their speed, their waiting, their memory."""
    idle = "-" if result.idle_fraction is None else f"{result.idle_fraction:.3f}"
    return (
        f"  {layout.generators} generators, {layout.trainers} trainers: {result.tokens_per_second:,.0f} tokens/s, idle "
        f"fraction {idle}, {result.peak_state_bytes / 1e6:,.3f} MB of weights, gradients and optimizer state on the "
        "fullest trainer"
    )
