"""Tests of `rlscaling/fitting/saved.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.example_fits import FITS, Y
from helpers.scalerl import C
from rlscaling import FitError, fit_trace, load_fit, save_fit
from rlscaling.fitting.saved import is_saved_fit
from rlscaling.traces.trace import Trace


def test_a_saved_fit_is_never_written_over(tmp_path):
    fit = FITS["trace"]()
    path = save_fit(fit, tmp_path / "fit.json")
    before = path.read_bytes()
    with pytest.raises(
        FitError, match=r"fit.json exists and is not written over; choose another name, or overwrite=True"
    ):
        save_fit(FITS["R0 free"](), path)
    assert path.read_bytes() == before
    assert load_fit(path).to_dict() == fit.to_dict()
    save_fit(FITS["R0 free"](), path, overwrite=True)
    assert load_fit(str(path)).options.R0 == "free"
    assert is_saved_fit(path)
    assert not is_saved_fit(tmp_path)
    assert not is_saved_fit(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a saved fit: it is not JSON"),
        (b'{"kind": "sigmoid-fit", "schema', "is not a saved fit: it is not JSON"),
        (b"\xff\xfe\x00", "is not a saved fit: it is not JSON"),
        (b"[1, 2]", "is not a saved fit: it holds a list, not an object"),
        (b"{}", "not a saved fit: 'kind' is None, expected 'sigmoid-fit'"),
        (b'{"kind": "sigmoid-fit", "schema_version": 1}', "the saved fit is damaged"),
        (b'{"kind": "sigmoid-fit", "schema_version": 3}', "schema_version 3, this version reads 2; update rlscaling"),
    ],
)
def test_files_that_are_no_saved_fit_are_refused(tmp_path, content, message):
    path = tmp_path / "fit.json"
    path.write_bytes(content)
    with pytest.raises(FitError, match=message):
        load_fit(path)


def test_places_that_cannot_be_read_or_written_are_named(tmp_path):
    with pytest.raises(FitError, match=r"cannot read .*none.json: No such file"):
        load_fit(tmp_path / "none.json")
    with pytest.raises(FitError, match=r"cannot read .*: Is a directory"):
        load_fit(tmp_path)
    with pytest.raises(FitError, match=r"cannot write .*no-folder.*: No such file or directory"):
        save_fit(FITS["few"](), tmp_path / "no-folder" / "fit.json")


@pytest.mark.parametrize("metadata", [{"loss": math.nan}, {"lr": np.float32(0.5)}, {"when": {"t": math.inf}}], ids=str)
def test_bug_metadata_of_a_run_do_not_keep_a_fit_from_being_saved(tmp_path, metadata):
    fit = fit_trace(Trace(C, Y, metadata=metadata))
    path = save_fit(fit, tmp_path / "fit.json")
    assert load_fit(path).params == fit.params
