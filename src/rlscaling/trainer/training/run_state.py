"""What a run holds between two steps; saved and restored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rlscaling.trainer.generation.generator import Generator
from rlscaling.trainer.generation.schedule import Cluster, Costs, Schedule
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.tasks.curriculum import Curriculum
from rlscaling.trainer.tasks.task import Prompt
from rlscaling.trainer.training.learner import Learner, Row


@dataclasses.dataclass(frozen=True)
class RunState:
    """A run in one process.

    Attributes
    ----------
    learner
        Model, optimizer and meter.
    curriculum
        Draws the training prompts.
    cluster
        The completions in flight, and the schedule that decides with which weights they go on.
    heldout
        Prompts of the evaluations.
    """

    learner: Learner
    curriculum: Curriculum
    cluster: Cluster
    heldout: Sequence[Prompt]

    @classmethod
    def new(cls, config: TrainConfig) -> RunState:
        """Return a run before its warm-up."""
        learner = Learner(config)
        task = learner.task
        curriculum = Curriculum.of(config, task.n_train)
        cluster = Cluster(
            Generator.for_training(config, task, config.rollouts_per_step),
            curriculum,
            task.train_prompt,
            schedule=Schedule.of(config),
            costs=Costs.of(config),
            generations=config.generations,
        )
        return cls(learner, curriculum, cluster, task.heldout_prompts(config.eval_prompts))

    def header(self) -> Row:
        """Return the header of the trace."""
        costs = self.cluster.costs
        return self.learner.header({"generators": costs.generators, "trainers": costs.trainers, "modelled": True})

    def log(self, kind: str, row: Row) -> None:
        """Write a row of the trace, with the hours of the modelled cluster."""
        self.learner.log(kind, {"modelled_gpu_hours": self.cluster.modelled_hours, **row})

    def save(self) -> None:
        """Replace the checkpoint by one of now."""
        learner = self.learner
        with learner.meter.time("checkpoint"):
            state = {
                "model": learner.model.state_dict(),
                "optimizer": learner.optimizer.state_dict(),
                "cluster": self.cluster.state_dict(),
                "meter": learner.meter.state_dict(),
                "task": learner.task.state_dict(),
            }
            learner.folder.save(learner.step, state, learner.identity)

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        learner = self.learner
        learner.step = int(checkpoint["step"])
        learner.model.load_state_dict(checkpoint["model"])
        learner.optimizer.load_state_dict(checkpoint["optimizer"])
        self.cluster.load_state_dict(checkpoint["cluster"], learner.model)
        learner.meter.load_state_dict(checkpoint["meter"])
        learner.task.load_state_dict(checkpoint["task"])
