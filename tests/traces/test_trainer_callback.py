"""The Trainer's callback: the events in the order in which a Trainer gives them, and a real Trainer."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlscaling import read_trace
from rlscaling.errors import TraceError
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.trainer_callback import CallbackTrace, Stopwatch, trace_callback

STEP, EVALUATION, PAUSE = 36.0, 18.0, 7.0  # seconds


class Clock:
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stub = Clock()
    monkeypatch.setattr("rlscaling.traces.trainer_callback.time", stub)
    return stub


def drive(log: CallbackTrace, clock: Clock, first: int, last: int, every: int = 2, save: int = 0) -> None:
    """Steps of 36 s, an evaluation of 18 s at every second, 7 s of other work between them."""
    log.begin(first, world_size=4)
    if first == 0:
        clock.now += EVALUATION
        log.evaluate(0, {"eval_acc": 0.2})
    for step in range(first + 1, last + 1):
        clock.now += PAUSE
        log.training.start()
        clock.now += STEP
        log.training.stop()
        log.evaluating.start()
        log.log(step, {"loss": 1.0 / step, "completions/mean_length": 12.0, "epoch": 0.1})
        log.evaluating.start()
        if step % every == 0:
            clock.now += EVALUATION
            log.log(step, {"eval_acc": 0.5})
            log.evaluate(step, {"eval_acc": 0.2 + step / 100, "eval_loss": 1.0})
        if save and step % save == 0:
            clock.now += PAUSE
            log.saved(step)
    log.end()


def test_hours_are_those_of_training_alone(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "trace.jsonl"
    drive(CallbackTrace(path, "eval_acc", 8, 100, {"seed": 3}), clock, 0, 4)
    trace = read_trace(path)
    assert trace.pass_rate.tolist() == pytest.approx([0.2, 0.22, 0.24])
    assert trace.metadata["n_gpus"] == 8
    assert trace.metadata["seed"] == 3
    assert trace.n_prompts is not None
    assert trace.n_prompts.tolist() == [100] * 3
    assert (trace.compute * 3600 / 8).tolist() == pytest.approx([0, 2 * STEP, 4 * STEP])
    hours = trace.columns["eval_gpu_hours"] * 3600 / 8
    assert hours.tolist() == pytest.approx([EVALUATION, 2 * EVALUATION, 3 * EVALUATION])
    rows = read_jsonl(path)[1]
    assert [row["kind"] for row in rows] == ["eval", "train", "train", "eval", "train", "train", "eval"]
    assert rows[1]["mean_length"] == 12


def test_a_resume_goes_on_from_the_checkpoint(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "trace.jsonl"
    drive(CallbackTrace(path, "eval_acc", None, None, {}), clock, 0, 6)
    drive(CallbackTrace(path, "eval_acc", None, None, {}), clock, 4, 8)
    trace = read_trace(path)
    assert trace.columns["step"].tolist() == [0, 2, 4, 6, 8]
    assert (trace.compute * 3600 / 4).tolist() == pytest.approx([step * STEP for step in (0, 2, 4, 6, 8)])
    discarded = [json.loads(line) for line in (tmp_path / "trace.discarded.jsonl").read_text().splitlines()]
    assert [row["step"] for row in discarded if row["kind"] == "eval"] == [6]


def test_a_resume_from_a_checkpoint_between_logged_steps_loses_no_hours(tmp_path: Path, clock: Clock) -> None:
    """Evaluated at every fourth step and saved at every third: the trace knew nothing of step 3."""
    path = tmp_path / "trace.jsonl"

    class Unlogged(CallbackTrace):
        def log(self, step: int, logs: Mapping[str, Any]) -> None:
            pass

    drive(Unlogged(path, "eval_acc", None, None, {}), clock, 0, 3, every=4, save=3)
    drive(CallbackTrace(path, "eval_acc", None, None, {}), clock, 3, 4, every=4)
    assert read_trace(path).compute[-1] * 3600 / 4 == pytest.approx(4 * STEP)


def test_a_resume_without_the_first_part_is_refused(tmp_path: Path) -> None:
    log = CallbackTrace(tmp_path / "trace.jsonl", "eval_acc", 1, None, {})
    with pytest.raises(TraceError, match=r"resumes at step 500, but there is no .*trace.jsonl: the compute before is"):
        log.begin(500, 1)
    log.begin(0, 1)
    log.end()
    with pytest.raises(TraceError, match="trace.jsonl"):
        log.begin(0, 1)


def test_a_training_that_was_interrupted_can_be_resumed_in_the_same_process(tmp_path: Path, clock: Clock) -> None:
    log = CallbackTrace(tmp_path / "trace.jsonl", "eval_acc", 1, None, {})
    log.begin(0, 1)
    log.evaluate(0, {"eval_acc": 0.2})
    log.saved(2)
    log.begin(2, 1)
    log.evaluate(2, {"eval_acc": 0.3})
    log.end()
    assert len(read_jsonl(tmp_path / "trace.jsonl")[1]) == 3


def test_an_unknown_metric_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    log = CallbackTrace(tmp_path / "trace.jsonl", "eval_accuracy", 1, None, {})
    log.begin(0, 1)
    log.check()
    log.evaluate(0, {"eval_acc": 0.5, "eval_loss": 1.0, "epoch": 1})
    with pytest.raises(TraceError, match=r"no metric 'eval_accuracy'; choose one of eval_acc, eval_loss"):
        log.check()
    log.end()


def test_of_several_evaluation_sets_the_one_with_the_metric_counts(tmp_path: Path) -> None:
    """A Trainer tells of each set on its own; the first that lacked the metric ended the training."""
    log = CallbackTrace(tmp_path / "trace.jsonl", "eval_math_acc", 1, None, {})
    log.begin(0, 1)
    for score in (0.1, 0.2):
        log.evaluate(0, {"eval_code_acc": 0.9})
        log.evaluate(0, {"eval_math_acc": score})
        log.check()
    log.end()
    assert [row["pass_rate"] for row in read_jsonl(tmp_path / "trace.jsonl")[1]] == [0.1, 0.2]


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
    callback.on_save(args, state, None)
    callback.on_train_end(args, state, None)
    assert read_trace(tmp_path / "trace.jsonl").pass_rate.tolist() == [0.1, 0.3]
    assert [row["kind"] for row in read_jsonl(tmp_path / "trace.jsonl")[1]] == ["eval", "train", "eval", "train"]


@pytest.mark.trl
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_real_run_of_trl(tmp_path: Path) -> None:
    """TRL's GRPOTrainer on a tiny Qwen2 with the options of a recipe: the trace is its evaluations."""
    import trl

    datasets = pytest.importorskip("datasets")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    from rlscaling.trainer.export.engines import export_recipe

    words = ["<end>", *"0123456789", "+", "="]
    plain = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<end>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<end>", pad_token="<end>")
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(
            vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=32, eos_token_id=0, pad_token_id=0, bos_token_id=None,
        )
    )  # fmt: skip
    data = datasets.Dataset.from_list([{"prompt": f"{i} + 1 =", "answer": str(i + 1)} for i in range(8)])

    def right(completions: list[str], answer: list[str], **_: Any) -> list[float]:
        return [float(text.split()[:1] == [want]) for text, want in zip(completions, answer, strict=True)]

    small = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 2,
             "num_generations": 4, "num_generations_eval": 2, "max_completion_length": 2, "eval_steps": 2,
             "per_device_eval_batch_size": 4}  # fmt: skip
    options = {**export_recipe("scalerl", "trl").options, **small, "cast_lm_head_to_fp32": False}
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path), max_steps=4, use_cpu=True, bf16=False, report_to=[], disable_tqdm=True,
        save_strategy="no", eval_on_start=True, logging_steps=1, **options,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model, right, args=arguments, train_dataset=data, eval_dataset=data, processing_class=tokenizer,
        callbacks=[trace_callback(tmp_path / "trace.jsonl", metric="eval_reward", n_gpus=4, n_prompts=8)],
    )  # fmt: skip
    trainer.train()
    trace = read_trace(tmp_path / "trace.jsonl")
    assert trace.columns["step"].tolist() == [0, 2, 4]
    assert trace.pass_rate.tolist() == [row["eval_reward"] for row in trainer.state.log_history if "eval_reward" in row]
    assert (trace.compute[1:] > trace.compute[:-1]).all()
    rows = [row for row in read_jsonl(tmp_path / "trace.jsonl")[1] if row["kind"] == "train"]
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert {"loss", "reward_mean", "mean_length", "truncation_rate"} <= set(rows[0])
