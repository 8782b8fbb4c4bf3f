"""Tests of `rlscaling/files.py`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlscaling import files
from rlscaling.errors import FitError, TraceError
from rlscaling.files import AppendOnlyFile, check_not_there, replace_file


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path):
    path = tmp_path / "a.json"
    check_not_there(path, overwrite=False)
    path.write_text("mine")
    check_not_there(path, overwrite=True)
    with pytest.raises(
        TraceError, match=r"a.json exists and is not written over; .*, or overwrite=True \(--overwrite\)$"
    ):
        check_not_there(path, overwrite=False)
    with pytest.raises(FitError, match=r"^--plot .*a.json exists and is not written over; .*, or add --overwrite$"):
        check_not_there(path, overwrite=False, option="--plot", error=FitError)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.json"
    replace_file(path, b"old")

    def full(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    with pytest.raises(FitError, match=r"cannot write .*a.json: No space left on device; nothing was changed"):
        replace_file(path, b"new", error=FitError)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]
    with pytest.raises(TraceError, match=r"cannot write .*: No such file or directory; choose another place"):
        replace_file(tmp_path / "none" / "a.json", b"new")


def test_one_writer_at_a_time_appends(tmp_path: Path):
    path = tmp_path / "log"
    with AppendOnlyFile(path, append=False) as file:
        file._append(b"one\n")
        with pytest.raises(TraceError, match="is being written by another process"):
            AppendOnlyFile(path, append=True)
    with pytest.raises(TraceError, match="is closed; open it again"):
        file._append(b"two\n")
    with pytest.raises(TraceError, match="is there already and was left as it is; pass append=True"):
        AppendOnlyFile(path, append=False)
    with AppendOnlyFile(path, append=True) as file:
        file._append(b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
