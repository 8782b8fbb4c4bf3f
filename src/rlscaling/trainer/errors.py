"""What the trainer raises on purpose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rlscaling.errors import RLScalingError


class TrainError(RLScalingError):
    """A training run cannot start, go on or resume: the message names the value, the reason and the remedy."""


@contextlib.contextmanager
def needing_torch() -> Iterator[None]:
    """Say how to install torch when an import inside finds that it is missing.

    Raises
    ------
    TrainError
        Instead of the ``ModuleNotFoundError``.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise TrainError("the trainer needs torch, which is not installed: pip install 'rlscaling[trainer]'") from error
