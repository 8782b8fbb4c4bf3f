"""Which metric is the pass rate: candidates, rare metrics, the training reward."""

from __future__ import annotations

import pytest

from helpers import log_files
from helpers.log_files import SCORE, verl
from rlscaling import read_trace, read_traces
from rlscaling.errors import TraceError


def test_several_candidates_are_listed_with_counts_and_ranges(tmp_path):
    rows = log_files.verl_rows(steps=20, every=10)
    for row in rows:
        if SCORE in row:
            row["val-core/aime/acc/mean@16"] = row[SCORE] / 2
    path = verl(tmp_path, rows)
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert "exp.jsonl: the pass rate could be any of 2 metrics; choose with metric= / --metric GLOB" in str(error.value)
    assert f"{SCORE} (3 values, 0.25 to " in str(error.value)
    assert "val-core/aime/acc/mean@16 (3 values, 0.125 to " in str(error.value)
    assert list(read_traces(path, metric="val-core/*/acc/mean@*")) == ["exp:math_dapo", "exp:aime"]
    aime = read_trace(path, metric="val-core/aime/*")
    assert aime.pass_rate[0] == 0.125
    assert read_trace(path, domain="aime").pass_rate.tolist() == aime.pass_rate.tolist()
    with pytest.raises(TraceError, match=r"no metric 'val-core/aim/acc/mean@16'.*did you mean 'val-core/aime"):
        read_trace(path, metric="val-core/aim/acc/mean@16")


def test_a_metric_that_only_rows_in_the_middle_have_is_found(tmp_path):
    """Neither the first rows nor the last one name it; nor do names of 2024 begin with val-."""
    rows = log_files.verl_rows(steps=60, every=10)
    for row in rows:
        if SCORE in row:
            row["val/test_score/openai/gsm8k"] = row.pop(SCORE)
    for row in (rows[0], rows[60]):
        del row["val/test_score/openai/gsm8k"]
    rows[35]["val-core/aime/acc/mean@8"] = 0.125
    path = verl(tmp_path, rows)
    assert read_trace(path, metric="val/test_score/*").columns["step"].tolist() == [10, 20, 30, 40, 50]
    aime = read_trace(path)
    assert (aime.columns["step"].tolist(), aime.pass_rate.tolist()) == ([35], [0.125])


def test_a_metric_of_few_lines_is_found_when_it_is_named(tmp_path):
    rows = log_files.verl_rows(steps=200, every=10)
    for k in range(75, 91):
        rows[k]["eval/other_acc"] = 0.25 + k / 1000
    trace = read_trace(verl(tmp_path, rows), metric="eval/other_acc")
    assert trace.columns["step"].tolist() == list(range(75, 91))


def test_the_training_reward_is_taken_only_when_named_and_with_a_warning(tmp_path):
    rows = [{k: v for k, v in row.items() if not k.startswith("val-")} for row in log_files.verl_rows(20, 10)]
    path = verl(tmp_path, rows[1:])
    with pytest.raises(TraceError, match=r"no metric looks like a held-out pass rate.*critic/score/mean \(20 values"):
        read_trace(path)
    trace = read_trace(path, metric="critic/score/mean", scale="pm1")
    assert any("critic/score/mean is the reward in training, not a held-out pass rate" in note for note in trace.notes)
