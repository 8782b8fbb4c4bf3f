"""CSV in every common dialect, and JSON in three shapes."""

from __future__ import annotations

import pytest

from helpers.trace_tables import PLAIN
from rlscaling.errors import TraceError
from rlscaling.readers.read import read_trace


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", ";"),
        "\ufeff" + PLAIN,
        PLAIN.encode("utf-16"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("100,", '"100",'),
        PLAIN.replace("\n", "\n\n"),
        PLAIN.rstrip("\n"),
        PLAIN.replace("compute,", " compute , "),
    ],
    ids=["tab", "semicolon", "bom", "utf16", "crlf", "quotes", "blank lines", "no last newline", "spaces"],
)
def test_every_common_csv_dialect(file, content):
    assert read_trace(file(content)).pass_rate.tolist() == [0.3, 0.35, 0.4]


def test_rows_are_counted_as_an_editor_shows_them(file):
    with pytest.raises(TraceError, match="row 5, column 'pass_rate': 'x'"):
        read_trace(file("compute,pass_rate\n\n1,0.3\n\n2,x\n"))


LINES = '{"step": 1, "acc": 0.3}\n{"step": 2, "acc": 0.4, "x": 1}\n'
LIST = '[{"step": 1, "acc": 0.3}, {"step": 2, "acc": 0.4}]'
OBJECT = '{"step": [1, 2], "acc": [0.3, 0.4], "title": "t"}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("log.json", content) for content in (LINES, LIST, OBJECT)),
        *(("log.txt", content) for content in (LINES, LIST, OBJECT)),
        *(("log.jsonl", content) for content in (LINES, LIST)),
    ],
)
def test_foreign_json(file, name, content):
    trace = read_trace(file(content, name))
    assert trace.pass_rate.tolist() == [0.3, 0.4]
    assert trace.compute_unit == "steps"
    assert len(trace.notes) == 3
