"""Logs that the real loggers wrote, where the shared data are beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.log_files import receipt
from rlscaling import fit_trace, read_trace, read_traces
from rlscaling.errors import TraceError
from rlscaling.uncertainty.bootstrap import bootstrap

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "log_samples"
real = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared development data are not beside this checkout")


@real
@pytest.mark.parametrize("path", ["verl/proj/full.jsonl", "wandb/offline-run-20261130_024840-4mp43y3v"])
def test_real_600_step_runs(path):
    """Their truth: A 0.61, 12,792 GPU-hours without testing, 14,072 with it (the first; the second has other noise)."""
    trace = read_trace(SAMPLES / path)
    assert trace.compute[-1] == pytest.approx(12_792, rel=0.005)
    assert read_trace(SAMPLES / path, eval_time="include").compute[-1] == pytest.approx(14_072, rel=0.005)
    low, high = bootstrap(fit_trace(trace), n_resamples=200, rng=0).confidence_interval["A"]
    assert low < 0.61 < high


@real
def test_real_files_of_every_logger():
    assert read_trace(SAMPLES / "mlflow.db").compute[-1] == pytest.approx(1279.17, abs=0.01)
    assert read_trace(SAMPLES / "trackio").compute[-1] == pytest.approx(1279.17, abs=0.01)
    assert read_trace(SAMPLES / "tb_x").metadata["n_gpus"] == 256
    resumed = receipt(read_trace(SAMPLES / "tb_torch"))["assumed"]
    assert resumed["useful gpu-hours"] == pytest.approx(2975, abs=0.5)
    assert resumed["executed gpu-hours"] == pytest.approx(3812, abs=0.5)
    with pytest.raises(TraceError, match="begins at step 81: the 80 steps before it are not in it"):
        read_trace(SAMPLES / "verl/proj/exp.jsonl")
    with pytest.raises(TraceError, match="tinker logs do not hold the number of GPUs"):
        read_trace(SAMPLES / "tinker/metrics.jsonl")
    openrlhf = next((SAMPLES / "wandb").glob("*vw9q3z0w"))
    assert len(read_trace(openrlhf, n_gpus=256)) == 10
    replayed = next((SAMPLES / "wandb").glob("*3zr2qenn"))
    assert read_trace(replayed).columns["step"][-1] == 120
    with pytest.raises(TraceError, match=r"eval_rewards/accuracy/mean \(6 values, 0.03125 to 0.125\)"):
        read_traces(SAMPLES / "trl", n_gpus=2)
    sets = read_traces(SAMPLES / "trl", n_gpus=2, metric="eval_rewards/accuracy/mean")
    assert list(sets) == ["trl:a", "trl:b"]
    assert all(trace.columns["step"].tolist() == [4, 8, 12] for trace in sets.values())
