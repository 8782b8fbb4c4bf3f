"""Write the bundled demo traces again: ``python tools/make_demo_traces.py [FOLDER]``.

They are simulated from rows of the paper's Table 1; nothing was trained. The random seeds were not chosen by their
outcome.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np

from rlscaling.datasets import simulate, table1
from rlscaling.traces.trace import Trace
from rlscaling.traces.trace_files import write_trace

FOLDER = Path(__file__).parents[1] / "src" / "rlscaling" / "datasets" / "data"
STEPS_BETWEEN = 100  # the paper evaluates every 100 training steps
# row of Table 1: (GPU-hours between evaluations, last GPU-hours, seed). The paper's 7,400 steps at batch 2048 took
# 100,000 GPU-hours, and 1,000 steps at batch 768 about 1,500; batch 512 is taken to cost in proportion to 768.
RUNS = {
    "scalerl": (150.0, 16_000.0, 1),
    "batch-2048": (1351.0, 50_000.0, 2),
    "batch-512": (100.0, 16_000.0, 3),
}


def demo_run(row: str) -> Trace:
    """Return the simulated run of one row of Table 1, step 0 included."""
    spacing, end, seed = RUNS[row]
    index = np.arange(int(end / spacing) + 1)
    compute = np.round(index * spacing, 1)
    run = simulate(table1()[row], compute=compute, rho=0.5, wander_sd=0.004, rng=seed, name=row)
    columns = {"step": index * float(STEPS_BETWEEN), **run.columns}
    columns["pass_rate_se"] = columns["pass_rate_se"].round(6)
    about = {
        "run_id": f"demo-{row}",
        "recipe": row,
        "about": f"Simulated from row {row!r} of Table 1 of arXiv 2510.13786 with R0 = 0.35; not a real training run.",
        "table1_row": row,
    }
    return dataclasses.replace(run, columns=columns, metadata={**about, **run.metadata})


def main(folder: Path) -> None:
    """Write the three runs and the first half of the first one."""
    traces = {row: demo_run(row) for row in RUNS}
    traces["scalerl-8k"] = dataclasses.replace(traces["scalerl"].up_to(8000), name="scalerl-8k")
    for name, trace in traces.items():
        write_trace(trace, folder / f"{name}.jsonl", overwrite=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
