"""Whole runs of a few steps: every axis, the schedules, the replay, accumulation, and what a run leaves."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from rlscaling import fit_trace, read_trace, read_traces
from rlscaling.journal import read_jsonl
from rlscaling.trainer import TrainConfig, TrainError, TrainResult, make_config, train
from rlscaling.trainer.cache import KVCache
from rlscaling.trainer.checkpoint import RunFolder
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.loop import update
from rlscaling.trainer.rollout import Group, Rollout, collate
from rlscaling.trainer.run import Run
from rlscaling.trainer.warmup import supervised_warmup
from small_runs import SMALL

THINKING = {
    "task": "addition",
    "n_digits": 2,
    "thinking_budget": 8,
    "warmup_steps": 40,
    "warmup_lr": 5e-3,
    "rope_theta": 1e4,
}


def small(recipe: str = "scalerl", **changes: Any) -> TrainConfig:
    return make_config(recipe, **{**SMALL, "eval_samples": 2, "eval_every": 2, "steps": 3, **changes})


def of_kind(result: TrainResult, kind: str) -> list[dict[str, Any]]:
    return [row for row in result.rows if row["kind"] == kind]


def repeatable(result: TrainResult) -> list[dict[str, Any]]:
    measured = ("wall_time", "compute", "eval_gpu_hours")
    return [
        {key: value for key, value in row.items() if key not in measured and not key.startswith("seconds_")}
        for row in result.rows
    ]


# --- a run and its trace --------------------------------------------------------------------------------


def test_trace_of_a_run_can_be_fitted(tmp_path: Path) -> None:
    result = train(small(steps=24), tmp_path)
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
    assert TrainConfig(**{k: tuple(v) if isinstance(v, list) else v for k, v in header["config"].items()}) == small(
        steps=24
    )
    assert [row["step"] for row in rows if row["kind"] == "train"] == list(range(1, 25))


def test_same_seed_same_rows_and_other_seed_other_rows() -> None:
    assert repeatable(train(small())) == repeatable(train(small()))
    assert repeatable(train(small())) != repeatable(train(small(seed=1)))


def test_compute_leaves_evaluation_and_warmup_out() -> None:
    row = train(small()).rows[-1]
    hours = (row["seconds_generate"] + row["seconds_train"]) / 3600
    assert row["compute"] == pytest.approx(hours)
    assert row["eval_gpu_hours"] == pytest.approx(row["seconds_evaluate"] / 3600)
    assert row["seconds_warmup"] > 0


def test_two_tasks_are_two_domains(tmp_path: Path) -> None:
    result = train(small(task="sort+modular", n_train_prompts=60), tmp_path)
    assert {row["domain"] for row in of_kind(result, "eval")} == {"sort", "modular"}
    assert len(read_traces(tmp_path / "trace.jsonl")) == 2


# --- every axis of the paper's table --------------------------------------------------------------------

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
    {**THINKING, "length_control": "interruption"},
    {**THINKING, "length_control": "penalty"},
    {**THINKING, "length_control": "none"},
]


@pytest.mark.parametrize("changes", AXES, ids=lambda changes: "-".join(str(v) for v in list(changes.values())[:1]))
def test_every_choice_runs(changes: dict[str, Any]) -> None:
    result = train(small(**changes))
    rows = of_kind(result, "train")
    assert len(rows) == 3
    assert all(row["grad_norm"] >= 0 for row in rows)
    assert any(row["effective_batch"] > 0 for row in rows)


def test_interruption_ends_long_thinking() -> None:
    rows = of_kind(
        train(small(**{**THINKING, "warmup_steps": 5, "rope_theta": 100.0}, length_control="interruption")), "train"
    )
    assert max(row["interruption_rate"] for row in rows) > 0.3
    free = of_kind(train(small(**{**THINKING, "warmup_steps": 5, "rope_theta": 100.0}, length_control="none")), "train")
    assert max(row["interruption_rate"] for row in free) == 0
    assert max(row["truncation_rate"] for row in free) > max(row["truncation_rate"] for row in rows)


# --- schedules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, THINKING], ids=["sort", "thinking"])
def test_pipeline_0_is_ppo_off_policy_1_bit_for_bit(changes: dict[str, Any]) -> None:
    pipeline = train(small(**changes, schedule="pipeline", k=0, steps=4))
    ppo = train(small(**changes, schedule="ppo-off-policy", k=1, steps=4))
    assert repeatable(pipeline) == repeatable(ppo)
    assert all(row["lag_max"] in (0, None) for row in of_kind(pipeline, "train"))


def test_first_step_is_on_policy() -> None:
    first = of_kind(train(small(steps=1)), "train")[0]
    assert first["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert first["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert first["clip_fraction"] == 0
    assert 0 <= first["mismatch"] < 1e-5


def test_default_recipe_has_a_small_lag() -> None:
    rows = of_kind(train(small(steps=12)), "train")
    lags = [row["lag_mean"] for row in rows if row["lag_mean"] is not None]
    assert sum(lags) / len(lags) <= 2


def test_lag_never_exceeds_k() -> None:
    rows = of_kind(train(small(steps=16, k=4, clock_update_token=9.0)), "train")
    lags = [row["lag_max"] for row in rows if row["lag_max"] is not None]
    assert max(lags) == 4


def test_bf16_head_has_a_larger_mismatch_than_fp32() -> None:
    fp32, bf16 = (train(small(steps=1, head_dtype=dtype)).rows[0]["mismatch"] for dtype in ("fp32", "bf16"))
    assert fp32 < 1e-5
    assert bf16 >= 0  # both sides round alike here; kernels that differ would show


def scored(group: Group, right: tuple[float, float] = (1.0, 0.0)) -> Group:
    """The group with other marks: `right` for even and odd samples."""
    marks = [(right[rollout.sample % 2], rollout) for rollout in group.rollouts]
    rollouts = tuple(dataclasses.replace(r, correct=mark, reward=2 * mark - 1) for mark, r in marks)
    return Group(group.index, group.prompt, rollouts)


def driven(config: TrainConfig, steps: int) -> tuple[Run, list[dict[str, Any]], list[list[Group]]]:
    """Run some steps and keep the weights of every version and the groups of every update.

    Every other completion is called right, so that each update changes the weights.
    """
    run = Run(config)
    run.folder = RunFolder(None, {})
    supervised_warmup(run.model, run.task, config)
    run.optimizer.adopt()
    weights, batches = [], []
    for _ in range(steps):
        weights.append(copy.deepcopy(run.model.state_dict()))
        batches.append([scored(group) for group in run.cluster.next_batch(run.model)])
        update(run, batches[-1])
        run.cluster.pushed()
    return run, weights, batches


@torch.no_grad()
def replayed(run: Run, weights: list[dict[str, Any]], rollout: Rollout) -> list[float]:
    """Sample the rollout again: each token from the weights of its version, on the cache that older ones left."""
    cache = KVCache(run.model.spec, 1)
    read, logp = torch.tensor([rollout.prompt.ids]), []
    for token, version in zip(rollout.tokens, rollout.version, strict=True):
        run.model.load_state_dict(weights[int(version)])
        hidden = run.model(read, cache=cache)[:, -1]
        logp.append(float(ops.token_logprobs(run.model.logits(hidden), torch.tensor([int(token)]), 1.0)[0]))
        read = torch.tensor([[int(token)]])
    return logp


@pytest.mark.parametrize("changes", [{"n_digits": 5}, {**THINKING, "length_control": "interruption"}])
def test_replay_through_the_recorded_versions_and_the_stale_cache(changes: dict[str, Any]) -> None:
    config = small(**changes, lr=1e-2, k=3, clock_update_token=0.02)
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


# --- one update -----------------------------------------------------------------------------------------


def weights_after(config: TrainConfig, **changes: Any) -> tuple[dict[str, Any], torch.Tensor]:
    run = Run(config)
    run.folder = RunFolder(None, {})
    supervised_warmup(run.model, run.task, config)
    groups = run.cluster.next_batch(run.model)
    run.config = dataclasses.replace(config, **changes)
    grads: list[torch.Tensor] = []
    real = run.optimizer.step

    def step() -> float:
        grads.append(torch.cat([p.grad.flatten() for p in run.optimizer.masters if p.grad is not None]))
        return real()

    run.optimizer.step = step  # type: ignore[method-assign]
    return update(run, groups), grads[0]


@pytest.mark.parametrize("loss", ["cispo", "dapo", "gspo"])
def test_micro_batches_give_the_gradient_of_the_batch(loss: str) -> None:
    config = small(loss=loss, clip_low=0.0 if loss == "cispo" else 0.1, clip_high=4.0 if loss == "cispo" else 0.1)
    row, whole = weights_after(config)
    micro_row, parts = weights_after(config, micro_batch=4)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-7)
    assert micro_row == pytest.approx(row, rel=1e-4, abs=1e-6)


def test_memory_grows_with_the_micro_batch_and_not_with_the_batch() -> None:
    def saved_bytes(prompts: int, micro: int) -> int:
        run, live, peak = Run(small(prompts_per_step=prompts, micro_batch=micro, zero_variance="keep")), 0, 0
        run.folder = RunFolder(None, {})

        class Kept:
            def __init__(self, value: torch.Tensor) -> None:
                nonlocal live, peak
                self.value, self.size = value, value.numel() * value.element_size()
                live += self.size
                peak = max(peak, live)

            def __del__(self) -> None:
                nonlocal live
                live -= self.size

        groups = run.cluster.next_batch(run.model)
        with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.value):
            update(run, groups)
        return peak

    assert saved_bytes(24, 8) == pytest.approx(saved_bytes(6, 8), rel=0.1)
    assert saved_bytes(24, 32) > 3 * saved_bytes(24, 8)


def test_a_batch_that_teaches_nothing_changes_no_weight() -> None:
    config = small(warmup_steps=0, weight_decay=0.1)
    run = Run(config)
    run.folder = RunFolder(None, {})
    before = copy.deepcopy(run.model.state_dict())
    groups = run.cluster.next_batch(run.model)
    row = update(run, [scored(group, (0.0, 0.0)) for group in groups])
    assert (row["effective_batch"], row["loss"], row["lag_mean"]) == (0, 0.0, None)
    assert all(torch.equal(before[name], value) for name, value in run.model.state_dict().items())


def test_mastered_task_stops_with_a_reason() -> None:
    result = train(small(task="sort", npr_threshold=0.01, steps=60, eval_every=7))
    assert "prompts left, fewer than the 6 of one update" in result.stopped
    assert result.steps < 60
    assert of_kind(result, "eval")[-1]["step"] == result.steps


def test_resuming_a_stopped_run_adds_no_second_evaluation(tmp_path: Path) -> None:
    config = small(task="sort", npr_threshold=0.01, steps=60, eval_every=7, checkpoint_every=1)
    first, again = train(config, tmp_path), train(config, tmp_path, resume=True)
    assert first.stopped == again.stopped
    assert repeatable(first) == repeatable(again)


def test_exploding_rate_stops_the_run() -> None:
    with pytest.raises(TrainError, match=r"(loss|gradient norm) of step \d+ is (nan|inf): .* there is no checkpoint"):
        train(small(lr=1e30, lr_warmup=0, grad_clip=0.0, steps=30, zero_variance="keep"))


def test_collate_pads_and_masks() -> None:
    run = Run(small(**THINKING, length_control="interruption"))
    groups = run.cluster.next_batch(run.model)
    batch = collate(groups, run.task.pad_id)
    for i, rollout in enumerate(rollout for group in groups for rollout in group.rollouts):
        n = len(rollout.tokens)
        assert batch.tokens[i, :n].tolist() == list(rollout.tokens)
        assert (batch.tokens[i, n:] == run.task.pad_id).all()
        assert batch.mask[i, :n].tolist() == list(rollout.sampled)
        assert not batch.mask[i, n:].any()
        assert (batch.version[i, n:] == -1).all()
        assert int(batch.length[i]) == rollout.length
