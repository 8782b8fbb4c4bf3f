"""Checkpoints of shards: written, read back, refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from helpers.small_runs import SMALL
from rlscaling.trainer import TrainError, make_config
from rlscaling.trainer.distributed.fsdp import ShardedDataParallel
from rlscaling.trainer.distributed.sharded_checkpoint import load_shards, remove_other_shards, save_shards
from rlscaling.trainer.training.learner import Learner


@pytest.fixture
def single_rank() -> Iterator[dist.ProcessGroup]:
    """A process group of this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.group.WORLD is not None
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore::UserWarning:torch", "ignore::FutureWarning:torch")
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_shards_hold_weights_masters_and_moments(dtype: str, tmp_path: Path, single_rank: dist.ProcessGroup) -> None:
    config = make_config(**{**SMALL, "dtype": dtype})
    first, second = (Learner(config, ShardedDataParallel(single_rank, "cpu")) for _ in range(2))
    for _ in range(2):
        for weight in first.optimizer.masters:
            weight.grad = torch.ones_like(weight)
        first.optimizer.step()
    save_shards(tmp_path / "checkpoint-2-a", first.model, first.optimizer, single_rank)
    load_shards(tmp_path / "checkpoint-2-a", second.model, second.optimizer, steps=2, group=single_rank)
    for left, right in zip(first.optimizer.masters, second.optimizer.masters, strict=True):
        assert torch.equal(whole(left), whole(right))
        a, b = first.optimizer.adamw.state[left], second.optimizer.adamw.state[right]
        assert float(a["step"]) == float(b["step"]) == 2
        assert all(torch.equal(whole(a[name]), whole(b[name])) for name in ("exp_avg", "exp_avg_sq"))
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(whole(a), whole(b))
    remove_other_shards(tmp_path, "checkpoint-2-b")
    with pytest.raises(TrainError, match=r"checkpoint-2-a cannot be read .* put it back, or remove checkpoint.pt"):
        load_shards(tmp_path / "checkpoint-2-a", second.model, second.optimizer, steps=2, group=single_rank)
    (tmp_path / "file").write_text("")
    with pytest.raises(
        TrainError, match=r"file/checkpoint-3 could not be written: .*; the checkpoint before it is whole"
    ):
        save_shards(tmp_path / "file" / "checkpoint-3", first.model, first.optimizer, single_rank)


def whole(value: Any) -> torch.Tensor:
    return value.full_tensor() if hasattr(value, "full_tensor") else value
