"""Generator and trainer ranks on this machine: waiting of both schedules, speed and memory of one and two trainers.

    python benchmarks/several_devices.py             # three runs one after the other, three ranks at most

The idle fraction is measured: rank-seconds spent waiting over all rank-seconds. PipelineRL's gain is that it is small;
PPO-off-policy-k leaves each side idle while the other works. Memory per
trainer rank must halve. Tokens per second are those of the wall clock, so they depend on what else the machine does and
on its cores: with two of them a third rank takes its time from the others. They are printed and not judged.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _common import SEED, Check, arguments, finish, versions  # first: it keeps BLAS on one thread
from _ranks import torchrun

K = 8
FIRST = 2 * K  # steps left out: the pipeline fills
MODEL = ["--d-model=64", "--n-layers=2", "--d-ff=192", "--n-digits=8", "--n-kv-heads=4"]
COMMON = [
    "--threads=1", f"--seed={SEED}", f"--k={K}", "--prompts-per-step=16", "--generations=8", "--eval-every=100000",
    "--eval-prompts=8", "--eval-samples=2", "--warmup-steps=20", "--checkpoint-every=0", "--zero-variance=keep", *MODEL,
]  # fmt: skip


def train(folder: Path, steps: int, ranks: int, schedule: str) -> list[dict[str, Any]]:
    """Train and return the rows of the steps after the first few."""
    run = ["--out", str(folder), f"--steps={steps}", f"--schedule={schedule}", f"--trainers={ranks - 1}", *COMMON]
    done = subprocess.run(torchrun(ranks, "-m", "rlscaling.trainer", *run), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    rows = (json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines())
    return [row for row in rows if row["kind"] == "train" and row["step"] > FIRST]


def speed(rows: list[dict[str, Any]]) -> float:
    """Completion tokens per wall-clock second."""
    seconds = [row["seconds_generate"] + row["seconds_train"] for row in (rows[0], rows[-1])]
    return (rows[-1]["tokens_generated"] - rows[0]["tokens_generated"]) / (seconds[1] - seconds[0])


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=FIRST + 5 * K)
    options = parser.parse_args()
    runs = {}
    with tempfile.TemporaryDirectory() as out:
        three = (("pipeline", 2, "pipeline"), ("ppo", 2, "ppo-off-policy"), ("pipeline, 2 trainers", 3, "pipeline"))
        for name, ranks, schedule in three:
            runs[name] = train(Path(out) / name, options.steps, ranks, schedule)
    one, ppo, two = runs
    idle = {name: statistics.mean(row["idle_fraction"] for row in rows) for name, rows in runs.items()}
    tokens = {name: speed(rows) for name, rows in runs.items()}
    memory = {name: rows[-1]["peak_state_bytes"] for name, rows in runs.items()}
    lag = max(row["lag_max"] or 0 for rows in (runs[one], runs[two]) for row in rows)
    checks = [
        Check("idle: PipelineRL over PPO-off-policy", idle[one] / idle[ppo], 0.6, False, "x", _pair(idle, one, ppo)),
        Check("state per rank: 1 over 2 trainers", memory[one] / memory[two], 1.95, True, "x", _pair(memory, one, two)),
        Check("oldest token at its use, updates", lag, K, False, ""),
    ]
    print("  run                    tokens/s   idle   MB of state per trainer rank")
    for name in runs:
        print(f"  {name:<22} {tokens[name]:8,.0f}  {idle[name]:.3f}   {memory[name] / 1e6:.3f}")
    title = "Training on several ranks of one machine"
    more: dict[str, object] = {"idle": idle, "tokens_per_second": tokens, "state_bytes": memory}
    return finish(title, checks, versions("rlscaling", "torch"), options.json, more)


def _pair(values: dict[str, Any], first: str, second: str) -> str:
    return f"{values[first]:.6g} against {values[second]:.6g}"


if __name__ == "__main__":
    sys.exit(main())
