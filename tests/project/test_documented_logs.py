"""What docs/logs.md says is read, each with input of the shape that the framework or logger writes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from helpers import log_files
from rlscaling import read_trace, read_traces
from rlscaling.errors import TraceError
from rlscaling.readers.logs.frameworks import TRL, find

SCORE = log_files.SCORE
RAY = "\x1b[36m(PPOTrainer pid=4242)\x1b[0m "
GREEN, OFF = "\x1b[32m", "\x1b[0m"


def log(tmp_path, lines, name="out.log"):
    path = tmp_path / name
    path.write_text("\n".join(["loading weights", *lines, "done"]))
    return path


def test_openrlhf_prints_dicts_after_its_global_step(tmp_path):
    """openrlhf/trainer/ppo_trainer.py: the status of a step, then the metrics of an evaluation."""
    lines = []
    for step in range(1, 7):
        lines.append(
            f"{RAY}INFO 01-02 03:04:05 ppo_trainer.py:300] ✨ Global step {step}: {{'policy_loss': -0.01, 'kl': 1e-05, "
            f"'reward': 0.{step}, 'response_length': 812.5, 'timing/generation': 20.0, 'timing/step_total': 36.0}}"
        )
        if step % 3 == 0:
            lines.append(
                f"{RAY}INFO 01-02 03:04:09 ppo_trainer.py:400] ✨ Evaluation completed in 0:01:23, global_step {step}, "
                f"eval_metrics: {{'eval_gsm8k_pass1': 0.{step}5, 'eval_gsm8k_pass4': 0.9}}"
            )
    trace = read_trace(log(tmp_path, lines), n_gpus=100)
    assert trace.pass_rate.tolist() == [0.35, 0.65]
    assert trace.columns["step"].tolist() == [3, 6]
    assert trace.compute.tolist() == pytest.approx([3, 6])
    assert trace.metadata["framework"] == "OpenRLHF"
    assert trace.metadata["domain"] == "gsm8k"


def prime(step, seconds):
    return (
        f"12:00:00 {GREEN}SUCCESS{OFF} Step {step} | {seconds:>7} | Reward 0.5312 | Trainable 48/64 (75.0%) | "
        "Turns 1.0 | Branches 1.0 | Max Off-Policy 2 | Error 0.0% | Cancelled 1.6% | Truncation 12.5%\n"
        "\t\t ╰─ math | Ratio 50.0% | Reward 0.6000 | Turns 1.0"
    )


@pytest.mark.parametrize("named", ["(Step {})", "(Step {}) | Policy v{}", "| Policy v{}"])
def test_prime_rl_prints_durations_in_words(tmp_path, named):
    """orchestrator.py and utils.format_time: padded to 7 characters, ``2m 5s`` from a minute on."""
    durations = ["2m 5s", "36s", "1h 1m", "950ms"]
    lines = [prime(step, seconds) for step, seconds in enumerate(durations, start=1)]
    for step, score in ((2, 0.25), (4, 0.3125)):
        shown = f"Evaluated aime24 {named.format(step, step)} |  2m 40s | Reward {score:.4f} | Turns 1.0 | Error 0.0%"
        lines.insert(step + step // 4, f"12:00:01 {GREEN}SUCCESS{OFF} {shown}")
    trace = read_trace(log(tmp_path, lines), n_gpus=3600)
    assert trace.columns["step"].tolist() == [2, 4]
    assert trace.pass_rate.tolist() == [0.25, 0.3125]
    assert trace.compute.tolist() == pytest.approx([161, 161 + 3660 + 0.95])
    assert trace.columns["truncation_rate"].tolist() == [0.125, 0.125]
    assert (trace.metadata["framework"], trace.metadata["domain"]) == ("prime-rl", "aime24")


def test_prime_rl_of_2025_with_the_trainers_lines_among_them(tmp_path):
    """The evaluation's step stands in an earlier line; the trainer prints the same steps, with their loss."""
    lines = ["12:00:00 [INFO] Running evals for checkpoint step 0"]
    lines.append("12:00:40 [SUCCESS] Evaluated aime2024 in 35.21s (Avg@16=0.2000, Pass@1: 0.2000, Pass@8: 0.4)")
    for step in range(4):
        lines.append(f"12:01:00 [SUCCESS] Step {step} | Time: 36.00s | Reward: 0.5 | Throughput: 812.0 tokens/s")
        lines.append(f"12:01:00 [SUCCESS] Step {step} | Time: 30.00s | Loss: 0.0123 | Entropy: 0.31 | MFU: 30.1%")
    lines.append("12:02:00 [INFO] Running evals for checkpoint step 3")
    lines.append("12:02:30 [SUCCESS] Evaluated aime2024 in 35.21s (Avg@16=0.3000, Pass@1: 0.3000, Pass@8: 0.5)")
    trace = read_trace(log(tmp_path, lines), n_gpus=100)
    assert trace.columns["step"].tolist() == [0, 3]
    assert trace.pass_rate.tolist() == [0.2, 0.3]
    assert trace.columns["n_samples"].tolist() == [16, 16]
    assert trace.compute[-1] == pytest.approx(4)
    assert "resumes" not in trace.metadata["receipt"]["assumed"]


@pytest.mark.parametrize("at", ["@", "_at_", "_"])
def test_the_sign_before_a_count_in_every_spelling(tmp_path, at):
    """MLflow refuses ``@``, tensorboardX writes ``_``."""
    rows = [
        {"step": i, "time": 1.7e9 + 36 * i, f"eval/aime/all/solver/avg{at}8": i / 10, f"eval/aime/pass{at}4": 0.9}
        for i in range(4)
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = read_trace(path, n_gpus=100)
    assert trace.metadata["framework"] == "prime-rl"
    assert trace.columns["n_samples"].tolist() == [8] * 4
    slime = {"train/step": 1.0, "perf/rollout_time": 3.0, "eval/aime": 0.5, f"eval/aime-pass{at}4": 0.7}
    path.write_text("".join(json.dumps(slime | {"train/step": i, "perf/step_time": 1.0}) + "\n" for i in range(3)))
    assert read_trace(path, n_gpus=8).metadata["receipt"]["columns"]["pass rate"] == "eval/aime"
    table = tmp_path / "table.csv"
    table.write_text(f"gpu_hours,best{at}8,mean{at}8\n0,0.5,0.1\n1,0.6,0.2\n")
    assert read_trace(table).pass_rate.tolist() == [0.1, 0.2]


def test_torchtune_has_no_seconds_but_the_clock(tmp_path):
    rows = [{"step": i, "time": 1.7e9 + 36 * i, "num_stop_tokens": 4.0, "response_lengths": 80.0} for i in range(5)]
    rows += [{"step": i, "time": 1.7e9 + 36 * i, "eval/accuracy": i / 10} for i in (2, 4)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda row: row["time"])))
    trace = read_trace(path, n_gpus=100)
    assert trace.metadata["framework"] == "torchtune"
    assert trace.compute.tolist() == pytest.approx([2, 4])


def test_compute_in_flops_where_the_log_counts_them(tmp_path):
    rows = log_files.verl_rows(steps=20, every=10)
    for i, row in enumerate(rows):
        row["train/total_flos"] = 1e18 * i
    path = log_files.verl_file(tmp_path, rows)
    trace = read_trace(path, compute_from="flops")
    assert (trace.compute_unit, trace.compute.tolist()) == ("flops", [0, 1e19, 2e19])
    assert trace.metadata["receipt"]["columns"]["flops"] == "train/total_flos"


def test_the_parquet_of_a_wandb_history(tmp_path):
    """Missing metrics are NaN, counters are integers, media are objects."""
    rows = log_files.verl_rows(steps=40, every=10)
    frame = pd.DataFrame(rows)
    frame.insert(0, "_step", range(len(rows)))
    frame["_timestamp"] = 1.7e9 + 300.0 * frame["_step"]
    frame["samples"] = [{"_type": "table-file", "size": 10}] * len(rows)
    frame.to_parquet(tmp_path / "0000.parquet")
    trace = read_trace(tmp_path / "0000.parquet")
    clean = read_trace(log_files.verl_file(tmp_path, rows))
    np.testing.assert_allclose(trace.compute, clean.compute)
    np.testing.assert_allclose(trace.pass_rate, clean.pass_rate)
    assert trace.metadata["receipt"]["reader"] == "parquet"


def test_trackio_with_the_rows_of_its_write_ahead_log(tmp_path):
    """What a live run has not yet written into the file itself."""
    path = log_files.trackio(tmp_path, log_files.verl_rows(steps=20, every=10))
    live = log_files.sqlite3.connect(path)
    try:
        live.execute("PRAGMA journal_mode = WAL")
        live.execute("PRAGMA wal_autocheckpoint = 0")
        row = {SCORE: 0.9, "training/global_step": 30}
        live.execute(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES ('u1', ?, 'first', 30, ?)",
            ("2026-11-30T03:00:00+00:00", json.dumps(row)),
        )
        live.commit()
        assert (tmp_path / "project.db-wal").stat().st_size > 0
        assert read_trace(path, compute_from="steps").pass_rate.tolist() == [0.25, 0.26, 0.27, 0.9]
    finally:
        live.close()


def test_runs_of_one_store_are_told_apart(tmp_path):
    path = log_files.mlflow_db(tmp_path, log_files.verl_rows(steps=20, every=10))
    with log_files.sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO runs VALUES ('u2', 'second', 'active')")
        connection.execute("INSERT INTO metrics SELECT key, value, timestamp, 'u2', step, is_nan FROM metrics")
    connection.close()
    assert list(read_traces(path)) == ["mlflow:first", "mlflow:second"]
    assert read_trace(path, run="second").metadata["run"] == "second"
    with pytest.raises(TraceError, match="there is no run 'third'; there are first, second"):
        read_trace(path, run="third")


def test_the_callback_and_the_reader_give_trl_metrics_the_same_names():
    from rlscaling.traces.trainer_callback import LOGGED

    for theirs, ours in LOGGED.items():
        assert [name for name, pattern in TRL.columns if find((pattern,), [theirs])] == [ours]


def test_nemo_rl_prints_steps_of_an_epoch(tmp_path):
    trace = read_trace(log_files.nemo_console(tmp_path / "driver.log", rates=True))
    assert trace.metadata["receipt"]["framework"] == "NeMo-RL"
    assert trace.metadata["n_gpus"] == 16  # 17176 tokens a second of all, 1073.5 of each
    assert trace.columns["step"].tolist() == [0, 5, 10, 15, 20]
    np.testing.assert_allclose(trace.pass_rate, [0.2, 0.25, 0.3, 0.35, 0.4])
    np.testing.assert_allclose(trace.compute, np.array([0, 5, 10, 15, 20]) * 100 * 16 / 3600)


def test_nemo_rl_without_rates_needs_the_gpus_and_a_resumed_run_its_beginning(tmp_path):
    path = log_files.nemo_console(tmp_path / "driver.log", rates=False)
    with pytest.raises(TraceError, match="NeMo-RL logs do not hold the number of GPUs"):
        read_trace(path)
    assert read_trace(path, n_gpus=8, eval_time="include").compute[-1] == pytest.approx((2000 + 4 * 50) * 8 / 3600)
    late = log_files.nemo_console(tmp_path / "late.log", rates=True, first=13)
    with pytest.raises(TraceError, match="begins at step 13: the 12 steps before it are not in it"):
        read_trace(late)
