"""Everything a run holds between two steps: built from its settings, saved and restored as one."""

from __future__ import annotations

import contextlib
import platform
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlscaling.trainer import rng
from rlscaling.trainer.config import TrainConfig, config_hash, to_dict
from rlscaling.trainer.curriculum import Curriculum
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generate import Generator, Sampling
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.meter import FlopModel, Meter
from rlscaling.trainer.model import build_model
from rlscaling.trainer.optim import Optimizer
from rlscaling.trainer.pretrained import check_target, fingerprint, save_model
from rlscaling.trainer.schedule import Cluster, Costs, Schedule
from rlscaling.trainer.tasks import make_task

if TYPE_CHECKING:
    from rlscaling.trainer.checkpoint import RunFolder

Row = dict[str, Any]


@contextlib.contextmanager
def cpu_threads(n: int) -> Iterator[None]:
    """Let torch use ``n`` threads inside; their number decides the last bits of a sum."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_save(config: TrainConfig, folder: str | Path | None) -> None:
    """Refuse to save a model that has no published layout, or where it cannot go, before any compute is spent."""
    if folder is None:
        return
    if not config.model_path:
        raise TrainError(
            f"save_model={str(folder)!r} without model_path: only a pretrained model has a layout to save in"
        )
    check_target(folder)


class Run:
    """Model, optimizer, generation in flight, curriculum and meter of one run.

    Attributes
    ----------
    step : int
        Updates done.
    folder : RunFolder
        Where rows and checkpoints go; set once it is open.
    """

    folder: RunFolder
    on_row: Callable[[Row], None] | None = None

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.step = 0
        self.task = make_task(config)
        self.heldout = self.task.heldout_prompts(config.eval_prompts)
        self.model = build_model(config, self.task)
        self.optimizer = Optimizer(
            self.model,
            lr=config.lr,
            warmup=config.lr_warmup,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
            clip=config.grad_clip,
        )
        self.flops = FlopModel.of(self.model)
        self.meter = Meter()
        self.curriculum = Curriculum(
            self.task.n_train,
            config.prompts_per_step,
            kind=config.curriculum,
            threshold=config.npr_threshold,
            seed=config.seed,
        )
        self.cluster = self._cluster()
        self._model_fingerprint = fingerprint(config.model_path) if config.model_path else ""

    def _cluster(self) -> Cluster:
        config = self.config
        window = config.interrupt_window if config.length_control == "interruption" else None
        sampling = Sampling(rng.key_of(config.seed), config.generations, config.temperature, window)
        return Cluster(
            Generator(self.task, sampling),
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

    @property
    def on_gpu(self) -> bool:
        """Whether compute is counted in GPU-hours."""
        return self.config.device.startswith("cuda")

    @property
    def identity(self) -> str:
        """What two processes must agree in to be one run: the settings, the data and the pretrained model."""
        return config_hash(self.config, (self.task.fingerprint, self._model_fingerprint))

    @property
    def compute_column(self) -> str:
        """Column of the trace that holds the training compute."""
        return "compute_gpu_hours" if self.on_gpu else "compute"

    def header(self) -> dict[str, Any]:
        """Return the header of the trace."""
        config = self.config
        return {
            "run_id": uuid.uuid4().hex[:12],
            "name": f"{config.recipe}-s{config.seed}",
            "recipe": config.recipe,
            "seed": config.seed,
            "compute_unit": "gpu-hours" if self.on_gpu else "device-hours",
            "compute_column": self.compute_column,
            "task": self.task.name,
            "ceilings": self.task.ceilings,
            "downstream": list(self.task.downstream),
            "data_notes": list(self.task.notes),
            "first_epoch_end": -(-self.task.n_train // config.prompts_per_step),
            "config_hash": self.identity,
            "config": to_dict(config),
            "n_parameters": sum(weight.numel() for weight in self.model.parameters()),
            "device": torch.cuda.get_device_name() if self.on_gpu else platform.machine(),
            "kernels": ops.backend(config.device)[0],
            "n_devices": self.meter.n_devices,
            "roles": {"generators": config.clock_generators, "trainers": config.clock_trainers, "modelled": True},
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        }

    def log(self, kind: str, row: Row) -> None:
        """Write a row of the trace: the step and what the run has cost so far stand first."""
        modelled = {"modelled_gpu_hours": self.cluster.modelled_hours}
        totals = {**self.meter.columns(self.compute_column), **modelled, **self.task.state_dict()}
        full = {"step": self.step, **totals, **row}
        self.folder.write(kind, full)
        if self.on_row is not None:
            self.on_row({"kind": kind, **full})

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
