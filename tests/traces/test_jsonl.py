"""Tests of `rlscaling/traces/jsonl.py`."""

from __future__ import annotations

import pytest

from helpers.small_traces import make
from rlscaling.errors import TraceError
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.writer import TraceWriter


def test_a_broken_line_elsewhere_is_an_error_with_its_number(tmp_path):
    path = tmp_path / "t.jsonl"
    lines = make(path).splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    for attempt in (lambda: read_jsonl(path), lambda: TraceWriter(path, {}, append=True)):
        with pytest.raises(TraceError, match=r"t.jsonl, line 3: 'garbage' is not a JSON object"):
            attempt()
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(TraceError, match=r'line 1: no {"kind": "header"} there'):
        read_jsonl(path)
    path.write_bytes(b"".join(lines + lines))
    with pytest.raises(TraceError, match="line 5: a second header"):
        read_jsonl(path)
    path.write_bytes(b'{"kind": "header", "schema_version": 99}\n')
    with pytest.raises(TraceError, match="schema_version 99; this rlscaling reads up to 1, upgrade"):
        read_jsonl(path)
