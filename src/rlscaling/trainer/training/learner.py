"""What an update works on: model, optimizer, meter. Every rank that trains has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlscaling.trainer.model.build import build_model
from rlscaling.trainer.model.hf_weights import fingerprint
from rlscaling.trainer.settings.make import config_hash
from rlscaling.trainer.tasks.make import make_task
from rlscaling.trainer.training.data_parallel import DataParallel, SingleProcess
from rlscaling.trainer.training.meter import FlopModel, Meter
from rlscaling.trainer.training.optimizer import Optimizer

if TYPE_CHECKING:
    from rlscaling.trainer.settings.config import TrainConfig
    from rlscaling.trainer.training.checkpoint import RunFolder


Row = dict[str, Any]


class Learner:
    """The policy and what changes it.

    Parameters
    ----------
    config
        The settings of the run.
    peers
        Who else trains on each batch.
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

    def __init__(self, config: TrainConfig, peers: DataParallel | None = None, meter: Meter | None = None) -> None:
        self.config = config
        self.peers = peers if peers is not None else SingleProcess()
        self.step = 0
        self.task = make_task(config)
        self.model = build_model(config, self.task)
        self.flops = FlopModel.of(self.model)
        self.peers.prepare(self.model)
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

    def task_totals(self) -> Row:
        """Return what the task has counted so far."""
        return self.task.state_dict()

    def log(self, kind: str, row: Row) -> None:
        """Write a row of the trace: the step and what the run has cost so far stand first."""
        full = {"step": self.step, **self.meter.columns(self.compute_column), **self.task_totals(), **row}
        self.folder.write(kind, full)
        if self.on_row is not None:
            self.on_row({"kind": kind, **full})
