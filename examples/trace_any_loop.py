"""Write a trace with measured GPU-hours from any training loop, and read it. Runs in a second and needs no GPU.

The loop is a placeholder: replace ``train_step`` and ``evaluate`` by your own, and keep the four numbered lines.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from rlscaling import TraceWriter, read_trace

N_GPUS = 8  # generators and trainers together


def train_step(step: int) -> float:
    """Take a training step (here: sleep for a millisecond) and return the loss."""
    time.sleep(0.001)
    return 1.0 / (1 + step)


def evaluate(step: int) -> float:
    """Return the pass rate on 1,000 held-out prompts."""
    return 0.25 + 0.35 * step / (step + 40)


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "trace.jsonl"
    gpu_hours = 0.0
    with TraceWriter(path, {"recipe": "mine", "seed": 1, "n_gpus": N_GPUS, "compute_unit": "gpu-hours"}) as trace:  # 1
        trace.write("eval", step=0, compute_gpu_hours=0.0, pass_rate=evaluate(0), n_prompts=1000)  # 2: before training
        for step in range(1, 61):
            began = time.perf_counter()
            train_step(step)
            gpu_hours += (time.perf_counter() - began) * N_GPUS / 3600  # 3: training time only, all GPUs
            if step % 5 == 0:
                trace.write(
                    "eval", step=step, compute_gpu_hours=gpu_hours, pass_rate=evaluate(step), n_prompts=1000
                )  # 4
    run = read_trace(path)
    print(run)
    assert len(run) == 13
    assert run.pass_rate[-1] == evaluate(60)


if __name__ == "__main__":
    main()
