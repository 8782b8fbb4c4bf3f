"""Model, optimizer and meter: what an update changes. Every rank that trains has them."""

from __future__ import annotations

import contextlib
import platform
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.model.build import build_model
from rlscaling.trainer.model.hf_weights import fingerprint
from rlscaling.trainer.settings.make import config_hash, to_dict
from rlscaling.trainer.settings.recipes import RECIPES
from rlscaling.trainer.tasks.make import make_task
from rlscaling.trainer.training.data_parallel import DataParallel, SingleProcess
from rlscaling.trainer.training.meter import FlopModel, Meter
from rlscaling.trainer.training.optimizer import Optimizer
from rlscaling.trainer.training.warmup import supervised_warmup

if TYPE_CHECKING:
    from rlscaling.trainer.settings.config import TrainConfig
    from rlscaling.trainer.training.checkpoint import RunFolder


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


def check_device(config: TrainConfig) -> None:
    """Check that this machine, and this build of torch, have the device."""
    if config.device.startswith("cuda") and not torch.cuda.is_available():
        build = "is a CPU build" if torch.version.cuda is None else "finds no GPU"
        raise TrainError(f"device={config.device!r}: this torch {build}; use device='cpu', or install torch for CUDA")


class Learner:
    """The policy and what changes it.

    Parameters
    ----------
    config
        The settings of the run.
    data_parallel
        Which other ranks train on each batch.
    meter
        Where costs are counted.

    Attributes
    ----------
    step : int
        Updates done.
    folder : RunFolder
        Where rows and checkpoints go; set once it is open.
    """

    folder: RunFolder
    on_row: Callable[[Row], None] | None = None

    def __init__(
        self, config: TrainConfig, data_parallel: DataParallel | None = None, meter: Meter | None = None
    ) -> None:
        self.config = config
        self.data_parallel = data_parallel if data_parallel is not None else SingleProcess()
        self.step = 0
        self.task = make_task(config)
        self.model = build_model(config, self.task)
        self.flops = FlopModel.of(self.model)
        self.data_parallel.prepare(self.model)
        self.optimizer = Optimizer(
            self.model,
            lr=config.lr,
            warmup=config.lr_warmup,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
            clip=config.grad_clip,
        )
        self.meter = meter if meter is not None else Meter()
        self._model_fingerprint = fingerprint(config.model_path) if config.model_path else ""

    def warm_up(self) -> None:
        """Imitate the examples of the task, so that the model is right now and then."""
        supervised_warmup(self.model, self.task, self.config)
        self.optimizer.adopt()

    @property
    def on_gpu(self) -> bool:
        """Whether compute is counted in GPU-hours."""
        return self.config.device.startswith("cuda")

    @property
    def compute_column(self) -> str:
        """Column of the trace that holds the training compute."""
        return "compute_gpu_hours" if self.on_gpu else "compute"

    @property
    def identity(self) -> str:
        """What two processes must agree in to be one run: the settings, the data and the pretrained model."""
        return config_hash(self.config, (self.task.fingerprint, self._model_fingerprint))

    def header(self, roles: Mapping[str, Any]) -> Row:
        """Return the header of the trace; ``roles``: how many devices generate and train, and whether modelled."""
        config, task = self.config, self.task
        return {
            "run_id": uuid.uuid4().hex[:12],
            "name": f"{config.recipe}-s{config.seed}",
            "recipe": config.recipe,
            "change": RECIPES[config.recipe].change,
            "seed": config.seed,
            "compute_unit": "gpu-hours" if self.on_gpu else "device-hours",
            "compute_column": self.compute_column,
            "task": task.name,
            "ceilings": task.ceilings,
            "downstream": list(task.downstream),
            "data_notes": list(task.notes),
            "first_epoch_end": -(-task.n_train // config.prompts_per_step),
            "config_hash": self.identity,
            "config": to_dict(config),
            "n_parameters": sum(weight.numel() for weight in self.model.parameters()),
            "device": torch.cuda.get_device_name() if self.on_gpu else platform.machine(),
            "kernels": ops.backend(config.device)[0],
            "n_devices": self.meter.n_devices,
            "roles": dict(roles),
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        }

    def task_totals(self) -> Row:
        """Return what the task has counted so far."""
        return self.task.state_dict()

    def log(self, kind: str, row: Row) -> None:
        """Write a row of the trace: the step and what the run has cost so far stand first."""
        full = {"step": self.step, **self.meter.columns(self.compute_column), **self.task_totals(), **row}
        self.folder.write(kind, full)
        if self.on_row is not None:
            self.on_row({"kind": kind, **full})
