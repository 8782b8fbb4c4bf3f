"""The bundled trainer: ScaleRL and other recipes on small verifiable tasks, on one device or, by torchrun, on several.

Importing this package imports no torch; ``train`` does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rlscaling.trainer.errors import TrainError, needing_torch
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.make import make_config
from rlscaling.trainer.settings.recipes import RECIPES

if TYPE_CHECKING:
    from rlscaling.trainer.distributed.launch import train_distributed
    from rlscaling.trainer.distributed.trainer_rank import DistributedResult
    from rlscaling.trainer.export.verl_log import export_log
    from rlscaling.trainer.training.loop import TrainResult, train

__all__ = [
    "RECIPES",
    "DistributedResult",
    "TrainConfig",
    "TrainError",
    "TrainResult",
    "export_log",
    "make_config",
    "train",
    "train_distributed",
]

_NEEDING_TORCH = {
    "DistributedResult": "distributed.trainer_rank",
    "TrainResult": "training.loop",
    "train": "training.loop",
    "train_distributed": "distributed.launch",
}


def __getattr__(name: str) -> Any:
    if name == "export_log":  # which needs numpy alone
        return importlib.import_module(f"{__name__}.export.verl_log").export_log
    if name in _NEEDING_TORCH:
        with needing_torch():
            module = importlib.import_module(f"{__name__}.{_NEEDING_TORCH[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
