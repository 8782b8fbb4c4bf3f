"""Everything a run holds between two steps: built from its settings, saved and restored as one."""

from __future__ import annotations

import contextlib
import platform
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlscaling.trainer import rng
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generation.generator import Generator, Sampling
from rlscaling.trainer.generation.schedule import Cluster, Costs, Schedule
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.model.hf_weights import check_target, save_model
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.make import to_dict
from rlscaling.trainer.tasks.curriculum import Curriculum
from rlscaling.trainer.tasks.task import Task
from rlscaling.trainer.training.learner import Learner, Row


@contextlib.contextmanager
def cpu_threads(n: int) -> Iterator[None]:
    """Let torch use ``n`` threads inside; their number decides the last bits of a sum."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_device(config: TrainConfig) -> None:
    """Refuse a device that this machine, or this build of torch, does not have."""
    if config.device.startswith("cuda") and not torch.cuda.is_available():
        build = "is a CPU build" if torch.version.cuda is None else "finds no GPU"
        raise TrainError(f"device={config.device!r}: this torch {build}; use device='cpu', or install torch for CUDA")


def check_save(config: TrainConfig, folder: str | Path | None, out: str | Path | None = None) -> None:
    """Refuse to save a model that has no published layout, or where it cannot go, before any compute is spent."""
    if folder is None:
        return
    if not config.model_path:
        raise TrainError(
            f"save_model={str(folder)!r} without model_path: only a pretrained model has a layout to save in"
        )
    if out is not None and Path(folder).resolve() == Path(out).resolve():
        raise TrainError(f"save_model={str(folder)!r} is the folder of the run itself; choose another")
    check_target(folder)


def make_curriculum(config: TrainConfig, task: Task) -> Curriculum:
    """Return the curriculum of a run at its start."""
    return Curriculum(
        task.n_train,
        config.prompts_per_step,
        kind=config.curriculum,
        threshold=config.npr_threshold,
        seed=config.seed,
    )


def make_generator(config: TrainConfig, task: Task, slots: int) -> Generator:
    """Return what samples the training completions of a run, at most ``slots`` of them at a time."""
    window = config.interrupt_window if config.length_control == "interruption" else None
    sampling = Sampling(rng.key_of(config.seed), config.generations, config.temperature, window)
    return Generator(task, sampling, slots=slots)


def header_of(learner: Learner, roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header of a trace.

    Parameters
    ----------
    learner
        The run.
    roles
        How many devices generate and train, and whether they are modelled.
    """
    config, task = learner.config, learner.task
    return {
        "run_id": uuid.uuid4().hex[:12],
        "name": f"{config.recipe}-s{config.seed}",
        "recipe": config.recipe,
        "seed": config.seed,
        "compute_unit": "gpu-hours" if learner.on_gpu else "device-hours",
        "compute_column": learner.compute_column,
        "task": task.name,
        "ceilings": task.ceilings,
        "downstream": list(task.downstream),
        "data_notes": list(task.notes),
        "first_epoch_end": -(-task.n_train // config.prompts_per_step),
        "config_hash": learner.identity,
        "config": to_dict(config),
        "n_parameters": sum(weight.numel() for weight in learner.model.parameters()),
        "device": torch.cuda.get_device_name() if learner.on_gpu else platform.machine(),
        "kernels": ops.backend(config.device)[0],
        "n_devices": learner.meter.n_devices,
        "roles": dict(roles),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
    }


class RunState(Learner):
    """Model, optimizer, generation in flight, curriculum and meter of one run in one process."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config)
        self.heldout = self.task.heldout_prompts(config.eval_prompts)
        self.curriculum = make_curriculum(config, self.task)
        self.cluster = self._cluster()

    def _cluster(self) -> Cluster:
        config = self.config
        return Cluster(
            make_generator(config, self.task, config.rollouts_per_step),
            self.curriculum,
            self.task.train_prompt,
            schedule=Schedule(config.schedule, config.k, config.prompts_per_step),
            costs=Costs(
                config.clock_generators,
                config.clock_trainers,
                decode_base=config.clock_decode_base,
                decode_row=config.clock_decode_row,
                update_token=config.clock_update_token,
            ),
            generations=config.generations,
        )

    def header(self) -> dict[str, Any]:
        """Return the header of the trace."""
        roles = {"generators": self.config.clock_generators, "trainers": self.config.clock_trainers, "modelled": True}
        return header_of(self, roles)

    def log(self, kind: str, row: Row) -> None:
        """Write a row of the trace, with the hours of the modelled cluster."""
        super().log(kind, {"modelled_gpu_hours": self.cluster.modelled_hours, **row})

    def save(self) -> None:
        """Replace the checkpoint by one of now."""
        with self.meter.time("checkpoint"):
            state = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "cluster": self.cluster.state_dict(),
                "meter": self.meter.state_dict(),
                "task": self.task.state_dict(),
            }
            self.folder.save(self.step, state, self.identity)

    def save_model(self, folder: str | Path) -> None:
        """Write the model in the layout of its pretrained model."""
        save_model(self.model, self.config.model_path, folder)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.step = int(state["step"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.cluster.load_state_dict(state["cluster"], self.model)
        self.meter.load_state_dict(state["meter"])
        self.task.load_state_dict(state["task"])
