"""Options of reading: checked, effective for logs and tables alike, and the same in every interface."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json

import numpy as np
import pytest

from helpers import log_files
from helpers.trace_tables import PLAIN
from rlscaling import Trace, read_trace, read_traces, write_trace
from rlscaling.errors import TraceError
from rlscaling.option_fields import add_options
from rlscaling.readers.options import ReadOptions

SCORE = log_files.SCORE


@pytest.fixture
def verl(tmp_path):
    rows = log_files.verl_rows(steps=40, every=10)
    for i, row in enumerate(rows):
        row |= {"cost/total_tokens": 1000.0 * i, "cost/dollars": 5.0 * i}
    return log_files.verl_file(tmp_path, rows)


def test_a_metric_that_counts_compute_is_taken_when_named(verl):
    trace = read_trace(verl, compute_column="cost/total_tokens")
    assert (trace.compute_unit, trace.compute.tolist()) == ("tokens", [0, 10_000, 20_000, 30_000, 40_000])
    assert trace.metadata["receipt"]["columns"]["compute"] == "cost/total_tokens"
    trace = read_trace(verl, compute_column="cost/dollars", compute_unit="rollouts")
    assert (trace.compute_unit, trace.compute[-1]) == ("rollouts", 200)
    with pytest.raises(TraceError, match=r"exp.jsonl has no metric 'cost/dolars' \(compute_column= .*did you mean"):
        read_trace(verl, compute_column="cost/dolars")
    with pytest.raises(
        TraceError, match="compute_from='steps' and compute_column='cost/dollars' contradict each other"
    ):
        read_trace(verl, compute_column="cost/dollars", compute_from="steps")


def test_a_unit_asked_for_is_counted_or_refused(verl):
    assert read_trace(verl, compute_unit="steps").compute.tolist() == [0, 10, 20, 30, 40]
    for unit in ("rollouts", "device-hours"):
        with pytest.raises(TraceError, match=f"exp.jsonl: {unit} cannot be counted from a log; choose compute_from="):
            read_trace(verl, compute_unit=unit)
    with pytest.raises(TraceError, match="compute_from='steps' and compute_unit='tokens' contradict each other"):
        read_trace(verl, compute_from="steps", compute_unit="tokens")


def test_a_domain_that_a_log_does_not_have_is_refused(tmp_path, verl):
    assert len(read_trace(verl, domain="math_dapo")) == 5
    with pytest.raises(TraceError, match=r"exp.jsonl has no domain 'math'; it has math_dapo; did you mean 'math_dapo'"):
        read_trace(verl, domain="math")
    rows = [{"step": i, "time/total": 36.0, "test/env/all/correct": 0.1 * i} for i in range(4)]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(TraceError, match="domain='math' was given, but metrics.jsonl does not tell domains apart"):
        read_trace(path, domain="math", compute_from="steps")


def test_a_domain_of_a_less_plain_name_or_of_the_rows(tmp_path):
    rows = log_files.verl_rows(steps=20, every=10)
    for row in rows:
        if SCORE in row:
            row["val-aux/aime/score/mean@16"] = row[SCORE] / 2
            row["val-core/gpqa/acc/mean@16"] = row[SCORE] / 5
    path = log_files.verl_file(tmp_path, rows)
    assert read_trace(path, domain="aime").pass_rate[0] == 0.125
    assert read_trace(path, domain="gpqa").pass_rate[0] == 0.05
    with pytest.raises(TraceError, match="has no domain 'gpq'; it has math_dapo, gpqa; did you mean 'gpqa'"):
        read_trace(path, domain="gpq")
    traces = read_traces(path, metric="val-core/*/mean@16", domain="gpqa")
    assert list(traces) == ["exp"]
    history = [{"step": 4, f"eval_{name}_runtime": 1.0, "eval_rewards/acc/mean": 0.5 + i / 10} for i, name in
               enumerate("ab")]  # fmt: skip
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    trace = read_trace(tmp_path / "trainer_state.json", domain="b", compute_from="steps")
    assert trace.pass_rate.tolist() == [0.6]
    with pytest.raises(TraceError, match="has no domain 'c'; it has a, b"):
        read_trace(tmp_path / "trainer_state.json", domain="c", compute_from="steps")


def test_a_run_column_of_a_log_is_refused(verl):
    with pytest.raises(TraceError, match=r"names a column of a table, but exp.jsonl is a log \(verl file logger\)"):
        read_trace(verl, run_column="seed")


@pytest.mark.parametrize("name", ["n_gpus", "gap", "device_factor"])
@pytest.mark.parametrize("value", [True, float("inf"), [8]])
def test_numbers_of_another_kind_are_refused(name, value):
    with pytest.raises(TraceError, match=f"{name}=.* is not a positive, finite number; correct it"):
        ReadOptions(**{name: value})


def test_a_count_as_text_is_refused_before_any_file_is_read():
    """It passed, and ended in a TypeError from the middle of the reading."""
    with pytest.raises(TraceError, match="n_gpus='8' is not a positive, finite number"):
        read_trace("nowhere.jsonl", n_gpus="8")


def test_counts_of_numpy_are_numbers(verl):
    assert read_trace(verl, n_gpus=np.int64(256)).metadata["n_gpus"] == 256


TABLE = "step,tokens,gpu_hours,acc,score\n1,100,5,0.1,0.3\n2,200,10,0.2,0.4\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def test_a_table_is_read_on_the_axis_asked_for(tmp_path, table):
    assert read_trace(table).compute.tolist() == [5, 10]
    for unit, expected in (("tokens", [100, 200]), ("steps", [1, 2]), ("gpu-hours", [5, 10])):
        trace = read_trace(table, compute_from=unit)
        assert (trace.compute_unit, trace.compute.tolist()) == (unit, expected)
    with pytest.raises(TraceError, match="table.csv: no column counts flops, by its name; choose with compute_column="):
        read_trace(table, compute_from="flops")
    table.write_text(TABLE.replace("tokens", "tokens,prompt_tokens").replace("00,", "00,7,"))
    with pytest.raises(TraceError, match="the tokens could be 'tokens' or 'prompt_tokens'; choose with"):
        read_trace(table, compute_from="tokens")
    write_trace(Trace([0, 8], [0.3, 0.4], columns={"tokens_generated": [0, 500]}), tmp_path / "own.jsonl")
    assert read_trace(tmp_path / "own.jsonl", compute_from="gpu-hours").compute.tolist() == [0, 8]
    assert read_trace(tmp_path / "own.jsonl", compute_from="tokens").compute.tolist() == [0, 500]


def test_a_metric_names_the_column_of_a_table(table):
    assert read_trace(table).pass_rate.tolist() == [0.1, 0.2]
    assert read_trace(table, metric="score").pass_rate.tolist() == [0.3, 0.4]
    assert read_trace(table, metric="sc*").pass_rate.tolist() == [0.3, 0.4]
    with pytest.raises(TraceError, match=r"metric='\*c\*' matches 2 columns \(acc, score\), and a table"):
        read_trace(table, metric="*c*")
    with pytest.raises(TraceError, match=r"no column 'scores' \(metric= / --metric\); did you mean 'score'"):
        read_trace(table, metric="scores")


def test_options_of_logs_without_effect_on_a_table_are_said(table):
    trace = read_trace(table, n_gpus=8, device_factor="A100:H100", resume="all")
    assert trace.compute.tolist() == [5, 10]
    (note,) = [note for note in trace.notes if "no effect" in note]
    assert note == (
        "n_gpus= / --n-gpus, device_factor= / --device-factor, resume= / --resume: no effect on a table or trace, "
        "whose compute is in a column."
    )


def test_a_compute_column_that_a_table_of_metrics_lacks_is_refused(tmp_path):
    path = log_files.csv_file(tmp_path, log_files.verl_rows(steps=20, every=10))
    with pytest.raises(TraceError, match=r"export.csv has no column 'hours' \(compute_column= / --compute-column\)"):
        read_trace(path, compute_column="hours")


def test_options_of_hours_without_effect_on_other_axes_are_said(verl):
    trace = read_trace(verl, compute_from="steps", device_factor="A100:H100", eval_time="include")
    assert "device_factor= / --device-factor, eval_time= / --eval-time: no effect on compute in steps." in trace.notes
    assert not any("no effect" in note for note in read_trace(verl, device_factor=0.5).notes)


def test_options_are_checked_before_files(file):
    with pytest.raises(TraceError, match="scale='pct' is unknown; choose one of auto, fraction, percent, pm1, reward"):
        read_trace(file(PLAIN), scale="pct")
    with pytest.raises(TraceError, match="compute_unit='hours' is unknown; choose one of gpu-hours"):
        read_trace(file(PLAIN), compute_unit="hours")
    with pytest.raises(TypeError, match="colour"):
        read_traces(file(PLAIN), colour="red")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"n_gpus": 0}, "n_gpus=0 is not a positive"),
        ({"gap": -1}, "gap=-1 is not a positive"),
        ({"device_factor": float("nan")}, "device_factor=nan is not a positive"),
        ({"compute_from": "days"}, "compute_from='days' is unknown; choose one of gpu-hours"),
        ({"resume": "latest"}, "resume='latest' is unknown"),
    ],
)
def test_options_are_checked(option, message):
    with pytest.raises(TraceError, match=message):
        ReadOptions(**option)


def test_read_trace_has_the_options_of_read_options_with_their_defaults():
    """``stitch`` is for several files, ``receipt`` for the command; ``compute`` is the former name of compute_from."""
    fields = {field.name: field.default for field in dataclasses.fields(ReadOptions)}
    parameters = inspect.signature(read_trace).parameters.values()
    signature = {parameter.name: parameter.default for parameter in parameters if parameter.kind.name == "KEYWORD_ONLY"}
    assert signature.pop("compute") is None
    assert signature == {name: fields[name] for name in fields if name not in ("stitch", "receipt")}


def test_read_trace_and_read_traces_hand_every_option_on(monkeypatch, table):
    """A field that is forgotten in the call would be without effect."""
    values = {
        "compute_column": "gpu_hours", "pass_rate_column": "acc", "scale": "percent", "run": "a", "run_column": "b",
        "domain": "c", "drop_missing": True, "metric": "d", "compute_from": "steps", "n_gpus": 8,
        "eval_time": "include", "eval_before_update": True, "gap": 60.0, "resume": "all",
        "missing_start": "estimate", "device_factor": 2.0, "compute_unit": "tokens",
    }  # fmt: skip
    handed = []
    monkeypatch.setattr("rlscaling.readers.read.parts_of", lambda file, options: handed.append(options) or {})
    with pytest.raises(StopIteration):
        read_trace(table, **values)
    read_traces(table, **values)
    assert handed == [ReadOptions(**values)] * 2
    assert values.keys() == {field.name for field in dataclasses.fields(ReadOptions)} - {"stitch", "receipt"}


def test_the_former_name_of_compute_from_is_taken(table):
    assert read_trace(table, compute="tokens").compute_unit == "tokens"
    assert read_traces(table, compute="steps")["table"].compute_unit == "steps"
    assert dataclasses.replace(ReadOptions(compute="steps"), scale="percent").compute_from == "steps"


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_options(parser.add_argument_group("reading files"), ReadOptions)
    options = vars(parser.parse_args(words))
    return ReadOptions(**{name: value for name, value in options.items() if value is not None})


def test_the_command_line_makes_the_same_options(capsys):
    words = "--scale percent --n-gpus 8 --no-eval-before-update --stitch --device-factor A100:H100 --compute-from steps"
    assert parsed() == ReadOptions()
    assert parsed(*words.split()) == ReadOptions(
        scale="percent", n_gpus=8.0, eval_before_update=False, stitch=True, device_factor="A100:H100",
        compute_from="steps",
    )  # fmt: skip
    for wrong, message in (("0", "0 is not a positive, finite number"), ("nan", "'nan' is not a number"),
                           ("a.csv", "'a.csv' is not a number; files go before this option")):  # fmt: skip
        with pytest.raises(SystemExit):
            parsed("--gap", wrong)
        assert f"argument --gap: {message}" in capsys.readouterr().err
