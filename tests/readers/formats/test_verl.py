"""verl's file logger: cells of another kind, a byte-order mark, no msgspec."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from helpers import log_files
from helpers.log_files import verl
from rlscaling import read_trace


@pytest.mark.parametrize("cell", ['"0.5"', "NaN", '{"inner": 1}', "[1]", '"text"', "true", "1", str(10**30)])
def test_a_cell_of_another_kind_leaves_the_others_as_they_are(tmp_path, cell):
    rows = log_files.verl_rows(steps=20, every=10)
    path = verl(tmp_path, rows)
    whole = read_trace(path)
    path.write_text(path.read_text().replace('"critic/score/mean": -0.495', f'"odd": {cell}'))
    trace = read_trace(path)
    assert trace.pass_rate.tolist() == whole.pass_rate.tolist()
    assert trace.compute.tolist() == whole.compute.tolist()


def test_a_byte_order_mark_before_a_verl_log(tmp_path):
    path = verl(tmp_path, log_files.verl_rows(40, 10))
    plain = read_trace(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    np.testing.assert_array_equal(read_trace(path).compute, plain.compute)


@pytest.mark.parametrize("metric", [None, "val-core/*"])
def test_a_log_reads_the_same_without_msgspec(tmp_path, monkeypatch, metric):
    path = verl(tmp_path, log_files.verl_rows(40, 10))
    fast = read_trace(path, metric=metric)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    slow = read_trace(path, metric=metric)
    assert slow.compute.tolist() == fast.compute.tolist()
    assert slow.pass_rate.tolist() == fast.pass_rate.tolist()
    assert slow.columns.keys() == fast.columns.keys()
    assert (slow.metadata, slow.notes) == (fast.metadata, fast.notes)
