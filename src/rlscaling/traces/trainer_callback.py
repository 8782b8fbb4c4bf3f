"""A callback for the Trainer of transformers and TRL that writes a trace with GPU-hours.

For any other loop use `TraceWriter`; ``examples/trace_any_loop.py`` shows how.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscaling.errors import TraceError
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.writer import TraceWriter, rewind

if TYPE_CHECKING:
    from transformers import TrainerCallback


HOUR = 3600.0
LOGGED = {
    "loss": "loss",
    "reward": "reward_mean",
    "entropy": "entropy",
    "grad_norm": "grad_norm",
    "completions/mean_length": "mean_length",
    "completions/clipped_ratio": "truncation_rate",
    "clip_ratio/region_mean": "clip_fraction",
}
"""A Trainer's name of a metric -> our column, as in the reader of its logs (a test compares them)."""


class Stopwatch:
    """GPU-hours of training and of evaluation so far.

    Examples
    --------
    >>> watch = Stopwatch(n_gpus=8)
    >>> watch.start()
    >>> watch.stop() < 1e-3
    True
    """

    def __init__(self, n_gpus: float, hours: float = 0.0) -> None:
        self.n_gpus, self.hours = n_gpus, hours
        self._since: float | None = None

    def start(self) -> None:
        """Start, or start again."""
        self._since = time.perf_counter()

    def stop(self) -> float:
        """Stop, and return the GPU-hours so far; without a start nothing is added."""
        if self._since is not None:
            self.hours += (time.perf_counter() - self._since) * self.n_gpus / HOUR
            self._since = None
        return self.hours


class CallbackTrace:
    """The trace of a callback, without its base class: rows made of a Trainer's events."""

    def __init__(
        self, path: str | Path, metric: str, n_gpus: float | None, n_prompts: int | None, header: Mapping[str, Any]
    ) -> None:
        self.path, self.metric, self.n_gpus, self.n_prompts = Path(path), metric, n_gpus, n_prompts
        self.header = dict(header)
        self.writer: TraceWriter | None = None
        self.training = self.evaluating = Stopwatch(1.0)
        self._found, self._others = False, set[str]()

    def begin(self, step: int, world_size: int) -> None:
        """Open the trace; go on with the one that is there when the Trainer resumes from a checkpoint.

        Raises
        ------
        TraceError
            When a training begins where a trace is already, or resumes where none is.
        """
        self.end()  # of a training that was interrupted
        n_gpus = float(self.n_gpus or world_size)
        hours = eval_hours = 0.0
        if step > 0:
            if not self.path.exists():
                raise TraceError(
                    f"training resumes at step {step}, but there is no {self.path}: the compute before is unknown; put "
                    "the trace that the first part wrote there, or train without the callback"
                )
            rewind(self.path, step)
            for row in read_jsonl(self.path)[1]:
                hours = float(row.get("compute_gpu_hours") or hours)
                eval_hours = float(row.get("eval_gpu_hours") or eval_hours)
        self.training, self.evaluating = Stopwatch(n_gpus, hours), Stopwatch(n_gpus, eval_hours)
        header = {"compute_unit": "gpu-hours", "n_gpus": n_gpus, "metric": self.metric, **self.header}
        self.writer = TraceWriter(self.path, header, append=step > 0)
        self.evaluating.start()

    def log(self, step: int, logs: Mapping[str, Any]) -> None:
        """Write a training row, for the logs of a training step."""
        columns = {ours: float(logs[theirs]) for theirs, ours in LOGGED.items() if theirs in logs}
        if columns and self.writer is not None and not any(key.startswith("eval_") for key in logs):
            self.writer.write("train", step=step, compute_gpu_hours=self.training.hours, **columns)

    def saved(self, step: int) -> None:
        """Write the compute at a checkpoint, from which a resume continues."""
        if self.writer is not None:
            self.writer.write("train", step=step, compute_gpu_hours=self.training.hours)

    def evaluate(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write an evaluation row; with several evaluation sets, for the one that has the metric."""
        if self.writer is None:
            return
        if self.metric not in metrics:
            self._others |= {key for key in metrics if key.startswith("eval_")}
            return
        self._found = True
        more = {} if self.n_prompts is None else {"n_prompts": self.n_prompts}
        self.writer.write(
            "eval", step=step, compute_gpu_hours=self.training.hours, pass_rate=float(metrics[self.metric]),
            eval_gpu_hours=self.evaluating.stop(), **more,
        )  # fmt: skip

    def check(self) -> None:
        """Raise if evaluations were made and none of their sets has the metric; called before the next step.

        Raises
        ------
        TraceError
            With the metrics that are there.
        """
        if self._others and not self._found:
            names = ", ".join(sorted(self._others))
            raise TraceError(f"the evaluation has no metric {self.metric!r}; choose one of {names} with metric=")

    def end(self) -> None:
        """Close the trace."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None


def trace_callback(
    path: str | Path,
    *,
    metric: str = "eval_rewards/accuracy/mean",
    n_gpus: float | None = None,
    n_prompts: int | None = None,
    header: Mapping[str, Any] | None = None,
) -> TrainerCallback:
    """Return a callback that writes a trace file during ``Trainer.train()``, of transformers or TRL.

    Compute is the measured time of training steps times the GPUs; evaluations and checkpoints are not in it. When the
    Trainer resumes from a checkpoint, the trace at ``path`` goes on with the compute that it had there: what was done
    after the checkpoint and is done again counts once (useful compute), and its rows move to
    ``<name>.discarded.jsonl`` beside the trace.

    Parameters
    ----------
    path
        The trace, such as ``"run/trace.jsonl"``; its folder must be there.
    metric
        Metric of an evaluation that is the pass rate; of several evaluation sets, that of one. In TRL a reward function
        that returns 0 or 1 and has weight 0 gives a held-out pass rate without being trained on.
    n_gpus
        GPUs of the run, those of a vLLM server included; by default the processes of the Trainer.
    n_prompts
        Prompts in the evaluation set.
    header
        More on the run: ``recipe``, ``seed``, ``device`` ...

    Returns
    -------
    transformers.TrainerCallback
        For ``callbacks=[...]``.

    Raises
    ------
    ModuleNotFoundError
        Without transformers; ``pip install transformers``.
    TraceError
        When a training begins where a trace is already, resumes where none is, or evaluates without the metric.

    Examples
    --------
    >>> from trl import GRPOTrainer                                                # doctest: +SKIP
    >>> callback = trace_callback("run/trace.jsonl", n_gpus=8, header={"seed": 1})  # doctest: +SKIP
    >>> GRPOTrainer(..., callbacks=[callback]).train()                             # doctest: +SKIP
    """
    from transformers import TrainerCallback

    class TraceCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
        """Passes a Trainer's events on; only the first process writes."""

        def __init__(self) -> None:
            self.trace = CallbackTrace(path, metric, n_gpus, n_prompts, header or {})

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if state.is_world_process_zero:
                self.trace.begin(state.global_step, args.world_size)

        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.trace.check()
            self.trace.training.start()

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.trace.training.stop()
            self.trace.evaluating.start()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            self.trace.log(state.global_step, logs or {})
            if not any(key.startswith("eval_") for key in logs or {}):  # an evaluation's own log stands within it
                self.trace.evaluating.start()

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **more: Any) -> None:
            self.trace.evaluate(state.global_step, metrics or {})

        def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.trace.saved(state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.trace.end()
            self.trace.check()

    return TraceCallback()
