"""The ranks that train. Rank 0 reads like ``loop.train``: wait for a batch, update, push, log; the others follow it."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscaling.trainer.distributed.accounting import COMPUTE_ROLES, ClusterMeter, RankClock, RankSeconds
from rlscaling.trainer.distributed.control_channel import ControlClient, ControlServer, Message
from rlscaling.trainer.distributed.dispatch import Dispatcher, groups_of
from rlscaling.trainer.distributed.fsdp import ShardedDataParallel, gather
from rlscaling.trainer.distributed.process_groups import ProcessGroups, WeightSyncReport, exchange_weights
from rlscaling.trainer.distributed.sharded_checkpoint import PREFIX, load_shards, remove_other_shards, save_shards
from rlscaling.trainer.generation.evaluate import evaluation_seed, summarize
from rlscaling.trainer.generation.rollout import Group, pack_rollouts, unpack_rollouts
from rlscaling.trainer.generation.schedule import Schedule
from rlscaling.trainer.model.hf_weights import save_model
from rlscaling.trainer.tasks.curriculum import Curriculum
from rlscaling.trainer.training.checkpoint import RANKS, RunFolder
from rlscaling.trainer.training.learner import Learner, Row
from rlscaling.trainer.training.loop import TrainResult
from rlscaling.trainer.training.update import update

if TYPE_CHECKING:
    from rlscaling.trainer.generation.rollout import Rollout
    from rlscaling.trainer.settings.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class DistributedResult(TrainResult):
    """What a run on several ranks leaves.

    Attributes
    ----------
    tokens_per_second
        Completion tokens of this process's updates over its wall-clock time, evaluation left out.
    idle_fraction
        Share of all ranks' time spent waiting; None when nothing was trained.
    peak_state_bytes
        Most that weights, gradients and optimizer state took on one trainer rank.
    """

    tokens_per_second: float = 0.0
    idle_fraction: float | None = None
    peak_state_bytes: int = 0


class TrainerRank(Learner):
    """What every trainer rank does, in step with the others.

    Parameters
    ----------
    config
        The settings of the run.
    process_groups
        The ranks.
    out
        Folder of the run, which all trainer ranks see; None writes nothing.
    """

    def __init__(self, config: TrainConfig, process_groups: ProcessGroups, out: str | Path | None) -> None:
        assert process_groups.trainers is not None
        meter = ClusterMeter(n_devices=process_groups.layout.world_size)
        super().__init__(config, ShardedDataParallel(process_groups.trainers, config.device), meter)
        self.process_groups, self.out = process_groups, None if out is None else Path(out)
        self.group = process_groups.trainers
        self.clock = RankClock()

    def begin(self, step: int, shards: str | None, optimizer_steps: int) -> None:
        """Take the weights to start from: those of a checkpoint, or fresh ones after the supervised warm-up."""
        self.step = step
        if shards is None:
            self.warm_up()
        else:
            assert self.out is not None
            load_shards(self.out / shards, self.model, self.optimizer, steps=optimizer_steps, group=self.group)

    def exchange(self) -> WeightSyncReport:
        """Push the weights."""
        return exchange_weights(self.process_groups, self.model, self.clock, self.optimizer.peak_bytes)

    def save_shards(self, name: str) -> None:
        """Write this rank's part of a checkpoint."""
        assert self.out is not None
        save_shards(self.out / name, self.model, self.optimizer, self.group)


class FollowerRank(TrainerRank):
    """A trainer rank other than 0."""

    def __init__(
        self, config: TrainConfig, process_groups: ProcessGroups, out: str | Path | None, control_client: ControlClient
    ) -> None:
        super().__init__(config, process_groups, out)
        self.control_client = control_client
        self.folder = RunFolder(None, {})

    def run(self) -> None:
        """Do what rank 0 does until it says that the run is over."""
        while True:
            with self.clock.waiting():
                message = self.control_client.receive()
            facts = message.facts
            if message.kind == "end":
                return
            if message.kind == "begin":
                self.begin(**facts)
                self.exchange()
            elif message.kind == "update":
                update(self, groups_of(message.arrays, self.task.train_prompt))
                self.exchange()
            elif message.kind == "save":
                self.save_shards(facts["name"])
                self.folder.saved_at = self.step
            elif message.kind == "gather":
                gather(self.model, keep=False)
            elif message.kind == "evaluate":
                with self.clock.left_out():
                    self.control_client.receive()


class LeadRank(TrainerRank):
    """Rank 0: it owns the folder, the curriculum and the schedule."""

    def __init__(
        self,
        config: TrainConfig,
        process_groups: ProcessGroups,
        out: str | Path | None,
        control_server: ControlServer,
        on_row: Callable[[Row], None] | None = None,
        save_to: Path | None = None,
    ) -> None:
        super().__init__(config, process_groups, out)
        self.control_server, self.on_row, self.save_to = control_server, on_row, save_to
        self.curriculum = Curriculum.of(config, self.task.n_train)
        self.heldout = self.task.heldout_prompts(config.eval_prompts)
        self.dispatcher = Dispatcher(Schedule.of(config), process_groups.layout.generator_ranks)
        self._evaluations: dict[int, Message] = {}
        self._weight_sync = self._first_sync = WeightSyncReport(RankSeconds(), 0)
        self._row_before = (0.0, 0)  # seconds and tokens at the row before
        self._task_totals: dict[int, Row] = {-1: self.task.state_dict()}  # by generator; -1 before a resume

    def run(self, resume: bool) -> DistributedResult:
        """Train from the first step, or the checkpoint, to the last."""
        layout, config = self.process_groups.layout, self.config
        roles = {"generators": layout.generators, "trainers": layout.trainers, "modelled": False}
        with RunFolder(self.out, self.header(roles), resume=resume, writer=RANKS) as self.folder:
            self._begin()
            began = self._cost()
            while self.step < config.steps:
                with self.meter.time("generate"):
                    groups = self._next_batch()
                if groups is None:
                    break
                with self.meter.time("train"):
                    row = self._update(groups)
                with self.meter.time("train"):  # the row holds what was spent before it
                    self._log_step(row)
                if self.step % config.eval_every == 0 or self.step == config.steps:
                    self._evaluate()
                self._save_if_due()
            stopped = self.dispatcher.exhausted if self.step < config.steps else ""
            if stopped and not self.folder.has_evaluation(self.step):
                self._evaluate()
            self._save_model()
            self.control_server.end()
            return self._result(stopped, began)

    def _begin(self) -> None:
        """Bring all ranks to the state that the run starts from."""
        state = self.folder.state
        start: dict[str, Any] = {"step": 0, "shards": None, "optimizer_steps": 0}
        if state is not None:
            start = {"step": state["step"], "shards": state["id"], "optimizer_steps": state["optimizer_steps"]}
            self.meter.load_state_dict(state["meter"])
            self.curriculum.load_state_dict(state["curriculum"])
            self.dispatcher.load_state_dict(state["dispatch"], self.task.train_prompt)
            self._task_totals[-1] = state["task"]
        if self.out is not None:
            remove_other_shards(self.out, start["shards"])
        self.meter.lost_hours = self.folder.lost
        self._send_to_trainers(Message("begin", start))
        if state is None:
            with self.meter.time("warmup"):
                self.begin(**start)
        else:
            self.begin(**start)
        self._push()
        self._first_sync = self._weight_sync
        self._row_before = self._cost()
        if state is None:
            self._evaluate()
            self._save_if_due()

    def _next_batch(self) -> list[Group] | None:
        """Hand out what may be started and wait for the next batch; None when its prompts cannot be drawn."""
        for rank, work in self.dispatcher.assign(self.curriculum.draw).items():
            self.control_server.send(Message("start", {"groups": work}), [rank])
        if self.dispatcher.stuck:
            return None
        while not self.dispatcher.ready:
            self._receive()
        return self.dispatcher.take()

    def _receive(self) -> None:
        """Wait for a message and keep what it brings."""
        with self.clock.waiting():
            received = self.control_server.receive()
        assert received is not None  # without a time limit
        rank, message = received
        self._task_totals[rank] = message.facts["task_totals"]
        if message.kind == "group":
            (group,) = groups_of(message.arrays, self.task.train_prompt)
            self.dispatcher.add(group)
        else:
            self._evaluations[rank] = message

    def task_totals(self) -> Row:
        """Return what the tasks of all generators have counted so far."""
        return {name: sum(one.get(name, 0) for one in self._task_totals.values()) for name in self._task_totals[-1]}

    def _save_model(self) -> None:
        """Write the model in the layout of its pretrained model, where it is to be saved."""
        if self.save_to is None:
            return
        self._send_to_trainers(Message("gather"))
        weights = gather(self.model, keep=True)
        save_model(self.model, self.config.model_path, self.save_to, weights=weights)

    def _update(self, groups: list[Group]) -> Row:
        """Train on a batch and push the weights, into half-finished completions too."""
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        if self.process_groups.layout.trainers > 1:
            self._send_to_trainers(Message("update", arrays=pack_rollouts(rollouts)))
        row = update(self, groups)
        self.dispatcher.updates += 1
        before = self._weight_sync.seconds
        self._push()
        for group in groups:
            self.curriculum.record(group.prompt.index, group.successes, len(group.rollouts))
        idle = self._weight_sync.seconds.since(before).idle_fraction
        return {**row, "idle_fraction": idle}

    def _push(self) -> None:
        self.control_server.send(Message("push", {"version": self.step}), self.process_groups.layout.generator_ranks)
        self._weight_sync = self.exchange()

    def _send_to_trainers(self, message: Message) -> None:
        self.control_server.send(message, range(1, self.process_groups.layout.trainers))

    def _cost(self) -> tuple[float, int]:
        return sum(self.meter.seconds[role] for role in COMPUTE_ROLES), self.meter.tokens_generated

    def _log_step(self, row: Row) -> None:
        (before, tokens_before), (now, tokens) = self._row_before, self._cost()
        self._row_before = (now, tokens)
        speed = {"tokens_per_second": (tokens - tokens_before) / (now - before)}
        pool = {"epoch": self.curriculum.epoch, "pool_left": len(self.curriculum.pool())}
        self.log("train", {**row, **pool, **speed, "peak_state_bytes": self._weight_sync.peak_bytes})

    def _evaluate(self) -> None:
        """Let the generators sample the held-out prompts, and write one row per domain."""
        config = self.config
        with self.meter.time("evaluate"), self.clock.left_out():
            self.control_server.send(Message("evaluate", {"seed": evaluation_seed(config, self.step)}))
            while len(self._evaluations) < self.process_groups.layout.generators:
                self._receive()
            messages = [self._evaluations.pop(rank) for rank in self.process_groups.layout.generator_ranks]
            rollouts = [rollout for message in messages for rollout in self._heldout_rollouts(message)]
            gap = next(message.facts["gap"] for message in messages if message.facts["gap"] is not None)
            results = summarize(rollouts, self.task.domains, config.eval_samples, gap)
            self.control_server.send(Message("evaluated"))
        for result in results:
            self.log("eval", dataclasses.asdict(result))

    def _heldout_rollouts(self, message: Message) -> list[Rollout]:
        # the group of such a completion is the number of its prompt among those held out
        packed = {**message.arrays, "prompt": message.arrays["group"]}
        return unpack_rollouts(packed, lambda number: self.heldout[number])

    def _save_if_due(self) -> None:
        every = self.config.checkpoint_every
        if self.out is not None and every and (self.step % every == 0 or self.step == self.config.steps):
            with self.meter.time("checkpoint"):
                self._save(self.out)

    def _save(self, out: Path) -> None:
        name = f"{PREFIX}{self.step}-{uuid.uuid4().hex[:8]}"
        self._send_to_trainers(Message("save", {"name": name}))
        self.save_shards(name)
        state = {
            "id": name,
            "optimizer_steps": self.optimizer.steps,
            "dispatch": self.dispatcher.state_dict(),
            "curriculum": self.curriculum.state_dict(),
            "meter": self.meter.state_dict(),
            "task": self.task_totals(),
        }
        self.folder.save(self.step, state, self.identity)
        remove_other_shards(out, name)

    def _result(self, stopped: str, began: tuple[float, int]) -> DistributedResult:
        seconds, tokens = (now - before for now, before in zip(self._cost(), began, strict=True))
        return DistributedResult(
            self.folder.trace,
            self.step,
            self.folder.rows,
            stopped,
            self.task.downstream,
            self.task.notes,
            tokens_per_second=tokens / seconds if seconds else 0.0,
            idle_fraction=self._weight_sync.seconds.since(self._first_sync.seconds).idle_fraction,
            peak_state_bytes=self._weight_sync.peak_bytes,
        )
