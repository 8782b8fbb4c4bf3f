"""Runs of a command line, trained one after the other."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlscaling.trainer.command.arguments import PAPER_EVAL, field_values
from rlscaling.trainer.command.progress import Progress
from rlscaling.trainer.distributed.layout import rank_info_of
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.make import make_config

if TYPE_CHECKING:
    from rlscaling.trainer.training.loop import TrainResult


@dataclasses.dataclass(frozen=True)
class TrainingJob:
    """One run to train: its settings, its folder, and where its model is saved."""

    config: TrainConfig
    folder: Path
    save_model: Path | None = None


@dataclasses.dataclass(frozen=True)
class FinishedJob:
    """A job that has been trained; prints as one line."""

    job: TrainingJob
    result: TrainResult

    def __str__(self) -> str:
        rates = list(self.result.pass_rates.values())
        stopped = f"; stopped early: {self.result.stopped}" if self.result.stopped else ""
        return (
            f"{self.result.trace_path}: {self.result.steps:,} steps, held-out pass rate "
            f"{rates[0]:.3f} -> {rates[-1]:.3f}{stopped}"
        )


def jobs_of(arguments: argparse.Namespace) -> list[TrainingJob]:
    """Return the runs of a command line, all of their settings checked.

    Raises
    ------
    TrainError
        For settings that cannot run.
    """
    try:
        seeds = [int(seed) for seed in (arguments.seeds or "0").split(",")]
    except ValueError:
        raise TrainError(f"--seeds {arguments.seeds!r} is not a list of whole numbers, such as 0,1,2") from None
    if len(set(seeds)) < len(seeds):
        raise TrainError(f"--seeds {arguments.seeds} names a seed twice; that would be the same run")
    fields = (PAPER_EVAL if arguments.paper_eval else {}) | field_values(arguments)
    configs = [make_config(arguments.recipe, seed=seed, **fields) for seed in seeds]
    out: Path = arguments.out
    model: Path | None = arguments.save_model
    if len(configs) == 1:
        return [TrainingJob(configs[0], out, model)]
    folders = [f"seed-{config.seed}" for config in configs]
    return [
        TrainingJob(config, out / folder, model / folder if model else None)
        for config, folder in zip(configs, folders, strict=True)
    ]


def run_jobs(jobs: Sequence[TrainingJob], *, resume: bool) -> Iterator[FinishedJob]:
    """Train the runs one after the other, with a live line on a terminal; every folder is checked before the first.

    Raises
    ------
    TrainError
        When torch is missing, a folder holds another run, or a run cannot go on; or as one of several ranks.
    """
    rank_info = rank_info_of(os.environ)
    if rank_info is not None and rank_info.world_size > 1:
        raise TrainError(
            f"this is rank {rank_info.rank} of {rank_info.world_size} and would train the same run as the others; for "
            "several ranks take torchrun -m rlscaling.trainer"
        )
    from rlscaling.trainer import train
    from rlscaling.trainer.training.checkpoint import check_free, check_save

    for job in jobs:
        check_save(job.config, job.save_model, job.folder)
        if not resume:
            check_free(job.folder)
    for number, job in enumerate(jobs, start=1):
        progress = Progress(job.config.steps, label=f"[{number}/{len(jobs)}] " if len(jobs) > 1 else "")
        try:
            result = train(job.config, job.folder, resume=resume, on_row=progress, save_model=job.save_model)
        finally:
            progress.close()
        yield FinishedJob(job, result)
