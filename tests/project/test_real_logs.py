"""Logs written by the real packages, each compared with what was logged. Needs the extra `logs`: `nox -s logs`."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from helpers import log_files
from rlscaling import read_trace, read_traces

pytestmark = pytest.mark.slow
ROWS = log_files.verl_rows(steps=40, every=10)
HOURS = np.cumsum([0.0, *(row["timing_s/step"] * 256 / 3600 for row in ROWS[1:])])[::10]
SCORES = [row[log_files.SCORE] for row in ROWS if log_files.SCORE in row]


def write(package: str, folder: Path, body: str, **environment: str) -> None:
    """Let the package write a log of ROWS in a process of its own, whose warnings are its own affair."""
    pytest.importorskip(package)
    script = "import json\nrows = json.load(open('rows.json'))\n" + textwrap.dedent(body)
    (folder / "rows.json").write_text(json.dumps(ROWS))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=folder, capture_output=True, text=True,
        env={**os.environ, **environment}, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def check(trace, rtol=1e-12):
    np.testing.assert_allclose(trace.compute, HOURS, rtol=rtol)
    np.testing.assert_allclose(trace.pass_rate, SCORES, rtol=rtol)
    assert trace.metadata["n_gpus"] == 256


def test_tensorboard(tmp_path):
    """Through tensorboard's own writer, past the 10,000 points that its reader keeps."""
    body = """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    writer = EventFileWriter("tb")
    for i, row in enumerate(rows):
        for tag, value in row.items():
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=1e9 + i, step=i, summary=summary))
    for i in range(25_000):
        summary = Summary(value=[Summary.Value(tag="many", simple_value=i)])
        writer.add_event(Event(wall_time=2e9, step=41 + i, summary=summary))
    writer.close()
    """
    write("tensorboard", tmp_path, body)
    check(read_trace(tmp_path / "tb"), rtol=1e-6)
    many = read_trace(tmp_path / "tb", metric="many", scale="reward", compute_from="steps")
    assert len(many) == 25_000


def test_tensorboardx(tmp_path):
    body = """
    from tensorboardX import SummaryWriter
    writer = SummaryWriter("tb")
    for i, row in enumerate(rows):
        for tag, value in row.items():
            writer.add_scalar(tag, value, i)
    writer.close()
    """
    write("tensorboardX", tmp_path, body)
    trace = read_trace(tmp_path / "tb")
    check(trace, rtol=1e-6)
    assert trace.metadata["receipt"]["columns"]["pass rate"].endswith("mean_16")


def test_wandb_offline(tmp_path):
    body = """
    import wandb
    run = wandb.init(mode="offline", project="p", name="seven", config={"trainer": {"nnodes": 32}}, dir=".")
    for i, row in enumerate(rows):
        run.log(row, step=i)
    run.finish()
    """
    write("wandb", tmp_path, body, WANDB_SILENT="true")
    trace = read_trace(tmp_path / "wandb")
    check(trace)
    assert trace.metadata["run"] == "seven"


def test_mlflow_sqlite_and_files(tmp_path):
    body = """
    import mlflow
    for uri in ("sqlite:///mlflow.db", "file:mlruns"):
        mlflow.set_tracking_uri(uri)
        with mlflow.start_run(run_name="seven"):
            for i, row in enumerate(rows):
                mlflow.log_metrics({key.replace("@", "_at_"): value for key, value in row.items()}, step=i)
    """
    write("mlflow", tmp_path, body, MLFLOW_ALLOW_FILE_STORE="true")
    check(read_trace(tmp_path / "mlflow.db"))
    check(read_trace(tmp_path / "mlruns"))


def test_trackio(tmp_path):
    body = """
    import trackio
    trackio.init(project="p", name="seven")
    for i, row in enumerate(rows):
        trackio.log(row, step=i)
    trackio.finish()
    """
    write("trackio", tmp_path, body, TRACKIO_DIR=str(tmp_path / "trackio"), HF_HUB_OFFLINE="1")
    (trace,) = read_traces(tmp_path / "trackio").values()
    check(trace)


def test_transformers_trainer_state(tmp_path):
    body = """
    import torch, transformers
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)
        def forward(self, x, labels):
            out = self.layer(x).squeeze(-1)
            return {"loss": ((out - labels) ** 2).mean(), "logits": out}
    data = [{"x": torch.tensor([i / 16, 1.0]), "labels": torch.tensor(i / 16)} for i in range(16)]
    arguments = transformers.TrainingArguments(
        "out", max_steps=12, eval_strategy="steps", eval_steps=4, logging_steps=2, save_steps=6, report_to=[],
        use_cpu=True, disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        Model(), arguments, train_dataset=data, eval_dataset=data,
        compute_metrics=lambda out: {"rewards/acc/mean": float((abs(out.predictions - out.label_ids) < 0.3).mean())},
    )
    log = trainer.log
    trainer.log = lambda logs, *more: log({**logs, **({"step_time": 18.0} if "loss" in logs else {})}, *more)
    trainer.train()
    """
    pytest.importorskip("accelerate")
    write("transformers", tmp_path, body)
    trace = read_trace(tmp_path / "out", n_gpus=100)
    assert trace.columns["step"].tolist() == [4, 8, 12]
    np.testing.assert_allclose(trace.compute, [2, 4, 6])


def test_wandb_has_what_a_run_on_its_servers_is_read_with():
    """The names that `readers/formats/wandb_cloud.py` calls, in the installed package: there is no server here."""
    pytest.importorskip("wandb")
    from wandb.apis.public import Api, Run

    for method in (Run.scan_history, Run.download_history_exports, Api.run, Api.runs):
        assert callable(method)
    assert all(
        p.default is not p.empty for name, p in inspect.signature(Run.scan_history).parameters.items() if name != "self"
    )
    assert list(inspect.signature(Run.download_history_exports).parameters)[:2] == ["self", "download_dir"]
    assert isinstance(Run.lastHistoryStep, property)
