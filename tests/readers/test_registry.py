"""One run as every logger writes it, whole and torn."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from helpers import log_files
from helpers.log_files import SCORE, receipt
from rlscaling import read_trace, read_traces
from rlscaling.errors import TraceError
from rlscaling.readers import registry
from rlscaling.readers.logs.log import LogBuilder


@pytest.mark.parametrize("kind", list(log_files.WRITERS))
def test_every_logger_gives_the_same_run(tmp_path, kind):
    rows = log_files.verl_rows(steps=60, every=10)
    path = log_files.WRITERS[kind](tmp_path, rows)
    trace = read_trace(path)
    hours = np.cumsum([0.0, *(row["timing_s/step"] * 256 / 3600 for row in rows[1:])])[::10]
    scores = [row[SCORE] for row in rows if SCORE in row]
    rough = 1e-6 if "TensorBoard" in kind else 1e-12  # TensorBoard keeps single precision
    np.testing.assert_allclose(trace.compute, hours, rtol=rough)
    np.testing.assert_allclose(trace.pass_rate, scores, rtol=rough)
    assert trace.columns["step"].tolist() == list(range(0, 61, 10))
    assert trace.compute_unit == "gpu-hours"
    known = receipt(trace)
    assert known["framework"] == "verl"
    assert known["assumed"]["GPUs"] == 256
    assert known["rows_kept"] == 7
    assert known["dropped"] == {"without this score": 54}
    assert trace.columns["n_samples"].tolist() == [16.0] * 7
    np.testing.assert_allclose(trace.columns["eval_gpu_hours"][-1], 6 * 600 * 256 / 3600, rtol=1e-6)
    np.testing.assert_allclose(read_trace(path, compute_from="steps").compute, np.arange(0, 61, 10))


@pytest.mark.parametrize("kind", list(log_files.WRITERS))
def test_a_torn_file_is_read_up_to_there(tmp_path, kind):
    """Half of the bytes: a partial read that says so, or a refusal that names the file."""
    rows = log_files.verl_rows(steps=60, every=10)
    path = log_files.WRITERS[kind](tmp_path, rows)
    victim = path
    if kind == "MLflow folder":  # a file for each metric: that of the score
        (victim,) = path.rglob("*mean_at_16")
    elif path.is_dir():
        (victim,) = (file for file in path.rglob("*") if file.is_file())
    data = victim.read_bytes()
    victim.write_bytes(data[: len(data) // 2])
    trace, refusal = None, ""
    try:
        trace = read_trace(path)
    except TraceError as error:
        refusal = str(error)
    assert (trace is None) == (kind in ("CSV", "trackio", "MLflow SQLite", "scalars in JSON"))
    if trace is None:
        assert refusal.startswith(path.name)
        return
    whole_records = ("console", "TensorBoard")  # the cut falls between two of them
    assert kind in whole_records or any("left out" in note for note in trace.notes)
    whole = [row[SCORE] for row in rows if SCORE in row]
    np.testing.assert_allclose(trace.pass_rate, whole[: len(trace)], rtol=1e-6)
    assert len(trace) < len(whole)


def test_a_database_that_is_no_log_is_refused(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE metrics (a)")
    with pytest.raises(TraceError, match="other.db is a SQLite database, but damaged, or not one of MLflow or trackio"):
        read_trace(path)


def test_one_entry_adds_a_format(tmp_path, monkeypatch):
    """Its files are read by name, by glob and from a folder; a folder of its own is searched no further down."""

    def logs(path, data, options):
        builder = LogBuilder(path.name, "pairs")
        for step, score in enumerate(data.decode().split()):
            builder.add({"step": step, "accuracy": float(score)})
        return [builder.log(files=(path,))]

    entry = registry.Reader(
        "pairs", lambda path, data: path.suffix == ".pairs", logs=logs,
        in_folder=lambda folder, names: [folder / name for name in names if name.endswith(".pairs")],
        owns_folder=lambda folder: (folder / "a.pairs").exists(),
    )  # fmt: skip
    (tmp_path / "inner").mkdir()
    for path in (tmp_path / "a.pairs", tmp_path / "inner" / "b.pairs"):
        path.write_text("0.2 0.3")
    monkeypatch.setattr(registry, "READERS", [entry, *registry.READERS])
    for paths in (tmp_path / "a.pairs", str(tmp_path / "*.pairs"), str(tmp_path / "**"), tmp_path):
        (trace,) = read_traces(paths, compute_from="steps").values()
        assert trace.pass_rate.tolist() == [0.2, 0.3]
    (tmp_path / "a.pairs").unlink()
    assert read_trace(tmp_path, compute_from="steps").pass_rate.tolist() == [0.2, 0.3]


def test_every_format_is_one_module_of_the_registry():
    folder = Path(registry.__file__).parent / "formats"
    of_console = {"console_nemo"}
    modules = {path.stem for path in folder.glob("[!_]*.py")} - of_console
    assert modules == {reader.matches.__module__.rpartition(".")[2] for reader in registry.READERS} - {"registry"}
