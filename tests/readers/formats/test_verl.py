"""verl's file logger: cells of another kind, a byte-order mark."""

from __future__ import annotations

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
