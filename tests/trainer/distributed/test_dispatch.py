"""Groups to generators and into batches, in time and each once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlscaling.trainer.distributed.dispatch import Dispatcher, groups_of
from rlscaling.trainer.generation.rollout import Group, Rollout, pack_rollouts
from rlscaling.trainer.generation.schedule import Schedule
from rlscaling.trainer.tasks.curriculum import Curriculum

P = 4


def prompt(index: int) -> Any:
    return SimpleNamespace(ids=(1, 2), index=index)


def group(n: int, index: int) -> Group:
    one = np.ones(1, dtype=np.int64)
    rollouts = tuple(
        Rollout(n, sample, prompt(index), one, one.astype(np.float32), one > 0, one, False, False, 1.0, 1.0)
        for sample in range(2)
    )
    return Group(n, prompt(index), rollouts)


def counting() -> Callable[[], int]:
    numbers = iter(range(10_000))
    return lambda: next(numbers)


@pytest.mark.parametrize(
    ("kind", "k"), [("pipeline", 0), ("pipeline", 3), ("ppo-off-policy", 1), ("ppo-off-policy", 3)]
)
def test_no_group_is_handed_out_before_its_time_and_each_is_trained_once(kind: str, k: int, rng: Any) -> None:
    """Generators that finish in any order: groups are trained in the order of their start, at most k updates old."""
    work, draw, in_flight = Dispatcher(Schedule(kind, k, P), [1, 2]), counting(), {}
    trained = []
    for step in range(12):
        for rank, new in work.assign(draw).items():
            in_flight |= {n: (rank, index, step) for n, index in new}
        while not work.ready:
            n = int(rng.choice(sorted(in_flight)))
            _, index, _ = in_flight.pop(n)
            work.add(group(n, index))
        batch = work.take()
        trained += [(g.index, g.prompt.index) for g in batch]
        assert all(n // P - step <= k for n in in_flight)
        work.updates += 1
    assert trained == [(n, n) for n in range(12 * P)]


def test_work_goes_to_the_generator_with_the_least() -> None:
    work = Dispatcher(Schedule("pipeline", 0, P), [1, 2])
    assert work.assign(counting()) == {1: [(0, 0), (2, 2)], 2: [(1, 1), (3, 3)]}
    work = Dispatcher(Schedule("pipeline", 1, P), [1, 2])
    draw = counting()
    first = work.assign(draw)
    for n, index in first[1]:
        work.add(group(n, index))
    for n, index in first[2][:2]:
        work.add(group(n, index))
    work.take()
    work.updates += 1
    assert work.assign(draw) == {1: [(8, 8), (9, 9), (10, 10)], 2: [(11, 11)]}


def test_resumed_dispatch_starts_what_was_in_flight_anew_on_any_number_of_generators() -> None:
    work, draw = Dispatcher(Schedule("pipeline", 1, P), [1, 2]), counting()
    assigned = dict(item for new in work.assign(draw).values() for item in new)
    for n in (0, 1, 2, 3, 5):
        work.add(group(n, assigned[n]))
    work.take()
    work.updates += 1
    state = work.state_dict()
    again = Dispatcher(Schedule("pipeline", 1, P), [1])
    again.load_state_dict(state, prompt)
    assert again.assign(draw) == {1: [(4, 4), (6, 6), (7, 7), (8, 8), (9, 9), (10, 10), (11, 11)]}
    for n in (4, 6, 7):
        again.add(group(n, n))
    assert [g.index for g in again.take()] == [4, 5, 6, 7]


def test_a_pool_that_runs_out_stops_after_the_last_whole_batch() -> None:
    curriculum = Curriculum(P * 2, P, kind="npr", threshold=0.5, seed=0)
    for index in range(P * 2):
        curriculum.record(index, 1, 1)
    curriculum._order, curriculum.epoch = np.arange(P * 2), 0  # the first epoch was begun before they were mastered
    work, done = Dispatcher(Schedule("pipeline", 3, P), [1]), 0
    while not work.stuck:
        for new in work.assign(curriculum.draw).values():
            for n, index in new:
                work.add(group(n, index))
        if work.ready:
            done += len(work.take())
            work.updates += 1
    assert done == P * 2
    assert "fewer than the 4 of one update" in work.exhausted


def test_groups_come_out_of_a_message_sorted() -> None:
    rollouts = [r for g in (group(3, 30), group(2, 20)) for r in reversed(g.rollouts)]
    groups = groups_of(pack_rollouts(rollouts), prompt)
    assert [(g.index, g.prompt.index, [r.sample for r in g.rollouts]) for g in groups] == [
        (2, 20, [0, 1]),
        (3, 30, [0, 1]),
    ]
