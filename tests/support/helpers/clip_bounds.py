"""Bounds of each loss, so that some ratios of the tests are beyond them and others are not."""

from __future__ import annotations

from rlscaling.trainer.algorithm.losses import Clip

CLIPS = {
    "cispo": Clip(0.0, 1.5),
    "dapo": Clip(0.2, 0.26),
    "grpo": Clip(0.2, 0.2),
    "gspo": Clip(3e-3, 4e-3),
    "reinforce": Clip(0.0, 0.0),
}
