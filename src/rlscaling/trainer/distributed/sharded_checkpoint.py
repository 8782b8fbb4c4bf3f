"""Checkpoints of shards: each rank writes its part, and another number of ranks can read the parts.

``torch.distributed.checkpoint`` writes the weights, their FP32 masters and AdamW's moments into a folder
``checkpoint-STEP`` beside the trace. ``checkpoint.pt`` names the folder that counts and is replaced last, in one step:
a kill at any moment leaves a whole pair.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rlscaling.trainer.distributed.shutdown import ShutdownRequestedError
from rlscaling.trainer.errors import TrainError

if TYPE_CHECKING:
    from rlscaling.trainer.training.optimizer import Optimizer


PREFIX = "checkpoint-"


def save_shards(folder: Path, model: nn.Module, optimizer: Optimizer, group: dist.ProcessGroup) -> None:
    """Write the parts of all trainer ranks, all of which call it.

    Raises
    ------
    TrainError
        When the disk takes no more.
    """
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.state_dict_saver import save

    try:
        save(_tensors(model, optimizer), checkpoint_id=folder, process_group=group)
    except (OSError, CheckpointException) as error:
        for cause in _causes(error):
            if isinstance(cause, OSError):
                raise TrainError(
                    f"{folder} could not be written: {cause.strerror}; the checkpoint before it is whole: make room "
                    "and resume"
                ) from error
        raise RuntimeError(f"{folder} was not written by all ranks") from error  # one of them has ended


@torch.no_grad()
def load_shards(folder: Path, model: nn.Module, optimizer: Optimizer, *, steps: int, group: dist.ProcessGroup) -> None:
    """Read weights and moments; ``steps`` are those of the optimizer.

    Raises
    ------
    TrainError
        When the folder is not there or torn.
    """
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.state_dict_loader import load

    optimizer.begin_from(steps)
    try:
        load(_tensors(model, optimizer), checkpoint_id=folder, process_group=group)
    except (OSError, CheckpointException) as error:
        raise TrainError(
            f"{folder} cannot be read ({type(_causes(error)[0]).__name__}); put it back, or remove checkpoint.pt to "
            "begin the run again"
        ) from error


def _causes(error: BaseException) -> list[BaseException]:
    """Return what went wrong on the ranks; this process being asked to end comes before all else."""
    failures = getattr(error, "failures", {})
    causes: list[BaseException] = [cause for cause, _ in failures.values()] or [error]
    for cause in causes:
        if isinstance(cause, ShutdownRequestedError):
            raise cause
    return causes


def remove_other_shards(folder: Path, keep: str | None) -> None:
    """Remove the parts of checkpoints that do not count: older ones, and one that a kill cut short."""
    for path in folder.glob(f"{PREFIX}*"):
        if path.is_dir() and path.name != keep:
            shutil.rmtree(path)


def _tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return everything that is split, by name; read in place on load."""
    tensors: dict[str, Tensor] = {f"model.{name}": value for name, value in model.state_dict().items()}
    weights = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    for (name, weight), master in zip(weights, optimizer.masters, strict=True):
        if master is not weight:
            tensors[f"master.{name}"] = master
        moments = optimizer.adamw.state.get(master, {})
        tensors |= {f"{key}.{name}": moments[key] for key in ("exp_avg", "exp_avg_sq") if key in moments}
    return tensors
