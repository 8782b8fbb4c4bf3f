"""Every operation on every implementation: reference, emulated kernels, and (marked gpu) the kernels on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from rlscaling.trainer.kernels import backends


@pytest.fixture(params=["reference", "emulate", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The device of the tensors, while that implementation answers."""
    with backends.using(request.param):
        yield torch.device("cuda" if request.param == "cuda" else "cpu")


@pytest.fixture(params=["emulate", pytest.param("cuda", marks=pytest.mark.gpu)])
def kernel_device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """As ``device``, kernels only."""
    with backends.using(request.param):
        yield torch.device("cuda" if request.param == "cuda" else "cpu")
