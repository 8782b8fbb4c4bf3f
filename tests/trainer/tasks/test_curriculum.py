"""Epochs and No-Positive-Resampling."""

from __future__ import annotations

import pytest

from rlscaling.trainer.tasks.curriculum import Curriculum, PoolExhaustedError


def curriculum(n: int = 6, per_step: int = 2, kind: str = "npr", seed: int = 0) -> Curriculum:
    return Curriculum(n, per_step, kind=kind, threshold=0.9, seed=seed)


def test_an_epoch_visits_each_prompt_once_and_epochs_differ() -> None:
    drawn = curriculum(50)
    epochs = [[drawn.draw() for _ in range(50)] for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(50))] * 2
    assert epochs[0] != epochs[1]
    assert epochs[0] != [curriculum(50, seed=1).draw() for _ in range(50)]


def test_exactly_the_prompts_with_history_of_the_threshold_leave() -> None:
    drawn = curriculum()
    [drawn.draw() for _ in range(6)]
    for prompt, successes in enumerate([0, 5, 8.9, 9, 9.5, 10]):
        drawn.record(prompt, successes, 10)
    assert sorted(drawn.draw() for _ in range(3)) == [0, 1, 2]
    assert drawn.pool().tolist() == [0, 1, 2]


def test_fractions_that_sum_to_the_threshold_but_for_rounding_count() -> None:
    drawn = curriculum()
    for _ in range(3):
        drawn.record(0, 0.3 * 3, 1)  # 0.9 three times is 2.7000000000000002 or less by one bit
    assert 0 not in drawn.pool()


def test_history_is_cumulative_over_visits() -> None:
    """Judged by the last visit alone, prompt 0 would leave: 8 of 8."""
    drawn = curriculum()
    drawn.record(0, 4, 8)
    drawn.record(0, 8, 8)
    assert 0 in drawn.pool()
    for _ in range(3):
        drawn.record(0, 8, 8)
    assert 0 not in drawn.pool()  # 36 of 40


def test_within_an_epoch_nothing_leaves() -> None:
    drawn = curriculum()
    first = drawn.draw()
    for prompt in range(6):
        drawn.record(prompt, 8, 8)
    assert len({first, *(drawn.draw() for _ in range(5))}) == 6


def test_uniform_keeps_mastered_prompts() -> None:
    drawn = curriculum(kind="uniform")
    for prompt in range(6):
        drawn.record(prompt, 8, 8)
    assert len(drawn.pool()) == 6


def test_too_small_a_pool_stops_the_run() -> None:
    drawn = curriculum()
    [drawn.draw() for _ in range(6)]
    for prompt in range(5):
        drawn.record(prompt, 8, 8)
    with pytest.raises(PoolExhaustedError, match="1 of 6 prompts left, fewer than the 2 of one update"):
        drawn.draw()


def test_a_resumed_curriculum_draws_the_same() -> None:
    drawn, other = curriculum(), curriculum()
    [drawn.draw() for _ in range(4)]
    drawn.record(3, 8, 8)
    other.load_state_dict(drawn.state_dict())
    assert [other.draw() for _ in range(9)] == [drawn.draw() for _ in range(9)]
    assert other.pool().tolist() == drawn.pool().tolist()
