"""PipelineRL-k and PPO-off-policy-k on a virtual clock: when generators and trainer work.

A real cluster generates on some devices while it trains on others. One device can only alternate, so a clock
that is computed and never measured decides what would have happened when: each decode call and each update
takes the time of its cost model, and the work is then done in that order. So which weights sampled which
token is the same in every run, and the idle time of the modelled cluster can be reported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rlscaling.trainer.generation.rollout import Group, Rollout, pack_rollouts, unpack_rollouts
from rlscaling.trainer.tasks.curriculum import PoolExhaustedError

if TYPE_CHECKING:
    from rlscaling.trainer.model.decoder import Decoder
    from rlscaling.trainer.settings.config import TrainConfig
    from rlscaling.trainer.tasks.curriculum import Curriculum
    from rlscaling.trainer.tasks.task import Prompt


class RolloutSource(Protocol):
    """What the schedule needs of a generator."""

    def start(self, groups: Sequence[tuple[int, Prompt, int]]) -> None:
        """Add completions: number of the group, its prompt, how many; they wait where all slots are taken."""

    def advance(self, model: Decoder, version: int, max_calls: int | None = None) -> list[Rollout]:
        """Sample one token for every row with a slot in each call; return the completions that ended."""

    def state_dict(self) -> dict[str, Any]:
        """Return what is in flight."""

    def load_state_dict(self, state: Mapping[str, Any], model: Decoder | None = None) -> None:
        """Go on with what was in flight."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Which groups may be started, and which must be complete, after ``updates`` updates.

    Groups are numbered in start order and trained in that order, ``prompts`` of them an update.
    """

    kind: str
    k: int
    prompts: int

    @classmethod
    def of(cls, config: TrainConfig) -> Schedule:
        """Return the schedule of a run."""
        return cls(config.schedule, config.k, config.prompts_per_step)

    def start_limit(self, updates: int) -> int:
        """Return the number that a group must stay below to be started.

        PipelineRL-k: ``(updates + k + 1) * P``. Group ``n`` is trained after ``n // P`` updates and started
        after at least ``n // P - k``, so no token is older than k updates when it is used.
        """
        if self.kind == "pipeline":
            return (updates + self.k + 1) * self.prompts
        return self._block_end(updates)

    def complete_before(self, updates: int) -> int:
        """Return the number below which every group must be complete before the next update begins."""
        if self.kind == "pipeline":
            return (updates + 1) * self.prompts
        return self._block_end(updates)

    def _block_end(self, updates: int) -> int:
        # PPO-off-policy-k: generate k batches, then train on all of them, then generate again
        return (updates // self.k + 1) * self.k * self.prompts


@dataclasses.dataclass(frozen=True)
class Costs:
    """The cost model of the modelled cluster, in seconds; constants, so that a run can be repeated."""

    generators: int
    trainers: int
    decode_base: float  # a decode call, whatever it holds
    decode_row: float  # and for each row that a generator advances by one token
    update_token: float  # an update, for each sampled token of its batch

    @classmethod
    def of(cls, config: TrainConfig) -> Costs:
        """Return the cost model of a run."""
        return cls(
            config.clock_generators,
            config.clock_trainers,
            decode_base=config.clock_decode_base,
            decode_row=config.clock_decode_row,
            update_token=config.clock_update_token,
        )

    def decode(self, rows: int) -> float:
        """Return the duration of a decode call; the rows are spread over the generators."""
        return self.decode_base + self.decode_row * rows / self.generators

    def update(self, tokens: int) -> float:
        """Return the duration of an update."""
        return self.update_token * tokens / self.trainers


@dataclasses.dataclass
class Clock:
    """Time on the modelled cluster, in seconds since its start."""

    generation: float = 0.0  # the generators have worked or waited until here
    training: float = 0.0  # the trainers likewise
    generators_idle: float = 0.0
    trainers_idle: float = 0.0


class Cluster:
    """Generators that stream completions and a trainer that takes them, in the order of the clock.

    ``next_batch`` samples until the moment at which the weights of the next update would be pushed, and
    returns the groups of that update. The caller updates the weights and calls ``pushed``: half-finished
    completions go on with the new weights and keep the keys and values the old ones left in their cache.

    Parameters
    ----------
    generator
        Samples as many completions at once as an update has; a group that begins while others end may find fewer slots
        free than it has completions, and the rest of it waits for the next ones.
    curriculum
        Gives the prompts.
    prompt_of
        Prompt of a number that the curriculum drew.
    schedule, costs
        The rules and the cost model.
    generations
        Completions per prompt.

    Attributes
    ----------
    updates : int
        Updates done, which is also the version of the weights.
    exhausted : str
        Why no further prompt can be drawn; empty while there are some.
    """

    def __init__(
        self,
        generator: RolloutSource,
        curriculum: Curriculum,
        prompt_of: Callable[[int], Prompt],
        *,
        schedule: Schedule,
        costs: Costs,
        generations: int,
    ) -> None:
        self.generator, self.curriculum, self.prompt_of = generator, curriculum, prompt_of
        self.schedule, self.costs, self.generations = schedule, costs, generations
        self.updates = 0
        self.exhausted = ""
        self.clock = Clock()
        self.idle_fraction = 0.0
        self._slots = schedule.prompts * generations
        self._started = 0
        self._in_flight = 0  # completions started and not ended, those that wait for a slot included
        self._finished: dict[int, list[Rollout]] = {}  # group -> its ended completions
        self._complete_at: dict[int, float] = {}  # group -> time at which its last completion ended
        self._batch: list[Group] | None = None  # what the trainer works on
        self._last_push = Clock()

    def next_batch(self, model: Decoder) -> list[Group]:
        """Return the groups of the next update, sampled with the weights as they are now.

        Raises
        ------
        PoolExhaustedError
            When the curriculum has no prompt left to start that the update needs.
        """
        while True:
            self._start_groups()
            self._begin_update()
            if self._batch is None and self.exhausted and self._started < self.schedule.complete_before(self.updates):
                raise PoolExhaustedError(self.exhausted)
            if self._batch is not None and not self._in_flight:  # nothing to sample until the push
                self.clock.generators_idle += max(self.clock.training - self.clock.generation, 0.0)
                self.clock.generation = max(self.clock.generation, self.clock.training)
            if self._batch is not None and self.clock.training <= self.clock.generation:
                return self._batch
            self._decode(model)

    def pushed(self) -> None:
        """Note that the batch has been trained on and that generation goes on with the new weights."""
        self.updates += 1
        self._batch = None
        now, last = self.clock, self._last_push
        idle = self.costs.generators * (now.generators_idle - last.generators_idle)
        idle += self.costs.trainers * (now.trainers_idle - last.trainers_idle)
        self.idle_fraction = idle / (self.n_devices * (now.training - last.training))
        self._last_push = dataclasses.replace(now)

    @property
    def n_devices(self) -> int:
        """Devices of the modelled cluster."""
        return self.costs.generators + self.costs.trainers

    @property
    def modelled_hours(self) -> float:
        """Device-hours of the modelled cluster up to the last push, waiting included."""
        return self._last_push.training * self.n_devices / 3600

    def _start_groups(self) -> None:
        new = []
        limit = self.schedule.start_limit(self.updates)
        while self._started < limit and self._in_flight < self._slots and not self.exhausted:
            try:
                prompt = self.curriculum.draw()
            except PoolExhaustedError as error:  # what has been started is still trained on
                self.exhausted = str(error)
                break
            new.append((self._started, self.prompt_of(prompt), self.generations))
            self._started += 1
            self._in_flight += self.generations
        if new:
            self.generator.start(new)

    def _begin_update(self) -> None:
        """Let the trainer take the next batch once it is complete."""
        first = self.updates * self.schedule.prompts
        needed = range(first, self.schedule.complete_before(self.updates))
        if self._batch is not None or not all(n in self._complete_at for n in needed):
            return
        begin = max(self.clock.training, max(self._complete_at[n] for n in needed))
        self._batch = [self._take(n) for n in range(first, first + self.schedule.prompts)]
        self.clock.trainers_idle += begin - self.clock.training
        self.clock.training = begin + self.costs.update(sum(group.n_tokens for group in self._batch))

    def _take(self, n: int) -> Group:
        del self._complete_at[n]
        rollouts = sorted(self._finished.pop(n), key=lambda rollout: rollout.sample)
        return Group(n, rollouts[0].prompt, tuple(rollouts))

    def _decode(self, model: Decoder) -> None:
        assert self._in_flight, "nothing in flight and nothing to train on"
        self.clock.generation += self.costs.decode(min(self._in_flight, self._slots))
        for rollout in self.generator.advance(model, self.updates, 1):
            self._in_flight -= 1
            ended = self._finished.setdefault(rollout.group, [])
            ended.append(rollout)
            if len(ended) == self.generations:
                self._complete_at[rollout.group] = self.clock.generation

    def state_dict(self) -> dict[str, Any]:
        """Return everything, what is in flight included; call it between ``pushed`` and ``next_batch``."""
        assert self._batch is None, "a batch is being trained on"
        return {
            "updates": self.updates,
            "started": self._started,
            "in_flight": self._in_flight,
            "exhausted": self.exhausted,
            "clock": dataclasses.asdict(self.clock),
            "last_push": dataclasses.asdict(self._last_push),
            "finished": pack_rollouts([r for n in sorted(self._finished) for r in self._finished[n]]),
            "complete_at": dict(self._complete_at),
            "generator": self.generator.state_dict(),
            "curriculum": self.curriculum.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], model: Decoder) -> None:
        """Go on from ``state_dict``."""
        self.updates, self._started = state["updates"], state["started"]
        self._in_flight, self.exhausted = state["in_flight"], state["exhausted"]
        self.clock, self._last_push = Clock(**state["clock"]), Clock(**state["last_push"])
        self._finished = {}
        for rollout in unpack_rollouts(state["finished"], self.prompt_of):
            self._finished.setdefault(rollout.group, []).append(rollout)
        self._complete_at = dict(state["complete_at"])
        self.generator.load_state_dict(state["generator"], model)
        self.curriculum.load_state_dict(state["curriculum"])
