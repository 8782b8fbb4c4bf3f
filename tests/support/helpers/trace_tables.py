"""A plain table, and the trainer's own trace file."""

from __future__ import annotations

from rlscaling.traces.writer import TraceWriter

PLAIN = "compute,pass_rate\n0,0.3\n100,0.35\n200,0.4\n"


def own(tmp_path, rows, **header):
    with TraceWriter(tmp_path / "trace.jsonl", header) as writer:
        for row in rows:
            writer.write(**row)
    return tmp_path / "trace.jsonl"
