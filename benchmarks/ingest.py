"""Ingest of 200 MB of verl's file logs: CPU time against a bare read of four columns, memory, ten times the data.

150 files of 500 steps, 75 metrics a line. `rlscaling`'s way finds the metrics, recovers the GPU count, sums GPU-hours,
joins evaluations and hashes the inputs; the bare read is `pyarrow.json` told the four columns by hand.

    python benchmarks/ingest.py              # 200 MB and a tenth of it
    python benchmarks/ingest.py --files 1500 # 2 GB and a tenth of it
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from _common import Check, arguments, finish, interleaved, median_ratio, versions

SCORE = "val-core/math_dapo/acc/mean@16"
FOUR = (SCORE, "perf/total_num_tokens", "perf/throughput", "perf/time_per_step")
STEPS, EVERY, REPEATS = 500, 20, 5


def write_logs(folder: Path, n_files: int) -> list[Path]:
    """Write logs as verl 0.9 does, 75 metrics a line."""
    import numpy as np

    others = [f"actor/metric_{i}" for i in range(62)]
    files = []
    for i in range(n_files):
        rng = np.random.default_rng(i)
        lines = [json.dumps({"step": 0, "data": {SCORE: 0.25}})]
        noise = rng.random((STEPS, len(others)))
        for step in range(1, STEPS + 1):
            seconds = 300 + 30 * rng.standard_normal()
            tokens = 2.5e7 * (1 + 0.05 * rng.standard_normal())
            hours = step * 256 * 300 / 3600
            row = {
                "training/global_step": step, "training/epoch": step // 100, "critic/score/mean": -0.5,
                "actor/entropy": 0.3, "response_length/mean": 4000.0 + step, "response_length/clip_ratio": 0.05,
                "timing_s/step": seconds, "timing_s/gen": 0.6 * seconds, "perf/time_per_step": seconds,
                "perf/total_num_tokens": tokens, "perf/throughput": tokens / (256 * seconds),
                **dict(zip(others, noise[step - 1].tolist(), strict=True)),
            }  # fmt: skip
            if step % EVERY == 0:
                clean = 0.25 + 0.36 / (1 + (2542 / hours) ** 1.92)
                row |= {SCORE: clean + 0.004 * rng.standard_normal(), "timing_s/testing": 600.0}
            lines.append(json.dumps({"step": step, "data": row}))
        path = folder / f"run-{i:04}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        files.append(path)
    return files


def bare(files: list[Path]) -> None:
    """Read four columns with pyarrow and nothing else."""
    import pyarrow as pa
    import pyarrow.json as pj

    inner = pa.struct([(key, pa.float64()) for key in FOUR])
    schema = pa.schema([("step", pa.int64()), ("data", inner)])
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for file in files:
        table = pj.read_json(file, read_options=pj.ReadOptions(use_threads=False), parse_options=options)
        assert table.num_rows == STEPS + 1


def ingest(files: list[Path]) -> None:
    """Read the runs as `rlscaling ingest` does."""
    from rlscaling import read_traces

    traces = read_traces(files)
    for trace in traces.values():
        assert len(trace) == STEPS // EVERY + 1
        assert abs(trace.metadata["n_gpus"] - 256) < 1e-9


def peak(folder: Path) -> float:
    """Return the peak memory, in MB, of a process that reads every log in a folder."""
    script = (
        "import resource, sys; from pathlib import Path; from rlscaling import read_traces; "
        "read_traces(sorted(Path(sys.argv[1]).glob('*.jsonl'))); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)
    unit = 1024 if sys.platform != "darwin" else 1
    return int(done.stdout) * unit / 1e6


def main() -> int:
    """Write, read, compare."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--files", type=int, default=150, help="logs to write (default: 150, 200 MB)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_logs(folder, args.files)
        size = sum(file.stat().st_size for file in files) / 1e6
        tenth = files[: max(1, args.files // 10)]
        ours, theirs, small = interleaved([lambda: ingest(files), lambda: bare(files), lambda: ingest(tenth)], REPEATS)
        memory = peak(folder)
    growth = median_ratio(ours, small) / (len(files) / len(tenth))
    speed = size / min(ours)
    checks = [
        Check("CPU time over a bare pyarrow.json read", median_ratio(ours, theirs), 1.5, at_least=False),
        Check("peak memory", memory, 250, at_least=False, unit="MB"),
        Check("ten times the data, time over ten times", growth, 1.1, at_least=False),
    ]
    title = f"Ingest of {size:.0f} MB of verl logs in {len(files)} files ({speed:.0f} MB/s of one core)"
    return finish(title, checks, versions("pyarrow", "numpy"), args.json, {"MB": size, "seconds": min(ours)})


if __name__ == "__main__":
    sys.exit(main())
