"""The trace: what it accepts, and how it is cut, copied and printed."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest

from helpers.small_traces import same, trace
from rlscaling.errors import TraceError
from rlscaling.traces.trace import Trace


def test_trace_is_frozen_and_reads_well():
    t = trace()
    assert len(t) == 3
    assert repr(t) == "Trace('r': 3 evaluations, 0 to 3 gpu-hours, pass rate 0.3 to 0.4)"
    assert t.n_prompts.tolist() == [8, 8, 8]
    assert t.n_samples is None
    assert t.pass_rate_se is None
    with pytest.raises(ValueError, match="read-only"):
        t.pass_rate[0] = 1
    assert pickle.loads(pickle.dumps(t)).compute.tolist() == t.compute.tolist()


def test_trace_does_not_alias_what_it_was_made_from():
    C, step = np.array([1.0, 2.0]), np.array([1.0, 2.0])
    t = Trace(C, [0.1, 0.2], columns={"step": step})
    C[0] = step[0] = 1.5
    assert t.compute[0] == t.columns["step"][0] == 1.0


def test_trace_refuses():
    with pytest.raises(TraceError, match="compute_unit='hours' is unknown; choose one of gpu-hours"):
        trace(compute_unit="hours")
    with pytest.raises(TraceError, match="column 'step' has 2 values for 3 evaluations"):
        trace(columns={"step": [1, 2]})
    with pytest.raises(TraceError, match="outside"):
        Trace([1, 2], [0.5, 3])
    assert Trace([1, 2], [0.5, 3], metadata={"scale": "reward"}).pass_rate[1] == 3


def test_up_to_cuts_every_column():
    t = trace().up_to(1.5)
    assert t.compute.tolist() == [0, 1.5]
    assert t.columns["note"].tolist() == ["a", None]
    with pytest.raises(TraceError, match="no evaluation at or below -1 gpu-hours: the first is at 0"):
        trace().up_to(-1)


def test_frames_round_trip():
    same(Trace.from_frame(trace().to_frame()), trace())
    frame = pl.DataFrame({"hours": [1, 2], "acc": [0.1, 0.2], "step": [1, 2]})
    t = Trace.from_frame(frame, compute="hours", pass_rate="acc", name="x")
    assert (t.name, t.compute.tolist(), t.columns["step"].tolist()) == ("x", [1, 2], [1, 2])
    with pytest.raises(TraceError, match="no column 'compute'; it has hours, acc, step"):
        Trace.from_frame(frame)
