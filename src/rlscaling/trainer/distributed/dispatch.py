"""Groups to generators, groups to batches: rules only, no clock and no connection.

Groups are drawn at the moment an update is done, as many as the schedule allows by then. So the prompts of a run follow
from the outcomes of its batches alone, and not from who was fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlscaling.trainer.generation.rollout import Group, pack_rollouts, unpack_rollouts
from rlscaling.trainer.tasks.curriculum import PoolExhaustedError

if TYPE_CHECKING:
    from rlscaling.trainer.generation.schedule import Schedule
    from rlscaling.trainer.tasks.task import Prompt


Work = list[tuple[int, int]]
"""Numbers of groups and of their prompts."""


def groups_of(packed: Mapping[str, Any], prompt_of: Callable[[int], Prompt]) -> list[Group]:
    """Return the groups whose completions ``pack_rollouts`` packed, each in the order of its samples."""
    by_group: dict[int, list[Any]] = {}
    for rollout in unpack_rollouts(dict(packed), prompt_of):
        by_group.setdefault(rollout.group, []).append(rollout)
    return [
        Group(n, ended[0].prompt, tuple(sorted(ended, key=lambda rollout: rollout.sample)))
        for n, ended in sorted(by_group.items())
    ]


class Dispatcher:
    """The groups of a run between being drawn and being trained on.

    Parameters
    ----------
    schedule
        PipelineRL-k or PPO-off-policy-k.
    generators
        Ranks that generate.

    Attributes
    ----------
    updates : int
        Updates done.
    exhausted : str
        Why no further prompt can be drawn; empty while there are some.
    """

    def __init__(self, schedule: Schedule, generators: Sequence[int]) -> None:
        self.schedule, self.generators = schedule, tuple(generators)
        self.updates = 0
        self.exhausted = ""
        self._drawn = 0
        self._to_restart: Work = []  # in flight when a checkpoint was taken: they start anew
        self._in_flight: dict[int, tuple[int, int]] = {}  # group in flight -> its generator and its prompt
        self._complete: dict[int, Group] = {}

    def assign(self, draw: Callable[[], int]) -> dict[int, Work]:
        """Return what each generator may start now; each group goes to the one with the fewest in flight."""
        load = dict.fromkeys(self.generators, 0)
        for rank, _ in self._in_flight.values():
            load[rank] += 1
        new: dict[int, Work] = {}
        for n, prompt in (*self._to_restart, *self._draw(draw)):
            rank = min(self.generators, key=lambda rank: load[rank])
            load[rank] += 1
            self._in_flight[n] = (rank, prompt)
            new.setdefault(rank, []).append((n, prompt))
        self._to_restart = []
        return new

    def _draw(self, draw: Callable[[], int]) -> Iterable[tuple[int, int]]:
        limit = self.schedule.start_limit(self.updates)
        while self._drawn < limit and not self.exhausted:
            try:
                prompt = draw()
            except PoolExhaustedError as error:
                self.exhausted = str(error)
                return
            yield self._drawn, prompt
            self._drawn += 1

    def add(self, group: Group) -> None:
        """Note that a group is complete."""
        del self._in_flight[group.index]
        self._complete[group.index] = group

    @property
    def ready(self) -> bool:
        """Whether the next update can begin."""
        return all(n in self._complete for n in self._needed)

    @property
    def stuck(self) -> bool:
        """Whether the next update can never begin, because its prompts cannot be drawn."""
        return bool(self.exhausted) and self._drawn < self.schedule.complete_before(self.updates)

    @property
    def _needed(self) -> range:
        return range(self.updates * self.schedule.prompts, self.schedule.complete_before(self.updates))

    def take(self) -> list[Group]:
        """Return the groups of the next update, in the order of their start."""
        first = self.updates * self.schedule.prompts
        return [self._complete.pop(n) for n in range(first, first + self.schedule.prompts)]

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint between two updates holds: of a group in flight only that it was drawn."""
        to_restart = self._to_restart + [(n, prompt) for n, (_, prompt) in self._in_flight.items()]
        complete = [rollout for n in sorted(self._complete) for rollout in self._complete[n].rollouts]
        return {
            "updates": self.updates,
            "drawn": self._drawn,
            "exhausted": self.exhausted,
            "again": sorted(to_restart),
            "complete": pack_rollouts(complete),
        }

    def load_state_dict(self, state: Mapping[str, Any], prompt_of: Callable[[int], Prompt]) -> None:
        """Go on from ``state_dict``; the number of generators may be another."""
        self.updates, self._drawn, self.exhausted = state["updates"], state["drawn"], state["exhausted"]
        self._to_restart, self._in_flight = list(state["again"]), {}
        self._complete = {group.index: group for group in groups_of(state["complete"], prompt_of)}
