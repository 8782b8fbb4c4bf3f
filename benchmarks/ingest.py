"""Ingest of 240 MB of verl's file logs: CPU time against a bare read and `json.loads`, memory, ten times the data.

150 files of 500 steps, 75 metrics a line. `rlscaling`'s way finds the metrics, recovers the GPU count, sums GPU-hours,
joins evaluations and hashes the inputs, as `rlscaling ingest` does. The bare read is `pyarrow.json` over the four
columns that the curve needs, which it is told; `json.loads` parses every line and keeps nothing.

    python benchmarks/ingest.py              # 240 MB and a tenth of it
    python benchmarks/ingest.py --files 1500 # 2.4 GB and a tenth of it
    python benchmarks/ingest.py --without-msgspec --files 40  # what the package is worth; the limits are not kept then
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from _common import Check, arguments, finish, interleaved, median_ratio, versions

SCORE = "val-core/math_dapo/acc/mean@16"
STEPS, EVERY, REPEATS = 500, 20, 5
OTHERS = [
    *(f"actor/{name}" for name in ("pg_loss", "pg_clipfrac", "pg_clipfrac_lower", "ppo_kl", "kl_loss", "grad_norm")),
    "actor/lr",
    *(f"critic/{name}/{of}" for name in ("score", "rewards", "advantages", "returns") for of in ("max", "min")),
    *(f"critic/{name}/mean" for name in ("rewards", "advantages", "returns")),
    *(f"{name}/{of}" for name in ("response_length", "num_turns") for of in ("max", "min")),
    *(f"response_length_non_aborted/{of}" for of in ("mean", "max", "min", "clip_ratio")),
    *(f"prompt_length/{of}" for of in ("mean", "max", "min", "clip_ratio")), "response/aborted_ratio",
    *(f"global_seqlen/{of}" for of in ("min", "max", "minmax_diff", "balanced_min", "balanced_max", "mean")),
    *(f"timing_s/{phase}" for phase in ("start_profile", "generate_sequences", "reshard", "reward", "old_log_prob",
                                        "ref", "adv", "update_actor", "stop_profile", "update_weights")),
    *(f"timing_per_token_ms/{phase}" for phase in ("gen", "ref", "adv", "update_actor")),
    *(f"perf/{name}" for name in ("mfu/actor", "mfu/actor_infer", "max_memory_allocated_gb", "max_memory_reserved_gb",
                                  "cpu_memory_used_gb")),
    *(f"training/rollout_probs_diff_{of}" for of in ("max", "mean", "std")), "num_turns/mean",
    "training/off_policy_share", "rollout_corr/kl",
]  # fmt: skip


def write_logs(folder: Path, n_files: int) -> list[Path]:
    """Write logs as verl 0.9 does, 75 metrics a line."""
    import numpy as np

    files = []
    for i in range(n_files):
        rng = np.random.default_rng(i)
        lines = [json.dumps({"step": 0, "data": {SCORE: 0.25}})]
        noise = rng.random((STEPS, len(OTHERS)))
        for step in range(1, STEPS + 1):
            seconds = 300 + 30 * rng.standard_normal()
            tokens = 2.5e7 * (1 + 0.05 * rng.standard_normal())
            hours = step * 256 * 300 / 3600
            row = {
                "training/global_step": step, "training/epoch": step // 100, "critic/score/mean": -0.5,
                "actor/entropy": 0.3, "response_length/mean": 4000.0 + step, "response_length/clip_ratio": 0.05,
                "timing_s/step": seconds, "timing_s/gen": 0.6 * seconds, "perf/time_per_step": seconds,
                "perf/total_num_tokens": tokens, "perf/throughput": tokens / (256 * seconds),
                **dict(zip(OTHERS, noise[step - 1].tolist(), strict=True)),
            }  # fmt: skip
            if step % EVERY == 0:
                clean = 0.25 + 0.36 / (1 + (2542 / hours) ** 1.92)
                row |= {SCORE: clean + 0.004 * rng.standard_normal(), "timing_s/testing": 600.0}
            lines.append(json.dumps({"step": step, "data": row}))
        path = folder / f"run-{i:04}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        files.append(path)
    return files


def lines(files: list[Path]) -> None:
    """Parse every line with the standard library."""
    for file in files:
        with file.open("rb") as stream:
            assert sum(1 for line in stream if json.loads(line)) == STEPS + 1


def bare(files: list[Path]) -> None:
    """Read the four columns with pyarrow, and nothing else."""
    import pyarrow as pa
    import pyarrow.json as pj

    inner = pa.struct([(name, pa.float64()) for name in (SCORE, "timing_s/step", "perf/throughput")])
    schema = pa.schema([("step", pa.float64()), ("data", inner)])
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pj.ReadOptions(use_threads=False, block_size=1 << 22)
    for file in files:
        table = pj.read_json(pa.BufferReader(file.read_bytes()), read_options=read, parse_options=parse)
        assert table.num_rows == STEPS + 1


def ingest(files: list[Path]) -> None:
    """Read the runs as `rlscaling ingest` does."""
    from rlscaling import read_traces

    traces = read_traces(files, receipt=True)
    for trace in traces.values():
        assert len(trace) == STEPS // EVERY + 1
        assert abs(trace.metadata["n_gpus"] - 256) < 1e-9
        assert len(trace.metadata["receipt"]["files"][0]["sha256"]) == 64


def peak(folder: Path) -> float:
    """Return the peak memory, in MB, of a process that reads every log in a folder.

    Linux's own count of the process (`VmHWM`): what `getrusage` tells begins at the peak of the parent.
    """
    script = (
        "import sys; from pathlib import Path; from rlscaling import read_traces; "
        "read_traces(sorted(Path(sys.argv[1]).glob('*.jsonl')), receipt=True); "
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024 / 1e6


def main() -> int:
    """Write, read, compare."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--files", type=int, default=150, help="logs to write (default: 150, 240 MB)")
    parser.add_argument("--without-msgspec", action="store_true", help="read as where msgspec is missing")
    args = parser.parse_args()
    if args.without_msgspec:
        sys.modules["msgspec"] = None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_logs(folder, args.files)
        size = sum(file.stat().st_size for file in files) / 1e6
        tenth = files[: max(1, args.files // 10)]
        tasks = [lambda: ingest(files), lambda: lines(files), lambda: bare(files), lambda: ingest(tenth)]
        ours, parsed, read, small = interleaved(tasks, REPEATS)
        memory = peak(folder)
    growth = median_ratio(ours, small) / (len(files) / len(tenth))
    speed = size / min(ours)
    checks = [
        Check("CPU time over json.loads of the lines", median_ratio(ours, parsed), 1.5, at_least=False),
        Check("CPU time over a bare pyarrow.json read of four columns", median_ratio(ours, read), 1.5, at_least=False),
        Check("peak memory", memory, 250, at_least=False, unit="MB"),
        Check("ten times the data, time over ten times", growth, 1.1, at_least=False),
    ]
    title = f"Ingest of {size:.0f} MB of verl logs in {len(files)} files ({speed:.0f} MB/s of one core)"
    return finish(title, checks, versions("pyarrow", "numpy"), args.json, {"MB": size, "seconds": min(ours)})


if __name__ == "__main__":
    sys.exit(main())
