"""Damaged logs: truncated, with flipped bits, empty, foreign: an error that names the file, or a note on the damage.

Seeds are fixed: 51 of each kind here, 1,002 in the full job (marker slow).
"""

from __future__ import annotations

import shutil
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from helpers import log_files
from rlscaling import Trace, read_traces, write_trace, write_traces
from rlscaling.errors import TraceError

SECONDS = 10.0  # for one damaged file; a whole one takes about 10 ms
MEGABYTES = 500
ROWS = log_files.verl_rows(steps=30, every=5)
TRUE_SCORES = {round(row[log_files.SCORE], 6) for row in ROWS if log_files.SCORE in row}
CHECKSUMMED = ("TensorBoard", "TensorBoard of TF2", "W&B")
OPTIONS = {"n_gpus": 256, "scale": "auto"}


def own_lines(folder: Path, rows: log_files.Rows) -> Path:
    path = folder / "trace.jsonl"
    write_trace(trace(), path)
    return path


def own_parquet(folder: Path, rows: log_files.Rows) -> Path:
    path = folder / "trace.parquet"
    write_trace(trace(), path)
    return path


def several_parquet(folder: Path, rows: log_files.Rows) -> Path:
    path = folder / "runs.parquet"
    write_traces({"a": trace(), "b": trace()}, path)
    return path


def trace() -> Trace:
    n = np.arange(7.0)
    return Trace(n, 0.3 + n / 20, columns={"step": n})


WRITERS = {
    **log_files.WRITERS,
    "trainer state": log_files.trl_state,
    "NeMo-RL's lines": lambda folder, rows: log_files.nemo_console(folder / "driver.log", rates=True),
    "own lines": own_lines,
    "own Parquet": own_parquet,
    "several in Parquet": several_parquet,
}


def truncated(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(0, len(data))]


def flipped(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for at in rng.integers(0, len(data), size=int(rng.integers(1, 9))):
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def spliced(data: bytes, rng: np.random.Generator) -> bytes:
    """Foreign bytes in the middle, or instead of all but the name and the first bytes."""
    noise = rng.integers(0, 256, size=int(rng.integers(1, 400)), dtype=np.uint8).tobytes()
    at = int(rng.integers(0, len(data)))
    keep = data[at + int(rng.integers(0, 200)) :] if rng.random() < 0.5 else b""
    return data[:at] + noise + keep


DAMAGES = (truncated, flipped, spliced)


def damaged_file(path: Path) -> Path:
    """The file whose bytes are changed: the path, or the largest one in a folder."""
    inside = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return max(inside, key=lambda file: (file.stat().st_size, file.name))


def check(path: Path, victim: Path, scores: set[float] | None = None) -> str:
    """Read, and return the refusal or nothing; anything but a `TraceError` that names the source fails.

    Where the format has checksums, no score may be read that was not written.
    """
    began = time.perf_counter()
    refusal = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            traces_read = read_traces(path, **OPTIONS)
    except TraceError as error:
        refusal = str(error)
        assert any(name in refusal for name in (path.name, victim.name)), refusal
    else:
        assert traces_read
        assert all(
            np.isfinite(trace_read.pass_rate).all() and np.isfinite(trace_read.compute).all()
            for trace_read in traces_read.values()
        )
        assert scores is None or all(
            set(np.round(trace_read.pass_rate, 6)) <= scores for trace_read in traces_read.values()
        )
    assert time.perf_counter() - began < SECONDS
    return refusal


def memory() -> float:
    """The most this process ever used, in MB."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e3 if sys.platform != "darwin" else 1e6)


def run(kind: str, folder: Path, n: int) -> None:
    rng = np.random.default_rng([20251013, list(WRITERS).index(kind)])
    source = folder / "source"
    source.mkdir()
    path = WRITERS[kind](source, ROWS)
    assert check(path, path) == ""
    whole = damaged_file(path)
    data = whole.read_bytes()
    before = memory()
    for damage in DAMAGES:
        for _ in range(n):
            whole.write_bytes(damage(data, rng))
            check(path, whole, TRUE_SCORES if kind in CHECKSUMMED else None)
    whole.write_bytes(b"")
    if kind == "MLflow folder":  # one metric of many is empty
        assert whole.name not in dict(read_traces(path, **OPTIONS)["mlruns"].metadata)["receipt"]["columns"].values()
    else:
        assert path.name in check(path, whole)
    assert memory() - before < MEGABYTES


@pytest.mark.parametrize("kind", list(WRITERS))
def test_damaged(tmp_path, kind):
    run(kind, tmp_path, 17)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(WRITERS))
def test_damaged_many_times(tmp_path, kind):
    run(kind, tmp_path, 334)


@pytest.mark.parametrize("kind", list(WRITERS))
def test_foreign_content_under_every_name(tmp_path, kind):
    """Each kind's content under each other kind's name: recognised for what it is, or refused."""
    (tmp_path / "source").mkdir()
    victim = damaged_file(WRITERS[kind](tmp_path / "source", ROWS))
    for other in WRITERS:
        folder = tmp_path / other.replace(" ", "-")
        folder.mkdir()
        name = damaged_file(WRITERS[other](folder, ROWS))
        shutil.copyfile(victim, name)
        check(name, name)
