"""Runs on W&B's servers, returned by a stand-in for the package."""

from __future__ import annotations

import sys
import types

import numpy as np
import pandas as pd
import pytest

from helpers import log_files
from rlscaling import read_trace, read_traces
from rlscaling.errors import TraceError
from rlscaling.readers.paths import forget


class FakeRun:
    """A run as `wandb.Api` returns it, with the attributes that are used."""

    def __init__(self, run_id, rows, name="grpo 7", last=None, export=None):
        self.id, self.name, self.state, self._rows, self._export = run_id, name, "finished", rows, export
        self.config = {"trainer": {"nnodes": 32, "n_gpus_per_node": 8}, "dtype": np.dtype("float32")}
        self.lastHistoryStep = max((row["_step"] for row in rows), default=-1) if last is None else last

    def scan_history(self):
        return iter(self._rows)

    def download_history_exports(self, folder):
        folder.mkdir()
        pd.DataFrame(self._export).to_parquet(folder / "0.parquet")
        return types.SimpleNamespace(paths=[folder / "0.parquet"])


@pytest.fixture
def wandb_server(monkeypatch):
    runs = {}

    class Api:
        def run(self, path):
            return runs[path]

        def runs(self, path):
            return [run for name, run in runs.items() if name.startswith(f"{path}/")]

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(Api=Api, __version__="0.31.0"))
    yield runs
    forget()


def history(steps=40, every=10):
    rows = log_files.verl_rows(steps=steps, every=every)
    return [{"_step": i, "_timestamp": 1e9 + 300 * i, **row} for i, row in enumerate(rows)]


def test_a_run_on_wandbs_servers(wandb_server, tmp_path):
    wandb_server["team/rl/ab12"] = FakeRun("ab12", history())
    trace = read_trace("wandb://team/rl/ab12")
    np.testing.assert_allclose(trace.compute, read_trace(log_files.verl_file(tmp_path, history())).compute)
    assert (trace.name, trace.metadata["run"], trace.metadata["n_gpus"]) == ("grpo_7", "grpo 7", 256)
    wandb_server["team/rl/cd34"] = FakeRun("cd34", [{"_step": 0, "loss": 1.0}])
    wandb_server["team/rl/ab12"] = FakeRun("ab12", history(steps=60))
    assert len(read_trace("wandb://team/rl/ab12")) == 5  # fetched once
    forget()
    assert len(read_trace("wandb://team/rl/runs/ab12")) == 7
    with pytest.raises(TraceError, match=r"grpo_7-cd34.jsonl: no metric looks like a held-out pass rate"):
        read_traces("wandb://team/rl")
    del wandb_server["team/rl/cd34"]
    forget()
    assert list(read_traces("wandb://team/rl")) == ["rl"]


def test_a_history_that_wandb_does_not_give_is_taken_from_its_export(wandb_server):
    wandb_server["team/rl/ab12"] = FakeRun("ab12", [], last=40, export=history())
    assert len(read_trace("wandb://team/rl/ab12")) == 5
    wandb_server["team/rl/cd34"] = FakeRun("cd34", history(), last=90)
    (note,) = [note for note in read_trace("wandb://team/rl/cd34").notes if "rows are missing" in note]
    assert "the last step is 90, but its history ends at 40" in note


def test_what_wandb_refuses_is_said(wandb_server, monkeypatch):
    with pytest.raises(TraceError, match=r"cannot read wandb://team/rl/zz: KeyError: .*wandb login"):
        read_trace("wandb://team/rl/zz")
    with pytest.raises(TraceError, match="wandb://team/rl holds no runs"):
        read_traces("wandb://team/rl")
    with pytest.raises(TraceError, match="wandb://team is not a W&B run; write wandb://entity/project/run"):
        read_trace("wandb://team")
    wandb_server["team/rl/ef"] = FakeRun("ef", [], last=-1)
    with pytest.raises(TraceError, match="holds no history; the run logged nothing"):
        read_trace("wandb://team/rl/ef")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TraceError, match=r"needs wandb: pip install 'rlscaling\[wandb\]'"):
        read_trace("wandb://team/rl/other")
