"""Each framework by its own metric names."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import log_files
from helpers.log_files import lines, receipt
from rlscaling import read_trace
from rlscaling.errors import TraceError
from rlscaling.readers.logs.frameworks import FRAMEWORKS, find, framework_of


def test_nemo_rl_recovers_gpus_and_takes_validation_out(tmp_path):
    rows = []
    for step in range(1, 21):
        seconds, tokens = 100.0 + (50 if step % 5 == 0 else 0), 1e6
        row = {"train/step": step, "timing/train/total_step_time": seconds, "train/global_valid_toks": tokens,
               "timing/train/valid_tokens_per_sec_per_gpu": tokens / (seconds * 16)}  # fmt: skip
        if step % 5 == 0:
            row |= {"validation/accuracy": 0.3 + step / 100, "timing/validation/total_validation_time": 50.0}
        rows.append(row)
    path = lines(tmp_path, rows)
    trace = read_trace(path)
    assert receipt(trace)["framework"] == "NeMo-RL"
    assert trace.metadata["n_gpus"] == 16
    assert trace.compute[-1] == pytest.approx(20 * 100 * 16 / 3600)
    assert read_trace(path, eval_time="include").compute[-1] == pytest.approx((20 * 100 + 4 * 50) * 16 / 3600)
    assert any("change 1619" in note for note in trace.notes)


def test_openrlhf_takes_gpus_from_the_configuration(tmp_path):
    rows = [{"train/global_step": i, "train/timing/step_total": 60.0, "train/reward": 0.1} for i in range(1, 11)]
    rows += [{"eval/global_step": i, "eval/eval_math_pass1": i / 20} for i in (5, 10)]
    path = lines(tmp_path, rows)
    with pytest.raises(TraceError, match="OpenRLHF logs do not hold the number of GPUs here; give it with n_gpus="):
        read_trace(path)
    assert read_trace(path, n_gpus=8).compute.tolist() == pytest.approx([5 * 8 / 60, 10 * 8 / 60])
    config = {"actor_num_nodes": 2, "actor_num_gpus_per_node": 8, "vllm_num_engines": 4, "vllm_tensor_parallel_size": 2}
    flat = [{"_step": n, **row} for n, row in enumerate(rows)]
    run = log_files.wandb_file(tmp_path, flat, config=config)
    assert read_trace(run).metadata["n_gpus"] == 24
    run = log_files.wandb_file(tmp_path, flat, config={**config, "colocate_all_models": True}, name="run-b.wandb")
    assert read_trace(run).metadata["n_gpus"] == 16


def test_prime_rl_by_the_clock_without_its_pauses(tmp_path):
    rows, time = [], 1.7e9
    for step in range(11):
        time += 120 + (50_000 if step == 6 else 0)
        rows.append({"step": step, "time": time, "progress/tokens": 1e5, "perf/throughput": 800.0,
                     "perf/throughput_per_gpu": 100.0})  # fmt: skip
        if step % 5 == 0:
            rows.append({"step": step, "time": time, "eval/aime/all/solver/avg@8": 0.2 + step / 50})
    path = lines(tmp_path, rows)
    with pytest.raises(TraceError, match=r"its rates imply 8 trainer GPUs; generators come on top"):
        read_trace(path)
    trace = read_trace(path, n_gpus=24)
    np.testing.assert_allclose(trace.compute, np.array([0, 600, 1080]) * 24 / 3600)
    assert receipt(trace)["assumed"]["pauses"].startswith("1, 13.9 hours")
    assert trace.columns["n_samples"].tolist() == [8, 8, 8]
    assert any("those of the trainers alone" in note for note in read_trace(path, n_gpus=8).notes)
    assert read_trace(path, n_gpus=1, gap=60_000).compute[-1] == pytest.approx((1200 + 50_000) / 3600)


def test_tinker_evaluates_before_the_update(tmp_path):
    rows = [
        {"step": i, "time/total": 36.0, "env/all/reward/total": 0.1, "env/all/total_ac_tokens": 10} for i in range(9)
    ]
    for i in (0, 4, 8):
        rows[i]["test/env/all/correct"] = 0.3 + i / 40
    path = lines(tmp_path, rows)
    assert read_trace(path, n_gpus=100).compute.tolist() == pytest.approx([0, 4, 8])
    assert read_trace(path, n_gpus=100, eval_before_update=False).compute.tolist() == pytest.approx([1, 5, 9])
    assert read_trace(path, compute_from="tokens").compute.tolist() == [0, 40, 80]
    with pytest.raises(TraceError, match="tinker logs do not hold the number of GPUs here.*or --compute-from tokens"):
        read_trace(path)


def test_areal_adds_its_phases(tmp_path):
    rows = [
        {"_step": i, "timeperf/rollout": 30.0, "timeperf/train_step": 6.0, "timeperf/eval": 9.0,
         "eval-rollout/reward": i / 40} for i in range(1, 5)
    ]  # fmt: skip
    trace = read_trace(lines(tmp_path, rows), n_gpus=100)
    assert trace.compute.tolist() == pytest.approx([1, 2, 3, 4])


@pytest.mark.parametrize(
    ("name", "row", "framework", "key"),
    [
        (
            "skyrl",
            {"trainer/global_step": 1, "timing/step": 9.0, "eval/all/avg_score": 0.5},
            "SkyRL",
            "eval/all/avg_score",
        ),
        (
            "slime",
            {"train/step": 1, "perf/step_time": 9.0, "perf/rollout_time": 3.0, "eval/aime": 0.5},
            "slime",
            "eval/aime",
        ),
        (
            "pipeline",
            {"stats/completed_steps": 1, "throughput/sec_per_step": 9.0, "actor/test_success_mean": 0.5},
            "PipelineRL",
            "actor/test_success_mean",
        ),
    ],
)
def test_names_of_other_frameworks(tmp_path, name, row, framework, key):
    step = next(iter(row))
    trace = read_trace(lines(tmp_path, [{**row, step: i} for i in range(1, 4)], f"{name}.jsonl"), n_gpus=400)
    assert receipt(trace)["framework"] == framework
    assert receipt(trace)["columns"]["pass rate"] == key
    assert trace.compute.tolist() == pytest.approx([1, 2, 3])


def test_every_framework_is_known_by_each_of_its_own_scores():
    """One key of each pattern of scores, as the framework writes it, and the marks of the others do not outvote it."""
    examples = {
        "verl": "val-core/m/acc/mean@16", "NeMo-RL": "validation/accuracy", "OpenRLHF": "eval/eval_m_pass1",
        "SkyRL": "eval/m/avg_score", "AReaL": "eval-rollout/reward", "PipelineRL": "actor/test_success_mean",
        "prime-rl": "eval/m/all/solver/avg@8", "tinker": "test/env/all/reward/total",
        "TRL": "eval_rewards/acc/mean",
    }  # fmt: skip
    for name, key in examples.items():
        (framework,) = [one for one in FRAMEWORKS if one.name == name]
        assert framework_of([key, "step"]) is framework
        assert find(framework.scores, [key]) == key
