"""Which rank does what."""

from __future__ import annotations

import pytest

from helpers.small_runs import SMALL
from helpers.torchrun import TORCHRUN
from rlscaling.trainer import TrainError, make_config
from rlscaling.trainer.distributed.layout import Layout, check_layout, layout_of, rank_info_of


def test_place_is_what_torchrun_says() -> None:
    rank_info = rank_info_of(TORCHRUN)
    assert rank_info is not None
    assert (rank_info.rank, rank_info.world_size, rank_info.master) == (1, 2, "localhost")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"MASTER_ADDR": ""}, "LOCAL_RANK, MASTER_PORT are set but MASTER_ADDR are not: ranks cannot find each other"),
        ({"RANK": "one"}, "RANK='one' is no whole number; start with torchrun"),
        ({"RANK": "2"}, "RANK=2 with WORLD_SIZE=2: ranks count from 0"),
    ],
)
def test_broken_variables_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(TrainError, match=message):
        rank_info_of({**TORCHRUN, **changes})


def test_one_rank_in_five_trains() -> None:
    assert [layout_of(world_size).trainers for world_size in (2, 3, 5, 10, 80)] == [1, 1, 1, 2, 16]
    assert layout_of(8, generators=5) == Layout(5, 3)


@pytest.mark.parametrize(
    ("world_size", "roles"), [(1, {}), (2, {"generators": 2}), (3, {"generators": 1, "trainers": 1})]
)
def test_roles_that_do_not_add_up(world_size: int, roles: dict[str, int]) -> None:
    with pytest.raises(TrainError, match=rf"on {world_size} ranks?: each role needs at least one"):
        layout_of(world_size, **roles)


def test_ranks_without_work_are_refused() -> None:
    config = make_config(**{**SMALL, "micro_batch": 8})
    with pytest.raises(TrainError, match="7 generators for 6 prompts per step: some would never have one"):
        check_layout(Layout(7, 1), config)
    with pytest.raises(TrainError, match="3 trainers for 2 prompts per backward pass: the batch does not fit them"):
        check_layout(Layout(1, 3), config)
    with pytest.raises(TrainError, match="7 trainers for 6 prompts per backward pass: .* or raise prompts_per_step"):
        check_layout(Layout(1, 7), make_config(**SMALL))
    check_layout(Layout(6, 2), config)
