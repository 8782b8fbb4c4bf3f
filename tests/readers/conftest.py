"""Files written into the folder of a test."""

from __future__ import annotations

import pytest


@pytest.fixture
def file(tmp_path):
    def write(content, name="run7.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
