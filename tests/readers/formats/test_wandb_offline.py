"""W&B's own files: records over several blocks, and a damaged one."""

from __future__ import annotations

from helpers import log_files
from rlscaling import read_trace


def test_wandb_records_that_span_blocks_and_lose_one(tmp_path):
    rows = [
        {"_step": i, "timing_s/step": 36.0, "val-core/m/acc/mean@4": i / 5000, "x" * 2000: 1.0} for i in range(1, 200)
    ]
    path = log_files.wandb_file(tmp_path, rows)
    assert path.stat().st_size > 4 * 32768
    whole = read_trace(path, n_gpus=100)
    assert len(whole) == 199
    data = bytearray(path.read_bytes())
    data[40_000] ^= 0xFF
    path.write_bytes(data)
    partial = read_trace(path, n_gpus=100)
    assert 199 * 0.7 < len(partial) < 199
    assert any("blocks of run-a.wandb are damaged" in note for note in partial.notes)
