"""All ranks agree on the settings, or none begins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from helpers.small_runs import SMALL
from rlscaling.trainer import TrainError, make_config, train
from rlscaling.trainer.distributed.handshake import SettingsProposal, agree, proposal_of
from rlscaling.trainer.distributed.layout import Layout


def answers(proposals: list[SettingsProposal], timeout: float = 30.0) -> list[str]:
    """What each rank is told when all agree at once."""
    store = dist.HashStore()

    def ask(rank: int) -> str:
        try:
            agree(store, proposals[rank], rank=rank, world_size=len(proposals), name="agree", timeout=timeout)
        except TrainError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(proposals)) as pool:
        return list(pool.map(ask, range(len(proposals))))


def proposed(folder: Path, rank: int, *, resume: bool = True, **changes: Any) -> SettingsProposal:
    config = make_config(changes.pop("recipe", "scalerl"), **{**SMALL, **changes})
    return proposal_of(config, Layout(1, 2), folder, resume=resume, rank=rank)


def test_equal_ranks_agree(tmp_path: Path) -> None:
    assert answers([proposed(tmp_path, rank) for rank in range(3)]) == ["", "", ""]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 3}, "rank 0 has seed=0 and rank 1 has seed=3"),
        ({"recipe": "dapo"}, "rank 0 has recipe='scalerl' and rank 1 has recipe='dapo'"),
        ({"steps": 7}, "rank 0 has steps=2000 and rank 1 has steps=7"),
        ({"resume": False}, "rank 0 has resume=True and rank 1 has resume=False"),
    ],
)
def test_every_rank_hears_of_a_difference(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    messages = answers([proposed(tmp_path, 0), proposed(tmp_path, 1, **changes), proposed(tmp_path, 2)])
    assert messages == [f"the ranks disagree: {message}; start all of them with the same command"] * 3


def test_every_rank_hears_of_another_checkpoint(tmp_path: Path) -> None:
    train(make_config(**{**SMALL, "steps": 1, "eval_samples": 2}), tmp_path / "there")
    mine, other = proposed(tmp_path / "there", 0), proposed(tmp_path / "elsewhere", 1)
    other = SettingsProposal({**other.settings, "out": mine.settings["out"]})  # the same path on another machine
    messages = answers([mine, other, proposed(tmp_path / "there", 2)])
    assert len(set(messages)) == 1
    assert "and rank 1 has checkpoint='none'; all trainer ranks must see the same folder" in messages[0]
    (tmp_path / "there" / "checkpoint.pt").write_bytes(b"torn")
    messages = answers([proposed(tmp_path / "there", rank) for rank in range(3)])
    assert all("rank 0: " in line and "cannot be read as a checkpoint" in line for line in messages)


def test_a_rank_that_never_comes_is_named() -> None:
    with pytest.raises(TrainError, match=r"rank 1 of 2 has said nothing for 0.1 s: it has not started"):
        agree(dist.HashStore(), SettingsProposal({}), rank=0, world_size=2, name="agree", timeout=0.1)
