"""A training run from its first line to its last; read ``train`` first, then ``update``.

What a step does: sample completions of 64 prompts (``schedule.py`` decides with which weights), turn rewards into
advantages, leave out what teaches nothing, take one gradient step, push the weights. What is not here: a critic, a
reference model, a KL term. ScaleRL has none of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from rlscaling.trainer.generation.evaluate import evaluate, evaluation_seed
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.tasks.curriculum import PoolExhaustedError
from rlscaling.trainer.training.checkpoint import RunFolder
from rlscaling.trainer.training.learner import Row
from rlscaling.trainer.training.run_state import RunState, check_device, check_save, cpu_threads
from rlscaling.trainer.training.update import update
from rlscaling.trainer.training.warmup import supervised_warmup


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
    run = RunState(config)
    with cpu_threads(config.threads), RunFolder(out, run.header(), resume=resume) as folder:
        run.folder, run.on_row = folder, on_row
        if folder.state is None:
            with run.meter.time("warmup"):
                supervised_warmup(run.model, run.task, config)
            run.optimizer.adopt()
            evaluate_and_log(run)
            save_if_due(run)
        else:
            run.load_state_dict(folder.state)
        run.meter.lost_hours = folder.lost

        stopped = ""
        while run.step < config.steps:
            try:
                with run.meter.time("generate"):  # goes on to the moment at which this update's weights are pushed
                    groups = run.cluster.next_batch(run.model)
            except PoolExhaustedError as error:
                stopped = str(error)  # the pool is too small for another update
                break
            with run.meter.time("train"):
                row = update(run, groups)
            run.cluster.pushed()  # completions in flight go on with the new weights
            for group in groups:
                run.curriculum.record(group.prompt.index, group.successes, len(group.rollouts))
            log_step(run, row)
            if run.step % config.eval_every == 0 or run.step == config.steps:
                evaluate_and_log(run)
            save_if_due(run)
        if stopped and not any(row["kind"] == "eval" and row["step"] == run.step for row in folder.rows):
            evaluate_and_log(run)
        if save_model is not None:
            run.save_model(save_model)
    return TrainResult(folder.trace, run.step, folder.rows, stopped, run.task.downstream, run.task.notes)


def save_if_due(run: RunState) -> None:
    """Replace the checkpoint every ``checkpoint_every`` steps and at the end; the rows up to here are on the disk."""
    every = run.config.checkpoint_every
    if every and (run.step % every == 0 or run.step == run.config.steps):
        run.save()


def log_step(run: RunState, row: Row) -> None:
    """Write the row of an update."""
    pool = {"epoch": run.curriculum.epoch, "pool_left": len(run.curriculum.pool())}
    run.log("train", {**row, "idle_fraction": run.cluster.idle_fraction, **pool})


def evaluate_and_log(run: RunState) -> None:
    """Write one row per domain: mean@n on the held-out prompts."""
    with run.meter.time("evaluate"):
        seed = evaluation_seed(run.config, run.step)
        results = evaluate(run.model, run.task, run.heldout, run.config, seed=seed)
    for result in results:
        run.log("eval", dataclasses.asdict(result))
