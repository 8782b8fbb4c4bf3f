"""The bundled trainer: ScaleRL and its rivals on small verifiable tasks, on one CPU or one GPU.

Importing this package imports no torch; ``train`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscaling.trainer.config import RECIPES, TrainConfig, make_config
from rlscaling.trainer.errors import TrainError, needing_torch

if TYPE_CHECKING:
    from rlscaling.trainer.loop import TrainResult, train

__all__ = ["RECIPES", "TrainConfig", "TrainError", "TrainResult", "make_config", "train"]


def __getattr__(name: str) -> Any:
    if name in ("train", "TrainResult"):
        with needing_torch():
            from rlscaling.trainer import loop
        return getattr(loop, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
