"""Which column is compute and which the pass rate: by name, with a note where it was a guess."""

from __future__ import annotations

import pytest

from helpers.trace_tables import PLAIN
from rlscaling.errors import TraceError
from rlscaling.readers.read import read_trace


@pytest.mark.parametrize("name", ["compute", "compute_gpu_hours", "gpu_hours"])
def test_plain_names_are_taken_without_comment(file, name):
    trace = read_trace(file(PLAIN.replace("compute", name)))
    assert trace.compute.tolist() == [0, 100, 200]
    assert trace.pass_rate.tolist() == [0.3, 0.35, 0.4]
    assert (trace.name, trace.compute_unit, trace.notes) == ("run7", "gpu-hours", ())
    assert trace.metadata == {"source": "run7.csv", "scale": "fraction"}


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("gpu-h", "gpu-hours"),
        ("H100 hours", "gpu-hours"),
        ("tpu_hours", "device-hours"),
        ("npu_hours", "device-hours"),
        ("total_flops", "flops"),
        ("num_tokens", "tokens"),
        ("rollouts", "rollouts"),
        ("hours", "wall-hours"),
        ("Step", "steps"),
        ("train/global_step", "steps"),
        ("_step", "steps"),
    ],
)
def test_guessed_compute_and_its_unit_are_announced(file, column, unit):
    trace = read_trace(file(PLAIN.replace("compute", column)))
    assert trace.compute_unit == unit
    assert trace.notes[0].startswith(f"Took column '{column}' as the compute; compute_column= / --compute-column")
    assert unit in trace.notes[1]
    assert read_trace(file(PLAIN.replace("compute", column)), compute_unit="tokens").compute_unit == "tokens"


@pytest.mark.parametrize(
    ("columns", "taken"),
    [
        (["acc", "reward"], "acc"),
        (["train/acc", "eval/acc"], "eval/acc"),
        (["mean@16", "best@16", "acc_std"], "mean@16"),
        (
            ["val-core/math/acc/mean@16", "val-aux/math/reward/mean@16", "val-core/math/acc/best@16/mean"],
            "val-core/math/acc/mean@16",
        ),
        (["run 1 - accuracy", "run 1 - accuracy__MIN", "run 1 - accuracy__MAX"], "run 1 - accuracy"),
        (["eval/score", "loss"], "eval/score"),
        (["mean_reward", "reward_std"], "mean_reward"),
    ],
)
def test_guessed_pass_rate_is_announced(file, columns, taken):
    rows = [["0", *["0.3"] * len(columns)], ["100", *["0.4"] * len(columns)]]
    path = file("\n".join(",".join(row) for row in [["compute", *columns], *rows]))
    trace = read_trace(path)
    assert trace.notes == (f"Took column {taken!r} as the pass rate; pass_rate_column= / --pass-rate-column chooses.",)
    assert set(trace.columns) == set(columns) - {taken}


def test_two_equally_plausible_columns_are_no_coin_toss(file):
    path = file("step,acc,accuracy,note\n1,0.3,0.5,x\n2,0.4,,x\n")
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert str(error.value) == (
        "run7.csv: the pass rate could be 'acc' or 'accuracy'; "
        "choose with pass_rate_column= / --pass-rate-column. "
        "The columns are: step (2 values, 1 to 2), acc (2 values, 0.3 to 0.4), accuracy (1 value, 0.5), "
        "note (2 values, text)."
    )
    assert read_trace(path, pass_rate_column="acc").columns["note"].tolist() == ["x", "x"]


def test_named_columns(file):
    path = file("h,y,step\n1,0.3,10\n2,0.4,20\n")
    trace = read_trace(path, compute_column="h", pass_rate_column="y")
    assert trace.notes == ("Took column 'h' to be in gpu-hours; compute_unit= / --compute-unit chooses.",)
    assert trace.columns["step"].tolist() == [10, 20]
    with pytest.raises(
        TraceError, match=r"no column 'stp' \(compute_column= .*did you mean 'step'\? The columns are: h"
    ):
        read_trace(path, compute_column="stp")
    with pytest.raises(TraceError, match="no column looks like the pass rate; name it with pass_rate_column="):
        read_trace(path)
    with pytest.raises(TraceError, match="column 'h' cannot be both compute and pass rate"):
        read_trace(path, compute_column="h", pass_rate_column="h")
