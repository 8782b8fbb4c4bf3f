"""Whole runs of a few steps: every axis, the schedules, the replay, text, and what a run leaves."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.small_runs import SHORT_THINKING, scored, short_config
from helpers.text_runs import WARMED, config_of
from helpers.tiny_checkpoints import edit_config, word_problems
from rlscaling import fit_trace, read_trace, read_traces
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.trainer import TrainConfig, TrainError, TrainResult, make_config, train
from rlscaling.trainer.generation.kv_cache import KVCache
from rlscaling.trainer.generation.rollout import Group, Rollout
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.model.hf_weights import load_model
from rlscaling.trainer.tasks.text import TextTask
from rlscaling.trainer.training.checkpoint import RunFolder
from rlscaling.trainer.training.run_state import RunState
from rlscaling.trainer.training.update import update
from rlscaling.trainer.training.warmup import supervised_warmup


def of_kind(result: TrainResult, kind: str) -> list[dict[str, Any]]:
    return [row for row in result.rows if row["kind"] == kind]


def repeatable(result: TrainResult) -> list[dict[str, Any]]:
    measured = ("wall_time", "compute", "eval_gpu_hours")
    return [
        {key: value for key, value in row.items() if key not in measured and not key.startswith("seconds_")}
        for row in result.rows
    ]


def test_trace_of_a_run_can_be_fitted(tmp_path: Path) -> None:
    result = train(short_config(steps=24), tmp_path)
    assert result.trace_path == tmp_path / "trace.jsonl"
    trace = read_trace(result.trace_path)
    assert trace.compute_unit == "device-hours"
    assert list(trace.columns["step"]) == list(range(0, 25, 2))
    assert list(trace.pass_rate) == list(result.pass_rates.values())
    fit_trace(trace, min_compute=0)
    header, rows, _ = read_jsonl(result.trace_path)
    assert header["recipe"] == "scalerl"
    assert header["first_epoch_end"] == 10  # 60 prompts, 6 a step
    assert header["ceilings"]["hidden-sort"] == pytest.approx(0.6 + 0.4 * 0.1)
    assert TrainConfig(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in header["config"].items()}
    ) == short_config(steps=24)
    assert [row["step"] for row in rows if row["kind"] == "train"] == list(range(1, 25))


def test_same_seed_same_rows_and_other_seed_other_rows() -> None:
    assert repeatable(train(short_config())) == repeatable(train(short_config()))
    assert repeatable(train(short_config())) != repeatable(train(short_config(seed=1)))


def test_compute_leaves_evaluation_and_warmup_out() -> None:
    row = train(short_config()).rows[-1]
    hours = (row["seconds_generate"] + row["seconds_train"]) / 3600
    assert row["compute"] == pytest.approx(hours)
    assert row["eval_gpu_hours"] == pytest.approx(row["seconds_evaluate"] / 3600)
    assert row["seconds_warmup"] > 0


def test_two_tasks_are_two_domains(tmp_path: Path) -> None:
    result = train(short_config(task="sort+modular", n_train_prompts=60), tmp_path)
    assert {row["domain"] for row in of_kind(result, "eval")} == {"sort", "modular"}
    assert len(read_traces(tmp_path / "trace.jsonl")) == 2


AXES: list[dict[str, Any]] = [
    {"schedule": "ppo-off-policy", "k": 2},
    {"loss": "dapo", "clip_low": 0.2, "clip_high": 0.26},
    {"loss": "grpo", "clip_low": 0.2, "clip_high": 0.2},
    {"loss": "gspo", "clip_low": 3e-3, "clip_high": 4e-3},
    {"loss": "reinforce"},
    {"aggregation": "sample"},
    {"aggregation": "token"},
    {"advantage_norm": "prompt"},
    {"advantage_norm": "none"},
    {"zero_variance": "keep"},
    {"curriculum": "uniform"},
    {"head_dtype": "bf16"},
    {"dtype": "bf16"},
    {"n_experts": 4},
    {"tied_head": True},
    {**SHORT_THINKING, "length_control": "interruption"},
    {**SHORT_THINKING, "length_control": "penalty"},
    {**SHORT_THINKING, "length_control": "none"},
]


@pytest.mark.parametrize("changes", AXES, ids=lambda changes: "-".join(str(v) for v in list(changes.values())[:1]))
def test_every_choice_runs(changes: dict[str, Any]) -> None:
    result = train(short_config(**changes))
    rows = of_kind(result, "train")
    assert len(rows) == 3
    assert all(row["grad_norm"] >= 0 for row in rows)
    assert any(row["effective_batch"] > 0 for row in rows)


def test_interruption_ends_long_thinking() -> None:
    rows = of_kind(
        train(
            short_config(**{**SHORT_THINKING, "warmup_steps": 5, "rope_theta": 100.0}, length_control="interruption")
        ),
        "train",
    )
    assert max(row["interruption_rate"] for row in rows) > 0.3
    free = of_kind(
        train(short_config(**{**SHORT_THINKING, "warmup_steps": 5, "rope_theta": 100.0}, length_control="none")),
        "train",
    )
    assert max(row["interruption_rate"] for row in free) == 0
    assert max(row["truncation_rate"] for row in free) > max(row["truncation_rate"] for row in rows)


@pytest.mark.parametrize("changes", [{}, SHORT_THINKING], ids=["sort", "thinking"])
def test_pipeline_0_is_ppo_off_policy_1_bit_for_bit(changes: dict[str, Any]) -> None:
    pipeline = train(short_config(**changes, schedule="pipeline", k=0, steps=4))
    ppo = train(short_config(**changes, schedule="ppo-off-policy", k=1, steps=4))
    assert repeatable(pipeline) == repeatable(ppo)
    assert all(row["lag_max"] in (0, None) for row in of_kind(pipeline, "train"))


def test_first_step_is_on_policy() -> None:
    first = of_kind(train(short_config(steps=1)), "train")[0]
    assert first["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert first["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert first["clip_fraction"] == 0
    assert 0 <= first["mismatch"] < 1e-5


def test_default_recipe_has_a_small_lag() -> None:
    rows = of_kind(train(short_config(steps=12)), "train")
    lags = [row["lag_mean"] for row in rows if row["lag_mean"] is not None]
    assert sum(lags) / len(lags) <= 2


def test_lag_never_exceeds_k() -> None:
    rows = of_kind(train(short_config(steps=16, k=4, clock_update_token=9.0)), "train")
    lags = [row["lag_max"] for row in rows if row["lag_max"] is not None]
    assert max(lags) == 4


def test_bf16_head_has_a_larger_mismatch_than_fp32() -> None:
    fp32, bf16 = (train(short_config(steps=1, head_dtype=dtype)).rows[0]["mismatch"] for dtype in ("fp32", "bf16"))
    assert fp32 < 1e-5
    assert bf16 >= 0  # both sides round alike here; kernels that differ would show


def driven(config: TrainConfig, steps: int) -> tuple[RunState, list[dict[str, Any]], list[list[Group]]]:
    """Run some steps and keep the weights of every version and the groups of every update.

    Every other completion is called right, so that each update changes the weights.
    """
    run = RunState.new(config)
    run.learner.folder = RunFolder(None, {})
    supervised_warmup(run.learner.model, run.learner.task, config)
    run.learner.optimizer.adopt()
    weights, batches = [], []
    for _ in range(steps):
        weights.append(copy.deepcopy(run.learner.model.state_dict()))
        batches.append([scored(group) for group in run.cluster.next_batch(run.learner.model)])
        update(run.learner, batches[-1])
        run.cluster.pushed()
    return run, weights, batches


@torch.no_grad()
def replayed(run: RunState, weights: list[dict[str, Any]], rollout: Rollout) -> list[float]:
    """Sample the rollout again: each token from the weights of its version, on the cache that older ones left."""
    cache = KVCache(run.learner.model.spec, 1)
    read, logp = torch.tensor([rollout.prompt.ids]), []
    for token, version in zip(rollout.tokens, rollout.version, strict=True):
        run.learner.model.load_state_dict(weights[int(version)])
        hidden = run.learner.model(read, cache=cache)[:, -1]
        logp.append(float(ops.token_logprobs(run.learner.model.logits(hidden), torch.tensor([int(token)]), 1.0)[0]))
        read = torch.tensor([[int(token)]])
    return logp


@pytest.mark.parametrize("changes", [{"n_digits": 5}, {**SHORT_THINKING, "length_control": "interruption"}])
def test_replay_through_the_recorded_versions_and_the_stale_cache(changes: dict[str, Any]) -> None:
    config = short_config(**changes, lr=1e-2, k=3, clock_update_token=0.02)
    run, weights, batches = driven(config, 6)
    rollouts = [rollout for batch in batches for group in batch for rollout in group.rollouts]
    mixed = [rollout for rollout in rollouts if len(set(rollout.version.tolist())) > 1]
    assert len(mixed) > 10
    for rollout in mixed[:20]:
        again = torch.tensor(replayed(run, weights, rollout))
        sampled = torch.as_tensor(rollout.sampled)
        torch.testing.assert_close(again[sampled], torch.as_tensor(rollout.logp)[sampled], rtol=1e-4, atol=1e-5)
    # with the cache of one version alone it does not fit: the replay above tests something
    rollout = mixed[-1]
    last = [weights[int(rollout.version[-1])]] * len(weights)
    gap = torch.tensor(replayed(run, last, rollout)) - torch.as_tensor(rollout.logp)
    assert gap[torch.as_tensor(rollout.sampled)].abs().max() > 1e-3


def test_mastered_task_stops_with_a_reason() -> None:
    result = train(short_config(task="sort", npr_threshold=0.01, steps=60, eval_every=7))
    assert "prompts left, fewer than the 6 of one update" in result.stopped
    assert result.steps < 60
    assert of_kind(result, "eval")[-1]["step"] == result.steps


def test_resuming_a_stopped_run_adds_no_second_evaluation(tmp_path: Path) -> None:
    config = short_config(task="sort", npr_threshold=0.01, steps=60, eval_every=7, checkpoint_every=1)
    first, again = train(config, tmp_path), train(config, tmp_path, resume=True)
    assert first.stopped == again.stopped
    assert repeatable(first) == repeatable(again)


def test_exploding_rate_stops_the_run() -> None:
    with pytest.raises(TrainError, match=r"(loss|gradient norm) of step \d+ is (nan|inf): .* there is no checkpoint"):
        train(short_config(lr=1e30, lr_warmup=0, grad_clip=0.0, steps=30, zero_variance="keep"))


@pytest.mark.parametrize(
    "recipe",
    [pytest.param("gspo", marks=pytest.mark.slow), pytest.param("dapo", marks=pytest.mark.slow), "loo-lp"],
)
def test_other_recipes_train_on_text(recipe: str, folder: Path) -> None:
    changes: dict[str, Any] = {"k": 1} if recipe == "dapo" else {}
    config = config_of(folder, recipe=recipe, steps=2, warmup_steps=100, warmup_lr=5e-3, eval_every=2, **changes)
    result = train(config)
    assert result.steps == 2
    last = {row["domain"]: row["pass_rate"] for row in result.rows if row["kind"] == "eval"}
    assert set(last) == {"words", "harder"}
    assert result.pass_rates[2] == last["words"], "a downstream set is no part of the held-out pass rate"


@pytest.mark.slow
def test_word_problems_are_learnt(tmp_path: Path) -> None:
    """Reinforcement learning raises the pass rate on problems that were never seen, two standard errors apart."""
    word_problems().write_all(tmp_path, 1000)
    settings = {**WARMED, "warmup_steps": 170, "prompts_per_step": 32, "eval_prompts": 80, "eval_every": 8}
    result = train(config_of(tmp_path, steps=48, **settings))
    rows = [row for row in result.rows if row["kind"] == "eval" and row["domain"] == "words"]
    first, last = rows[0], rows[-3:]
    rise = sum(row["pass_rate"] for row in last) / 3 - first["pass_rate"]
    assert rise > 2 * (first["pass_rate_se"] ** 2 + last[0]["pass_rate_se"] ** 2 / 3) ** 0.5


def test_saving_is_refused_before_training(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="save_model='x' without model_path"):
        train(make_config(steps=1), save_model="x")
    with pytest.raises(TrainError, match="exists and is not empty"):
        train(config_of(folder), tmp_path / "run", save_model=folder)
    assert not (tmp_path / "run").exists()


def test_what_would_fail_at_the_end_is_refused_at_the_start(folder: Path, tmp_path: Path) -> None:
    config = config_of(folder, steps=1)
    with pytest.raises(TrainError, match="is the folder of the run itself"):
        train(config, tmp_path / "run", save_model=tmp_path / "run")
    (tmp_path / "file").write_text("x")
    with pytest.raises(TrainError, match="is no folder that can be written to"):
        train(config, tmp_path / "run", save_model=tmp_path / "file" / "model")
    if not torch.cuda.is_available():
        with pytest.raises(TrainError, match="device='cuda': this torch (is a CPU build|finds no GPU)"):
            train(config_of(folder, device="cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(TrainError, match="all of its problems stand in another data set as well"):
        TextTask(config_of(folder, downstream=f"again={folder / 'train.jsonl'}"))
    model = tmp_path / "tall"
    shutil.copytree(folder / "tiny-qwen2", model)
    edit_config(model, num_hidden_layers=10**9)
    with pytest.raises(TrainError, match=r"num_hidden_layers is 1000000000, but weights of \d layers are there"):
        load_model(model, 64)
