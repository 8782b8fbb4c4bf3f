"""Two trainers have the gradients of one process."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from helpers.torchrun import finish, torchrun
from rlscaling.trainer.distributed.fsdp import BUCKET_BYTES, buckets

TESTS = Path(__file__).parents[2] / "support"


def test_two_trainers_have_the_gradients_of_one_process() -> None:
    done = finish(
        torchrun(2, "-m", "helpers.gradients_on_ranks"),
        {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = [line.split() for line in done.stdout.splitlines()]
    assert len(cases) == 13
    for name, loss, gradient, norm in cases:
        assert max(float(loss), float(gradient), float(norm)) < 1e-5, name


def test_small_weights_travel_together() -> None:
    big = torch.empty(BUCKET_BYTES // 4 + 1)
    weights = [torch.empty(4), torch.empty(5), big, torch.empty(1, dtype=torch.bfloat16), torch.empty(2)]
    assert list(buckets(weights)) == [[0, 1], [2], [3], [4]]
    assert list(buckets([])) == []
