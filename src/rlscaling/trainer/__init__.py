"""The bundled trainer: ScaleRL and its rivals on small verifiable tasks, on one device or, under torchrun, on several.

Importing this package imports no torch; ``train`` does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rlscaling.trainer.config import RECIPES, TrainConfig, make_config
from rlscaling.trainer.errors import TrainError, needing_torch

if TYPE_CHECKING:
    from rlscaling.trainer.distributed.launch import train_distributed
    from rlscaling.trainer.distributed.training import DistributedResult
    from rlscaling.trainer.loop import TrainResult, train
    from rlscaling.trainer.verl_log import export_log

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
    "DistributedResult": "distributed.training",
    "TrainResult": "loop",
    "train": "loop",
    "train_distributed": "distributed.launch",
}


def __getattr__(name: str) -> Any:
    if name == "export_log":  # which needs numpy alone
        return importlib.import_module(f"{__name__}.verl_log").export_log
    if name in _NEEDING_TORCH:
        with needing_torch():
            module = importlib.import_module(f"{__name__}.{_NEEDING_TORCH[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
