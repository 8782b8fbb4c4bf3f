"""The virtual clock with a generator that only counts, against simulations by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlscaling.trainer.generation.rollout import Group, Rollout
from rlscaling.trainer.generation.schedule import Cluster, Costs, Schedule
from rlscaling.trainer.tasks.curriculum import Curriculum, PoolExhaustedError

P, G, LENGTH = 4, 2, 3


@dataclasses.dataclass
class Row:
    group: int
    sample: int
    prompt: Any
    length: int
    versions: list[int]


class CountingGenerator:
    """Rows whose length is fixed by their group, P * G at once; a token is its position."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths, self.rows, self.most, self.fewest = lengths, [], 0, P * G

    def start(self, groups: Sequence[tuple[int, Any, int]]) -> None:
        self.rows += [
            Row(n, sample, prompt, self.lengths[n % len(self.lengths)], [])
            for n, prompt, samples in groups
            for sample in range(samples)
        ]

    def advance(self, model: Any, version: int, max_calls: int | None) -> list[Rollout]:
        assert max_calls == 1
        self.most = max(self.most, len(self.rows))
        self.fewest = min(self.fewest, len(self.rows))
        for row in self.rows[: P * G]:
            row.versions.append(version)
        ended = [row for row in self.rows if len(row.versions) == row.length]
        self.rows = [row for row in self.rows if len(row.versions) < row.length]
        return [self.rollout(row) for row in ended]

    def rollout(self, row: Row) -> Rollout:
        n = row.length
        return Rollout(
            group=row.group,
            sample=row.sample,
            prompt=row.prompt,
            tokens=np.arange(n),
            logp=np.zeros(n, dtype=np.float32),
            sampled=np.ones(n, dtype=bool),
            version=np.array(row.versions),
            truncated=False,
            interrupted=False,
            correct=1.0,
            reward=1.0,
        )

    def state_dict(self) -> dict[str, Any]:
        return {"rows": [dataclasses.replace(row, versions=list(row.versions)) for row in self.rows]}

    def load_state_dict(self, state: Mapping[str, Any], model: Any = None) -> None:
        self.rows = state["rows"]


def prompt(index: int) -> Any:
    return SimpleNamespace(ids=(1, 2), index=index)


def cluster(kind: str = "pipeline", k: int = 2, *, update: float = 0.0, lengths: Sequence[int] = (LENGTH,)) -> Cluster:
    """Decode calls take 1 second; an update takes `update` seconds when all completions have LENGTH tokens."""
    return Cluster(
        CountingGenerator(lengths),
        Curriculum(1000, P, kind="uniform", threshold=0.9, seed=0),
        prompt,
        schedule=Schedule(kind, k, P),
        costs=Costs(2, 1, decode_base=1.0, decode_row=0.0, update_token=update / (P * G * LENGTH)),
        generations=G,
    )


def run(modelled: Cluster, steps: int) -> list[list[Group]]:
    batches = []
    for _ in range(steps):
        batches.append(modelled.next_batch(None))  # type: ignore[arg-type]
        modelled.pushed()
    return batches


def lags(batches: list[list[Group]]) -> list[tuple[int, int]]:
    """Smallest and largest age of the first token of each batch."""
    ages = [[step - int(r.version[0]) for g in batch for r in g.rollouts] for step, batch in enumerate(batches)]
    return [(min(age), max(age)) for age in ages]


MIXED = (3, 1, 9, 2, 2, 5, 1)


@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("update", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("lengths", [(LENGTH,), MIXED])
def test_pipeline_never_lags_more_than_k(k: int, update: float, lengths: Sequence[int]) -> None:
    batches = run(cluster("pipeline", k, update=update, lengths=lengths), 25)
    assert max(high for _, high in lags(batches)) <= k
    assert [group.index for batch in batches for group in batch] == list(range(25 * P))


@pytest.mark.parametrize("k", [1, 3])
def test_ppo_off_policy_trains_k_times_on_one_generation(k: int) -> None:
    batches = run(cluster("ppo-off-policy", k, update=2.0, lengths=MIXED), 4 * k)
    assert lags(batches) == [(step % k, step % k) for step in range(4 * k)]
    assert all(len(set(r.version.tolist())) == 1 for batch in batches for g in batch for r in g.rollouts)


def test_a_slow_trainer_is_always_k_behind_and_a_fast_one_never() -> None:
    assert lags(run(cluster("pipeline", 8, update=30.0), 40))[-1] == (8, 8)
    assert lags(run(cluster("pipeline", 8, update=2.0), 40))[-1] == (1, 1)


@pytest.mark.parametrize("lengths", [(LENGTH,), MIXED])
def test_pipeline_0_is_ppo_off_policy_1(lengths: Sequence[int]) -> None:
    ours, theirs = (
        cluster("pipeline", 0, update=2.5, lengths=lengths),
        cluster("ppo-off-policy", 1, update=2.5, lengths=lengths),
    )
    for left, right in zip(run(ours, 12), run(theirs, 12), strict=True):
        for a, b in zip(left, right, strict=True):
            assert (a.index, a.prompt.index) == (b.index, b.prompt.index)
            assert all(np.array_equal(x.version, y.version) for x, y in zip(a.rollouts, b.rollouts, strict=True))
    assert ours.clock == theirs.clock


def test_new_weights_go_into_completions_in_flight() -> None:
    # calls end at 1, 2, 3 | 4, 5, 6: the update of batch 0 takes 1.5 s from 3 on and is pushed before the call at 5
    second = run(cluster("pipeline", 2, update=1.5), 2)[1]
    assert second[0].rollouts[0].version.tolist() == [0, 0, 1]


def test_clock_of_the_pipeline_by_hand() -> None:
    """Generation of a batch takes 3 s, an update 2 s: the trainer waits 3 s, then 1 s a step; nobody else waits."""
    modelled = cluster("pipeline", 2, update=2.0)
    run(modelled, 5)
    assert modelled.clock.training == pytest.approx(5 * 3 + 2)
    assert modelled.clock.trainers_idle == pytest.approx(3 + 4 * 1)
    assert modelled.clock.generators_idle == 0
    assert modelled.idle_fraction == pytest.approx(1 / (3 * 3))  # one of three devices, one of three seconds
    assert modelled.modelled_hours == pytest.approx(17 * 3 / 3600)


def test_clock_of_ppo_off_policy_by_hand() -> None:
    """Two batches are generated in 6 s while the trainer waits, then two updates of 2 s while the generators wait."""
    modelled = cluster("ppo-off-policy", 2, update=2.0)
    run(modelled, 6)
    assert modelled.clock.training == pytest.approx(3 * (6 + 4))
    assert modelled.clock.trainers_idle == pytest.approx(3 * 6)
    assert modelled.clock.generators_idle == pytest.approx(3 * 4)


@pytest.mark.parametrize("kind", ["pipeline", "ppo-off-policy"])
def test_a_batch_of_rows_is_in_flight_and_less_than_a_group_waits(kind: str) -> None:
    modelled = cluster(kind, 4, update=20.0, lengths=MIXED)
    run(modelled, 9)
    assert P * G <= modelled.generator.most < (P + 1) * G  # type: ignore[attr-defined]


def test_no_slot_is_empty_while_the_schedule_allows_a_start() -> None:
    """Completions that ended are replaced at once, one by one: generation is slower than training here."""
    modelled = cluster("pipeline", 8, update=0.1, lengths=MIXED)
    run(modelled, 30)
    assert modelled.generator.fewest == P * G  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "update"), [("pipeline", 2.0), ("pipeline", 30.0), ("ppo-off-policy", 2.0)])
@pytest.mark.parametrize("at", [0, 3, 4])
def test_a_resumed_cluster_goes_on_alike(kind: str, update: float, at: int) -> None:
    whole, first, second = (cluster(kind, 3, update=update, lengths=MIXED) for _ in range(3))
    expected = run(whole, 10)
    run(first, at)
    second.load_state_dict(first.state_dict(), None)  # type: ignore[arg-type]
    rest = run(second, 10 - at)
    for left, right in zip(expected[at:], rest, strict=True):
        for a, b in zip(left, right, strict=True):
            assert (a.index, a.prompt.index) == (b.index, b.prompt.index)
            assert all(np.array_equal(x.version, y.version) for x, y in zip(a.rollouts, b.rollouts, strict=True))
    assert (second.clock, second.idle_fraction) == (whole.clock, whole.idle_fraction)


@pytest.mark.parametrize(("kind", "k"), [("pipeline", 0), ("pipeline", 1), ("pipeline", 8), ("ppo-off-policy", 4)])
@pytest.mark.parametrize("update", [0.5, 40.0])
@pytest.mark.parametrize("batches", [4, 10])
def test_what_was_drawn_before_the_prompts_ran_out_is_trained_on(
    kind: str, k: int, update: float, batches: int
) -> None:
    """However far ahead generation is; PPO-off-policy-k needs k whole batches."""
    modelled = cluster(kind, k, update=update, lengths=MIXED)
    draw, drawn = modelled.curriculum.draw, []

    def limited() -> int:
        if len(drawn) == batches * P:
            raise PoolExhaustedError("none left")
        drawn.append(draw())
        return drawn[-1]

    modelled.curriculum.draw = limited  # type: ignore[method-assign]
    expected = batches if kind == "pipeline" else batches // k * k
    run(modelled, expected)
    with pytest.raises(PoolExhaustedError, match="none left"):
        modelled.next_batch(None)  # type: ignore[arg-type]
    again = cluster(kind, k, update=update, lengths=MIXED)
    again.load_state_dict(modelled.state_dict(), None)  # type: ignore[arg-type]
    with pytest.raises(PoolExhaustedError, match="none left"):
        again.next_batch(None)  # type: ignore[arg-type]
