"""The ranks that generate: they sample what rank 0 hands out, with the newest weights there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscaling.trainer.distributed.accounting import RankClock
from rlscaling.trainer.distributed.control_channel import ControlClient, Message
from rlscaling.trainer.distributed.process_groups import ProcessGroups, exchange_weights
from rlscaling.trainer.generation.evaluate import MISMATCH_ROLLOUTS, heldout_rollouts, mismatch
from rlscaling.trainer.generation.generator import Generator
from rlscaling.trainer.generation.rollout import Rollout, pack_rollouts
from rlscaling.trainer.model.build import build_model
from rlscaling.trainer.tasks.make import make_task

if TYPE_CHECKING:
    from rlscaling.trainer.settings.config import TrainConfig


def rows_at_once(prompts: int, generations: int, generators: int) -> int:
    """Return the completions that a generator holds at once: all generators together hold a batch."""
    return -(-prompts // generators) * generations


def share_of(n: int, index: int, of: int) -> range:
    """Return which of ``n`` prompts the generator number ``index`` evaluates."""
    return range(n * index // of, n * (index + 1) // of)


class GeneratorRank:
    """The loop of a generator.

    Parameters
    ----------
    config
        The settings of the run.
    process_groups
        The ranks.
    control_client
        Where work comes from and completions go.
    """

    def __init__(self, config: TrainConfig, process_groups: ProcessGroups, control_client: ControlClient) -> None:
        self.config, self.process_groups, self.control_client = config, process_groups, control_client
        self.task = make_task(config)
        self.heldout = self.task.heldout_prompts(config.eval_prompts)
        self.model = build_model(config, self.task).requires_grad_(False)
        slots = rows_at_once(config.prompts_per_step, config.generations, process_groups.layout.generators)
        self.generator = Generator.for_training(config, self.task, slots)
        self.clock = RankClock()
        self.version = 0
        self._ended: dict[int, list[Rollout]] = {}

    def run(self) -> None:
        """Sample until rank 0 says that the run is over."""
        while self._follow_messages():
            for rollout in self.generator.advance(self.model, self.version, 1):
                ended = self._ended.setdefault(rollout.group, [])
                ended.append(rollout)
                if len(ended) == self.config.generations:
                    self._send("group", {}, self._ended.pop(rollout.group))

    def _send(self, kind: str, facts: dict[str, Any], rollouts: list[Rollout]) -> None:
        facts = {**facts, "task_totals": self.task.state_dict()}
        self.control_client.send(Message(kind, facts, pack_rollouts(rollouts)))

    @property
    def _idle(self) -> bool:
        return not self.generator.n_live

    def _follow_messages(self) -> bool:
        """Follow the messages of rank 0; without work, sleep until one arrives. False at the end of the run."""
        while self._idle or self.control_client.waiting():
            if self._idle:
                with self.clock.waiting():
                    message = self.control_client.receive()
            else:
                message = self.control_client.receive()
            if message.kind == "end":
                return False
            self._follow(message)
        return True

    def _follow(self, message: Message) -> None:
        if message.kind == "start":
            size = self.config.generations
            self.generator.start([(n, self.task.train_prompt(i), size) for n, i in message.facts["groups"]])
        elif message.kind == "push":
            exchange_weights(self.process_groups, self.model, self.clock)
            self.version = message.facts["version"]
        elif message.kind == "evaluate":
            with self.clock.left_out():
                self._evaluate(message.facts["seed"])
                message = self.control_client.receive()
            assert message.kind == "evaluated", message.kind

    def _evaluate(self, seed: int) -> None:
        layout = self.process_groups.layout
        index = self.process_groups.rank_info.rank - layout.trainers
        numbers = share_of(len(self.heldout), index, layout.generators)
        prompts = [self.heldout[i] for i in numbers]
        rollouts = heldout_rollouts(self.model, self.task, prompts, self.config, seed=seed, numbers=numbers)
        gap = mismatch(self.model, rollouts[:MISMATCH_ROLLOUTS], self.task.pad_id, self.config) if rollouts else None
        self._send("evaluation", {"gap": gap}, rollouts)
