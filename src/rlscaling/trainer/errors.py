"""What the trainer raises on purpose."""

from __future__ import annotations

from rlscaling.errors import RLScalingError


class TrainError(RLScalingError):
    """A training run cannot start, go on or resume: the message names the value, the reason and the remedy."""
