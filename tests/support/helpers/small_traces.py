"""Traces of a few evaluations, written and compared."""

from __future__ import annotations

import numpy as np

from rlscaling.traces.trace import Trace
from rlscaling.traces.writer import TraceWriter


def trace(**fields):
    columns = {"step": [0, 10, 20], "n_prompts": [8.0] * 3, "note": ["a", None, "c"]}
    return Trace([0, 1.5, 3], [0.3, 0.35, 0.4], **{"name": "r", "columns": columns, "metadata": {"seed": 1}, **fields})


def same(a: Trace, b: Trace) -> None:
    assert (a.name, a.compute_unit, a.notes, dict(a.metadata)) == (
        b.name,
        b.compute_unit,
        b.notes,
        dict(b.metadata),
    )
    assert list(a.columns) == list(b.columns)
    for x, y in zip(
        (a.compute, a.pass_rate, *a.columns.values()),
        (b.compute, b.pass_rate, *b.columns.values()),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


def make(path, n=3, **header):
    with TraceWriter(path, header) as writer:
        for i in range(n):
            writer.write("eval", step=10 * i, compute_gpu_hours=float(i), pass_rate=0.1 * i)
    return path.read_bytes()
