"""Traces in verl's words: read back by the reader of verl's logs, they say what the trace says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers import small_runs
from rlscaling import read_trace, read_traces
from rlscaling.cli import main
from rlscaling.traces.schema import VERL_NAMES
from rlscaling.trainer import TrainError, export_log, make_config, train
from rlscaling.trainer.export.verl_log import verl_rows

SMALL = {**small_runs.SMALL, "eval_samples": 2, "eval_every": 2, "steps": 6}


@pytest.mark.parametrize("task", ["hidden-sort", "sort+modular"])
def test_a_run_says_the_same_in_verls_words(tmp_path: Path, task: str) -> None:
    digits = {} if task == "hidden-sort" else {"n_digits": 4}
    result = train(make_config("scalerl", **{**SMALL, **digits, "task": task}), tmp_path / "run")
    n_lines = export_log(result.trace_path, tmp_path / "verl.jsonl")
    assert n_lines == 7
    ours = read_traces(result.trace_path)
    theirs = read_traces(tmp_path / "verl.jsonl", metric="val-core/*", missing_start="estimate")
    assert len(ours) == len(theirs)
    for mine, verl in zip(ours.values(), theirs.values(), strict=True):
        np.testing.assert_allclose(verl.compute, mine.compute, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(verl.pass_rate, mine.pass_rate)
        assert verl.metadata["framework"] == "verl"
        assert verl.metadata["n_gpus"] == 1
        trained = {row["step"]: row for row in result.rows if row["kind"] == "train"}
        # in verl those of the training step
        expected = [trained[step]["mean_length"] for step in verl.columns["step"][1:]]
        np.testing.assert_array_equal(verl.columns["mean_length"][1:], expected)


def test_names_of_the_log_are_those_that_are_documented() -> None:
    header = {"compute_column": "compute_gpu_hours", "n_devices": 8}
    cost = {"compute_gpu_hours": 2.0, "eval_gpu_hours": 1.6, "step": 1}
    rows = [
        {"kind": "eval", "step": 0, "eval_gpu_hours": 0.8, "pass_rate": 0.2, "domain": "a/b", "n_samples": 4},
        {"kind": "train", **cost, "tokens_generated": 7200, "entropy": 0.5, "loss": -1},
        {"kind": "eval", **cost, "pass_rate": 0.3, "domain": "a/b", "n_samples": 4},
        {"kind": "eval", **cost, "pass_rate": 0.4, "domain": "c", "n_samples": 4},
    ]
    (first, before), (second, after) = verl_rows(header, rows)
    assert (first, second) == (0, 1)
    assert before == {"val-core/a/b/acc/mean@4": 0.2, "timing_s/testing": pytest.approx(360.0)}
    assert after["timing_s/step"] == 2.0 * 3600 / 8
    assert after["timing_s/testing"] == pytest.approx(0.8 * 3600 / 8)
    assert after["perf/throughput"] == 7200 / (900 * 8)
    assert (after["val-core/a/b/acc/mean@4"], after["val-core/c/acc/mean@4"]) == (0.3, 0.4)
    documented = {metric for metric, _ in VERL_NAMES.values()} | {"timing_s/step", "perf/total_num_tokens"}
    assert {name for name in after if not name.startswith("val-core")} <= documented


def test_what_cannot_be_exported_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    head = {"kind": "header", "schema_version": 1, "compute_unit": "gpu-hours", "name": "x"}
    evaluation = {"kind": "eval", "step": 0, "compute_gpu_hours": 0.0, "pass_rate": 0.2}
    trace.write_text(f"{json.dumps(head)}\n{json.dumps(evaluation)}\n")
    with pytest.raises(TrainError, match="has no rows of training steps"):
        export_log(trace, tmp_path / "out.jsonl")
    with pytest.raises(TrainError, match=r"no such file: .*none.jsonl"):
        export_log(tmp_path / "none.jsonl", tmp_path / "out.jsonl")
    with trace.open("a") as out:
        out.write(json.dumps({"kind": "train", "step": 1, "compute_gpu_hours": 1.0, "tokens_generated": 5}) + "\n")
    with pytest.raises(TrainError, match=r"end the name in \.jsonl"):
        export_log(trace, tmp_path / "out.csv")
    with pytest.raises(TrainError, match="exists and is not written over"):
        export_log(trace, trace, overwrite=True)
    assert main(["export-log", str(trace), "-o", str(tmp_path / "out.jsonl")]) == 0
    assert "wrote 2 lines" in capsys.readouterr().err
    assert main(["export-log", str(trace), "-o", str(tmp_path / "out.jsonl")]) == 2
    assert main(["export-log", str(tmp_path), "-o", str(tmp_path / "out.jsonl"), "--overwrite"]) == 0  # its folder
    assert read_trace(tmp_path / "out.jsonl", n_gpus=1).pass_rate.tolist() == [0.2]
