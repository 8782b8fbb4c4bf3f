"""The Trainer's callback: the events in the order in which a Trainer gives them, and a real Trainer."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlscaling import read_trace
from rlscaling.callbacks import Stopwatch, TraceLog, trace_callback
from rlscaling.errors import TraceError
from rlscaling.journal import read_jsonl

PAUSE = 0.01


def drive(log: TraceLog, first: int, last: int, every: int = 2) -> None:
    """Steps of at least 10 ms, an evaluation of as long at every second."""
    log.begin(first, world_size=4)
    if first == 0:
        log.evaluate(0, {"eval_acc": 0.2})
    for step in range(first + 1, last + 1):
        log.training.start()
        time.sleep(PAUSE)
        log.training.stop()
        log.log(step, {"loss": 1.0 / step, "completions/mean_length": 12.0, "epoch": 0.1})
        log.evaluating.start()
        if step % every == 0:
            time.sleep(PAUSE)
            log.log(step, {"eval_acc": 0.5})
            log.evaluate(step, {"eval_acc": 0.2 + step / 100, "eval_loss": 1.0})
    log.end()


def test_hours_are_those_of_training_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    drive(TraceLog(path, "eval_acc", 8, 100, {"seed": 3}), 0, 4)
    trace = read_trace(path)
    assert trace.pass_rate.tolist() == pytest.approx([0.2, 0.22, 0.24])
    assert trace.metadata["n_gpus"] == 8
    assert trace.metadata["seed"] == 3
    assert trace.n_prompts is not None
    seconds = trace.compute * 3600 / 8
    assert seconds[0] == 0
    assert seconds[-1] >= 4 * PAUSE
    assert trace.columns["eval_gpu_hours"][-1] * 3600 / 8 >= 2 * PAUSE
    kinds = [row["kind"] for row in read_jsonl(path)[1]]
    assert kinds == ["eval", "train", "train", "eval", "train", "train", "eval"]


def test_a_resume_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    drive(TraceLog(path, "eval_acc", None, None, {}), 0, 6)
    before = read_trace(path)
    drive(TraceLog(path, "eval_acc", None, None, {}), 4, 8)
    trace = read_trace(path)
    assert trace.columns["step"].tolist() == [0, 2, 4, 6, 8]
    assert trace.compute[2] == before.compute[2]
    assert trace.compute[3] > trace.compute[2]
    assert (tmp_path / "trace.discarded.jsonl").is_file()


def test_an_unknown_metric_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "trace.jsonl", "eval_accuracy", 1, None, {})
    log.begin(0, 1)
    with pytest.raises(TraceError, match=r"no metric 'eval_accuracy'; choose one of eval_acc, eval_loss"):
        log.evaluate(0, {"eval_acc": 0.5, "eval_loss": 1.0, "epoch": 1})
    log.end()


def test_a_watch_that_was_not_started_adds_nothing() -> None:
    watch = Stopwatch(8, hours=2.0)
    assert watch.stop() == 2.0


@pytest.mark.slow
def test_a_real_trainer(tmp_path: Path) -> None:
    """transformers' own Trainer on a linear layer."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    pytest.importorskip("accelerate")

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            out = self.layer(x).squeeze(-1)
            return {"loss": ((out - labels) ** 2).mean(), "logits": out}

    data = [{"x": torch.tensor([i / 16, 1.0]), "labels": torch.tensor(i / 16)} for i in range(16)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=6, eval_strategy="steps", eval_steps=2, logging_steps=1, report_to=[], use_cpu=True,
        per_device_train_batch_size=4, disable_tqdm=True, save_strategy="no", eval_on_start=True,
    )  # fmt: skip
    trainer = transformers.Trainer(
        Model(), arguments, train_dataset=data, eval_dataset=data,
        compute_metrics=lambda out: {"acc": float((abs(out.predictions - out.label_ids) < 0.3).mean())},
        callbacks=[trace_callback(tmp_path / "trace.jsonl", metric="eval_acc", n_gpus=4)],
    )  # fmt: skip
    began = time.perf_counter()
    trainer.train()
    wall = time.perf_counter() - began
    trace = read_trace(tmp_path / "trace.jsonl")
    assert trace.columns["step"].tolist() == [0, 2, 4, 6]
    assert 0 < trace.compute[-1] * 3600 / 4 < wall
    assert trace.columns["eval_gpu_hours"][-1] > 0
    logged = [row for row in trainer.state.log_history if "eval_acc" in row]
    assert trace.pass_rate.tolist() == [row["eval_acc"] for row in logged]


def test_the_callback_passes_events_on(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    callback = trace_callback(tmp_path / "trace.jsonl", metric="eval_acc", n_gpus=2)
    args, state = SimpleNamespace(world_size=1), SimpleNamespace(is_world_process_zero=True, global_step=0)
    callback.on_train_begin(args, state, None)
    callback.on_evaluate(args, state, None, metrics={"eval_acc": 0.1})
    state.global_step = 1
    callback.on_step_begin(args, state, None)
    callback.on_step_end(args, state, None)
    callback.on_log(args, state, None, logs={"loss": 1.0})
    callback.on_log(args, state, None, logs={"eval_acc": 0.3})
    callback.on_evaluate(args, state, None, metrics={"eval_acc": 0.3})
    callback.on_train_end(args, state, None)
    assert read_trace(tmp_path / "trace.jsonl").pass_rate.tolist() == [0.1, 0.3]
