"""Exceptions of the trainer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rlscaling.errors import RLScalingError


class TrainError(RLScalingError):
    """A training run cannot start, continue or resume: the message names the value, the reason and the remedy."""


@contextlib.contextmanager
def needing(package: str, extra: str) -> Iterator[None]:
    """Name the extra to install when an import inside fails for want of a package.

    Raises
    ------
    TrainError
        Instead of the ``ModuleNotFoundError``; it names the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise TrainError(
            f"the trainer needs {package}, which is not installed: pip install 'rlscaling[{extra}]'"
        ) from error


def needing_torch() -> contextlib.AbstractContextManager[None]:
    """Name the extra to install when an import inside fails for want of torch."""
    return needing("torch", "trainer")
