"""Writers of small log files, each by the format of its logger: what the readers are tested on without the packages."""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlscaling.readers.decoding.crc32c import crc32c, masked

SCORE = "val-core/math_dapo/acc/mean@16"
Rows = Sequence[Mapping[str, Any]]


def verl_rows(steps: int, every: int, n_gpus: int = 256, seed: int = 1) -> list[dict[str, float]]:
    """Rows of a run as verl 0.9 logs it: the first before training, 600 s of testing outside the step."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, float]] = [{SCORE: 0.25}]
    for step in range(1, steps + 1):
        seconds = float(300 + 30 * rng.standard_normal())
        tokens = float(2.5e7 * (1 + 0.05 * rng.standard_normal()))
        row = {
            "training/global_step": step, "critic/score/mean": -0.5 + step / 1000, "response_length/clip_ratio": 0.05,
            "timing_s/step": seconds, "perf/time_per_step": seconds, "perf/total_num_tokens": tokens,
            "perf/throughput": tokens / (n_gpus * seconds),
        }  # fmt: skip
        if step % every == 0:
            row |= {SCORE: 0.25 + step / 1000, "timing_s/testing": 600.0}
        rows.append(row)
    return rows


def _step(row: Mapping[str, Any]) -> int:
    return int(row.get("training/global_step", row.get("_step", 0)))


def verl_file(folder: Path, rows: Rows, name: str = "exp.jsonl") -> Path:
    """Write the JSON lines of verl's file logger."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("".join(json.dumps({"step": _step(row), "data": dict(row)}) + "\n" for row in rows))
    return path


def flat_lines(folder: Path, rows: Rows) -> Path:
    """Write one flat object a line."""
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": _step(row), **row}) + "\n" for row in rows))
    return path


def csv_file(folder: Path, rows: Rows) -> Path:
    """Write a table with a column for each metric."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [",".join(repr(row[name]) if name in row else "" for name in names) for row in rows]
    path = folder / "export.csv"
    path.write_text(
        "\n".join(["step," + ",".join(names), *(f"{_step(r)},{c}" for r, c in zip(rows, cells, strict=True))])
    )
    return path


def console(folder: Path, rows: Rows) -> Path:
    """Write the lines that verl prints."""
    path = folder / "train.log"
    path.write_text("".join(f"step:{_step(r)} - " + " - ".join(f"{k}:{v}" for k, v in r.items()) + "\n" for r in rows))
    return path


def scalars_json(folder: Path, rows: Rows) -> Path:
    """Write one object of values by tag and step."""
    tags: dict[str, dict[str, Any]] = {}
    for row in rows:
        for tag, value in row.items():
            tags.setdefault(tag, {})[str(_step(row))] = value
    path = folder / "merged.json"
    path.write_text(json.dumps(tags))
    return path


NEMO_STEP = """
========================= Step {k}/10 =========================
▶ Preparing batch...
{validation}
📊 Training Results:
  • Loss: 0.0123
  • Avg Reward: 0.4{k}
  • Mean Generation Length: 812.2500

⏱️  Timing:
  • Total step time: {seconds:.2f}s
  • generation: 56.20s (56.2%)
{rates}"""
NEMO_VALIDATION = """▶ Starting validation at step {n}...

📊 Validation Results:
    • Accuracy: {accuracy:.4f}
    • Average response length: 800.1 tokens
    • Samples processed: 256

  ⏱️  Validation Timing:
    • Total validation time: 50.00s
"""
NEMO_RATES = """
🔍 Performance Metrics:
  • Throughputs (per GPU):
    - E2E (Tokens/sec/gpu): 1073.50
  • Throughputs (per Group):
    - E2E (Tokens/sec): 17176.00
"""


def nemo_console(path: Path, *, rates: bool, first: int = 1) -> Path:
    """Two epochs of ten steps, a validation before the first and after each fifth."""
    out = [NEMO_VALIDATION.format(n=0, accuracy=0.2)] if first == 1 else []
    for n in range(first, 21):
        if n in (first, 11):
            out.append(f"\n{'=' * 25} Epoch {1 + (n > 10)}/3 {'=' * 25}\n")
        tested = n % 5 == 0
        out.append(NEMO_STEP.format(
            k=(n - 1) % 10 + 1, seconds=150.0 if tested else 100.0, rates=NEMO_RATES if rates else "",
            validation=NEMO_VALIDATION.format(n=n, accuracy=0.2 + n / 100) if tested else "",
        ))  # fmt: skip
    path.write_text("".join(out))
    return path


def wandb_history(folder: Path, rows: Rows) -> Path:
    """Write what is kept of a run on W&B's servers."""
    header = {"kind": "wandb_history", "id": "ab12", "name": "first", "config": {}, "last_step": len(rows) - 1}
    path = folder / "history.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [header, *({"_step": _step(r), **r} for r in rows)]))
    return path


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def event(step: int, time: float, tag: str, value: float, *, tensor: bool = False) -> bytes:
    """One scalar; ``tensor`` writes it as TensorFlow 2 does."""
    if tensor:
        scalar = field(8, field(1, 1) + field(2, b"") + field(4, struct.pack("<f", value)))
    else:
        scalar = varint(2 << 3 | 5) + struct.pack("<f", value)
    summary = field(1, field(1, tag) + scalar)
    return varint(1 << 3 | 1) + struct.pack("<d", time) + field(2, step) + field(5, summary)


def record(data: bytes) -> bytes:
    """One record of an event file."""
    length = struct.pack("<Q", len(data))
    sums = masked(crc32c([length, data]))
    return length + struct.pack("<I", sums[0]) + data + struct.pack("<I", sums[1])


def tensorboard(folder: Path, rows: Rows, *, tensor: bool = False) -> Path:
    """Write an event file as torch's SummaryWriter does."""
    target = folder / "tb"
    target.mkdir()
    out = [record(varint(1 << 3 | 1) + struct.pack("<d", 1.0) + field(3, "brain.Event:2"))]
    out += [
        record(event(_step(row), 1e9 + i, tag, value, tensor=tensor))
        for i, row in enumerate(rows)
        for tag, value in row.items()
    ]
    (target / "events.out.tfevents.1796004344.vm.1.0").write_bytes(b"".join(out))
    return target


def tensorboard2(folder: Path, rows: Rows) -> Path:
    """Write an event file as TensorFlow 2 does, names cleaned as tensorboardX cleans them."""
    return tensorboard(folder, [{k.replace("@", "_"): v for k, v in row.items()} for row in rows], tensor=True)


def wandb_file(folder: Path, rows: Rows, *, config: Mapping[str, Any] | None = None, name: str = "run-a.wandb") -> Path:
    """Write a W&B log: run, then a history record for each row, in chunks over blocks of 32 KiB."""
    items = [field(1, field(1, key) + field(16, json.dumps(value))) for key, value in (config or {}).items()]
    records = [field(17, field(1, "abc") + field(4, b"".join(items)) + field(8, "a run"))]
    for i, row in enumerate(rows):
        cells = {"_step": _step(row), "_timestamp": 1.7e9 + i, **row}
        history = b"".join(field(1, field(2, key) + field(16, json.dumps(value))) for key, value in cells.items())
        records.append(field(1, i + 1) + field(2, history))
    out = bytearray(b":W&B\xe1\xbe\x00")
    for data in records:
        first = True
        while True:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += bytes(left)
                continue
            part, data = data[: left - 7], data[left - 7 :]
            kind = (1 if not data else 2) if first else (4 if not data else 3)
            out += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            first = False
            if not data:
                break
    path = folder / name
    path.write_bytes(bytes(out))
    return path


def mlflow_db(folder: Path, rows: Rows) -> Path:
    """Write the tables of MLflow's SQLite store that hold metrics; `@` is not allowed there."""
    path = folder / "mlflow.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE experiments (experiment_id INTEGER, name TEXT);"
            "CREATE TABLE runs (run_uuid TEXT, name TEXT, lifecycle_stage TEXT);"
            "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
            "CREATE TABLE metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT,"
            " is_nan BOOLEAN);"
            "INSERT INTO runs VALUES ('u1', 'first', 'active');"
        )
        connection.executemany(
            "INSERT INTO metrics VALUES (?, ?, ?, 'u1', ?, 0)",
            [
                (key.replace("@", "_at_"), value, 1_700_000_000_000 + 1000 * i, _step(row))
                for i, row in enumerate(rows)
                for key, value in row.items()
            ],
        )
    connection.close()
    return path


def mlflow_folder(folder: Path, rows: Rows) -> Path:
    """Write MLflow's file store."""
    store = folder / "mlruns"
    run = store / "1" / "u1"
    (run / "tags").mkdir(parents=True)
    (run / "meta.yaml").write_text("run_id: u1\n")
    (run / "tags" / "mlflow.runName").write_text("first")
    files: dict[str, list[str]] = {}
    for i, row in enumerate(rows):
        for key, value in row.items():
            files.setdefault(key.replace("@", "_at_"), []).append(
                f"{1_700_000_000_000 + 1000 * i} {value!r} {_step(row)}"
            )
    for key, content in files.items():
        path = run / "metrics" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(content) + "\n")
    return store


def trackio(folder: Path, rows: Rows) -> Path:
    """Write trackio's SQLite file."""
    path = folder / "project.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, run_name TEXT, step INTEGER,"
            " metrics TEXT);"
            "CREATE TABLE configs (id INTEGER PRIMARY KEY, run_id TEXT, run_name TEXT, config TEXT, created_at TEXT);"
        )
        connection.executemany(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES ('u1', ?, 'first', ?, ?)",
            [
                (f"2026-11-30T02:{i // 60:02}:{i % 60:02}+00:00", _step(row), json.dumps(dict(row)))
                for i, row in enumerate(rows)
            ],
        )
    connection.close()
    return path


WRITERS: dict[str, Callable[[Path, Rows], Path]] = {
    "verl file": verl_file,
    "flat JSON lines": flat_lines,
    "CSV": csv_file,
    "console": console,
    "scalars in JSON": scalars_json,
    "TensorBoard": tensorboard,
    "TensorBoard of TF2": tensorboard2,
    "W&B": wandb_file,
    "W&B history": wandb_history,
    "MLflow SQLite": mlflow_db,
    "MLflow folder": mlflow_folder,
    "trackio": trackio,
}
"""Kind of log -> what writes rows as that kind, into a folder, and returns the path to read."""


def trl_state(folder: Path, rows: Rows) -> Path:
    """Write the state of a Trainer, with TRL's names."""
    history: list[dict[str, Any]] = []
    for row in rows[1:]:
        history.append({"step": _step(row), "step_time": row["timing_s/step"], "reward": 0.1})
        if SCORE in row:
            history.append({"step": _step(row), "eval_runtime": 600.0, "eval_rewards/acc/mean": row[SCORE]})
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history, "global_step": len(rows) - 1}))
    return path


def receipt(trace):
    return trace.metadata["receipt"]


def verl(tmp_path, rows, name="exp.jsonl"):
    return verl_file(tmp_path, rows, name)


def lines(tmp_path, rows, name="metrics.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def flat(tmp_path, rows, name="metrics.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
