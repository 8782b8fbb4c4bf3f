"""Which of the paper's findings appear on the small task: every axis of ScaleRL left out in turn, and its rivals.

    python benchmarks/trainer_recipes.py --out runs-recipes --jobs 2

Several seeds a recipe, paired by seed with ``scalerl``: the same held-out prompts, initial weights and warm-up.
Pass rates are the mean of the last five evaluations. A difference is called when its 95 % interval, from the seeds,
leaves out zero.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _common import arguments, versions
from _training import fit_on_steps, on_steps, reached, rows, train_all
from rlscaling.printing.document import text_table
from rlscaling.printing.numbers import number
from rlscaling.trainer import make_config

REFERENCE = "scalerl"
FIVE = (REFERENCE, "loo-8op", "scalerl-lag8")
THREE = ("loo-dapo", "loo-plan", "loo-savg", "loo-batch", "loo-fp32", "loo-npr", "gspo", "baseline")
T95 = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776}  # Student's t, two-sided 95 %, by number of pairs
TARGET = 0.5  # pass rate whose modelled compute the schedules are compared on
STEPS = 1600
BATCH = {
    "prompts_per_step": 64,
    "generations": 8,
}  # twice the default prompts: a run is 16 epochs, and the curriculum counts
UNSTABLE = {"task": "addition", "lr": 2e-3, "steps": 800}
STABLE = {"task": "addition", "steps": 800}


def summary(path: Path) -> dict[str, Any]:
    """Return what one run came to."""
    trace, updates = on_steps(path), rows(path, "train")
    fit = fit_on_steps(trace)
    evals = rows(path, "eval")
    at = next((row["modelled_gpu_hours"] for row in evals if row["pass_rate"] >= TARGET), None)
    noise = np.abs(np.diff(trace.pass_rate[len(trace) // 2 :]))
    return {
        "reached": reached(trace),
        "A": fit.A,
        "verdict": str(fit.verdict),
        "lag": statistics.fmean(row["lag_mean"] for row in updates if row["lag_mean"] is not None),
        "idle": statistics.fmean(row["idle_fraction"] for row in updates),
        "modelled": evals[-1]["modelled_gpu_hours"],
        "at_target": at,
        "jump": float(noise.max()),
    }


def difference(runs: Sequence[dict[str, Any]], reference: Sequence[dict[str, Any]], key: str) -> tuple[float, float]:
    """Return the mean of the paired differences and the half-width of its 95 % interval."""
    pairs = [a[key] - b[key] for a, b in zip(runs, reference, strict=False)]
    return statistics.fmean(pairs), T95[len(pairs)] * statistics.stdev(pairs) / len(pairs) ** 0.5


def called(mean: float, half: float) -> str:
    return "undecided" if abs(mean) <= half else "lower" if mean < 0 else "higher"


def recipe_table(by_recipe: dict[str, list[dict[str, Any]]]) -> str:
    """Return one row a recipe: what was reached, against the reference."""
    lines = []
    for name, runs in by_recipe.items():
        mean, half = difference(runs, by_recipe[REFERENCE], "reached")
        against = "" if name == REFERENCE else f"{mean:+.3f} ± {half:.3f}"
        lines.append(
            [
                name,
                str(len(runs)),
                number(statistics.fmean(run["reached"] for run in runs), 3),
                against,
                "" if name == REFERENCE else called(mean, half),
                number(statistics.median(run["A"] for run in runs), 3),
                number(statistics.fmean(run["lag"] for run in runs), 1),
                number(max(run["jump"] for run in runs), 3),
            ]
        )
    header = ["recipe", "seeds", "reached", "minus scalerl", "", "A (median)", "lag", "largest jump"]
    return text_table(lines, header)


def schedule_table(by_recipe: dict[str, list[dict[str, Any]]]) -> str:
    """Return PipelineRL-8 and PPO-off-policy-8 on the modelled cluster."""
    lines = []
    for name in (REFERENCE, "loo-8op"):
        runs = by_recipe[name]
        at = [run["at_target"] for run in runs if run["at_target"] is not None]
        lines.append(
            [
                {"loo-8op": "PPO-off-policy-8"}.get(name, "PipelineRL-8"),
                number(statistics.fmean(run["idle"] for run in runs), 3),
                number(statistics.fmean(run["modelled"] for run in runs), 2),
                f"{number(statistics.fmean(at), 2)} ({len(at)} of {len(runs)} seeds)",
                number(statistics.fmean(run["reached"] for run in runs), 3),
            ]
        )
    return text_table(lines, ["schedule", "idle fraction", "device-hours, all", f"device-hours to {TARGET}", "reached"])


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--out", type=Path, help="keep the runs here, and read those that are there")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side (default: 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(options.out or Path(folder), options.jobs)
    return 0


def compare(out: Path, processes: int) -> None:
    """Train every run that is not in the folder, and print what they came to."""
    seeds = {name: range(5 if name in FIVE else 3) for name in (*FIVE, *THREE)}
    jobs = {
        f"{name}-{seed}": make_config(name, seed=seed, steps=STEPS, **BATCH)
        for name, own in seeds.items()
        for seed in own
    }
    jobs |= {"addition": make_config(**STABLE, **BATCH), "addition-unstable": make_config(**UNSTABLE, **BATCH)}
    paths = train_all(jobs, out, processes)
    by_recipe = {name: [summary(paths[f"{name}-{seed}"]) for seed in own] for name, own in seeds.items()}
    print(recipe_table(by_recipe))
    print()
    print(schedule_table(by_recipe))
    print()
    for name in ("addition", "addition-unstable"):
        run = summary(paths[name])
        print(f"  {name} (lr {jobs[name].lr:g}): {run['verdict']}, reached {run['reached']:.3f}")
    print("  " + ", ".join(f"{key} {value}" for key, value in versions("torch", "numpy").items()))


if __name__ == "__main__":
    sys.exit(main())
