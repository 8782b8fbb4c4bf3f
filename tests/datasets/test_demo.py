"""Tests of `rlscaling/datasets/demo.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from rlscaling.datasets import load_demo, table1

ROOT = Path(__file__).parents[2]


def test_demo_traces():
    demo = load_demo()
    assert set(demo) == {"scalerl", "scalerl-8k", "batch-512", "batch-2048"}
    ends = {"scalerl": 16_000, "scalerl-8k": 8_000, "batch-512": 16_000, "batch-2048": 50_000}
    for name, trace in demo.items():
        assert trace.name == name
        assert trace.compute[0] == 0
        assert 0 <= ends[name] - trace.compute[-1] < np.diff(trace.compute)[-1] + 0.1
        assert trace.notes == ()
        assert trace.metadata["simulated"] is True
        assert trace.metadata["true_params"]["A"] == table1()[trace.metadata["table1_row"]].A
        assert isinstance(trace.metadata["seed"], int)
    half = demo["scalerl"].up_to(8000)
    assert demo["scalerl-8k"].pass_rate.tolist() == half.pass_rate.tolist()
    assert demo["scalerl-8k"].compute.tolist() == half.compute.tolist()
    assert sum(file.stat().st_size for file in (ROOT / "src/rlscaling/datasets/data").rglob("*.jsonl")) < 100_000


def test_demo_runs_are_evaluated_as_often_as_those_of_the_paper():
    # [ScaleRL, A.5, A.7]: every 100 steps; 1,000 steps of batch 768 take about 1,500 GPU-hours, 7,400 of 2048 100,000
    demo = load_demo()
    for name, spacing in (("scalerl", 1500 / 10), ("scalerl-8k", 1500 / 10), ("batch-2048", 100_000 / 74)):
        np.testing.assert_allclose(np.diff(demo[name].compute), spacing, rtol=1e-3)
        np.testing.assert_array_equal(np.diff(demo[name].columns["step"]), 100)
    assert np.sum(demo["batch-2048"].compute >= 1500) == 36
    for trace in demo.values():
        assert trace.pass_rate_se.min() > 0.0019
        assert trace.pass_rate_se.max() < 0.0023


def test_demo_traces_are_what_the_tool_makes(tmp_path):
    spec = importlib.util.spec_from_file_location("make_demo_traces", ROOT / "tools" / "make_demo_traces.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    tool.main(tmp_path)
    for name, trace in load_demo().items():
        made = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        assert len(made) == len(trace) + 1
        # another processor may round the last digit of an exponential the other way: one count of 16,000
        again = tool.demo_run(trace.metadata["table1_row"]).pass_rate[: len(trace)]
        np.testing.assert_allclose(again, trace.pass_rate, atol=1.01 / 16_000)
