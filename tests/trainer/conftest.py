"""Trainer tests run on one thread: the models are tiny, and threads that wait for each other are slow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlscaling.trainer.training.learner import cpu_threads


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with cpu_threads(1):
        yield
