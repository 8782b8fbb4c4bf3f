"""`train`: a training run from its first step to its last; read it first, then ``update``.

A step samples the completions of a batch of prompts (``generation/schedule.py`` decides with which weights), turns
rewards into advantages, leaves out what teaches nothing, takes one gradient step and pushes the weights. There is no
critic, no reference model and no KL term: ScaleRL has none of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from rlscaling.trainer.generation.evaluate import evaluate, evaluation_seed
from rlscaling.trainer.model.hf_weights import save_model as save_pretrained
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.tasks.curriculum import PoolExhaustedError
from rlscaling.trainer.training.checkpoint import RunFolder, check_save
from rlscaling.trainer.training.learner import Row, check_device, cpu_threads
from rlscaling.trainer.training.run_state import RunState
from rlscaling.trainer.training.update import update


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What a run leaves.

    Attributes
    ----------
    trace_path
        The trace file; None when nothing was written.
    steps
        Updates done.
    rows
        Rows of the trace, header left out.
    stopped
        Why the run ended before its last step; empty when it did not.
    downstream
        Domains that are only evaluated.
    notes
        What was left out of the data, and why.
    """

    trace_path: Path | None
    steps: int
    rows: list[Row]
    stopped: str = ""
    downstream: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def pass_rates(self) -> dict[int, float]:
        """Held-out pass rate by step, averaged over the domains trained on."""
        by_step: dict[int, list[float]] = {}
        for row in self.rows:
            if row["kind"] == "eval" and row["domain"] not in self.downstream:
                by_step.setdefault(row["step"], []).append(row["pass_rate"])
        return {step: sum(rates) / len(rates) for step, rates in by_step.items()}


def train(
    config: TrainConfig,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    on_row: Callable[[Row], None] | None = None,
    save_model: str | Path | None = None,
) -> TrainResult:
    """Train a model by reinforcement learning and leave the trace of its held-out pass rate.

    Parameters
    ----------
    config
        From ``make_config``.
    out
        Folder for ``trace.jsonl`` and the checkpoint; None keeps the rows in memory.
    resume
        Go on with the run in the folder, wherever it was killed: its rows, measured times aside, are those of a
        run that nothing interrupted.
    on_row
        Called with every row of the trace.
    save_model
        New folder for the trained model in the layout that its pretrained model has; None saves none.

    Returns
    -------
    TrainResult
        Where the trace is, and its rows.

    Raises
    ------
    TrainError
        When the folder holds another run, the loss is not finite, or the disk is full.

    References
    ----------
    The recipe: ScaleRL, sections 2 and 3 (arXiv 2510.13786).
    """
    check_device(config)
    check_save(config, save_model, out)
    state = RunState.new(config)
    learner, cluster, curriculum = state.learner, state.cluster, state.curriculum
    with cpu_threads(config.threads), RunFolder(out, state.header(), resume=resume) as folder:
        learner.folder, learner.on_row = folder, on_row
        if folder.state is None:
            with learner.meter.time("warmup"):
                learner.warm_up()
            evaluate_and_log(state)
            save_if_due(state)
        else:
            state.restore(folder.state)
        learner.meter.lost_hours = folder.lost

        stopped = ""
        for step in range(learner.step + 1, config.steps + 1):
            try:
                with learner.meter.time("generate"):  # up to the moment at which this update's weights are pushed
                    groups = cluster.next_batch(learner.model)
            except PoolExhaustedError as error:
                stopped = str(error)  # the pool is too small for another update
                break
            with learner.meter.time("train"):
                metrics = update(learner, groups)
            cluster.pushed()  # completions in flight go on with the new weights
            for group in groups:
                curriculum.record(group.prompt.index, group.successes, len(group.rollouts))
            log_step(state, metrics)
            if step % config.eval_every == 0 or step == config.steps:
                evaluate_and_log(state)
            save_if_due(state)
        if stopped and not folder.has_evaluation(learner.step):
            evaluate_and_log(state)
        if save_model is not None:
            save_pretrained(learner.model, config.model_path, save_model)
    return TrainResult(folder.trace, learner.step, folder.rows, stopped, learner.task.downstream, learner.task.notes)


def log_step(state: RunState, metrics: Row) -> None:
    """Write the row of an update."""
    pool = {"epoch": state.curriculum.epoch, "pool_left": len(state.curriculum.pool())}
    state.log("train", {**metrics, "idle_fraction": state.cluster.idle_fraction, **pool})


def evaluate_and_log(state: RunState) -> None:
    """Write one row per domain: mean@n on the held-out prompts."""
    learner = state.learner
    with learner.meter.time("evaluate"):
        seed = evaluation_seed(learner.config, learner.step)
        results = evaluate(learner.model, learner.task, state.heldout, learner.config, seed=seed)
    for result in results:
        state.log("eval", dataclasses.asdict(result))


def save_if_due(state: RunState) -> None:
    """Replace the checkpoint every ``checkpoint_every`` steps and at the end; the rows up to here are on the disk."""
    step, config = state.learner.step, state.learner.config
    if config.checkpoint_every and (step % config.checkpoint_every == 0 or step == config.steps):
        state.save()
