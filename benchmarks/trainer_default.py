"""The default run of the trainer: its time, its rise, and the ceiling that a fit finds against the true one.

    python benchmarks/trainer_default.py                  # three whole runs, one after the other, on an idle machine
    python benchmarks/trainer_default.py --early 20       # and the first 60 % of twenty runs: does the interval hold?

Whole runs are timed and must have the machine to themselves; the early ones may run side by side (``--jobs``).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from _common import Check, arguments, finish, versions
from _training import fit_on_steps, on_steps, rows, train_all
from rlscaling import bootstrap, fit_trace
from rlscaling.printing.numbers import interval
from rlscaling.trainer import make_config

SEEDS = (0, 1, 2)
EARLY = 0.6  # share of a run that an early forecast sees
REQUIRED = 17 / 20
CUTOFFS: tuple[float | str, ...] = ("epoch", 200, 240, 300)  # steps; the first is the one that is required


def whole_runs(out: Path) -> tuple[list[Check], list[dict[str, object]]]:
    """Train the default recipe with three seeds; return what each must satisfy, and its numbers."""
    runs = []
    for seed in SEEDS:
        (path,) = train_all({f"seed-{seed}": make_config(seed=seed)}, out, processes=1).values()
        trace = on_steps(path)
        fit = fit_on_steps(trace)
        truth = trace.metadata["ceilings"][trace.metadata["domain"]]
        runs.append(
            {
                "seed": seed,
                "seconds": rows(path, "eval")[-1]["wall_time"],
                "first": float(trace.pass_rate[0]),
                "last": float(trace.pass_rate[-1]),
                "verdict": str(fit.verdict),
                "A": fit.A,
                "ci": fit.confidence_interval["A"],
                "ceiling": truth,
            }
        )
    worst = {
        "seconds of a run, the longest": (max(run["seconds"] for run in runs), 180, False, "s"),
        "pass rate at the start, the highest": (max(run["first"] for run in runs), 0.08, False, ""),
        "pass rate at the end, the lowest": (min(run["last"] for run in runs), 0.55, True, ""),
        "A away from the ceiling, the most": (max(abs(run["A"] - run["ceiling"]) for run in runs), 0.03, False, ""),
    }
    return [Check(name, *values[:3], unit=values[3]) for name, values in worst.items()], runs


def early_runs(n: int, out: Path, jobs: int) -> tuple[Check, list[dict[str, object]]]:
    """Train the first part of ``n`` runs; return how many intervals of A hold the ceiling."""
    steps = round(EARLY * make_config().steps)
    paths = train_all({f"early-{seed}": make_config(seed=seed, steps=steps) for seed in range(n)}, out, jobs)
    traces = [on_steps(path).up_to(steps) for path in paths.values()]
    runs = []
    for cutoff in CUTOFFS:
        for seed, trace in enumerate(traces):
            fit = fit_trace(trace, min_compute=cutoff)
            low, high = bootstrap(fit, rng=seed).confidence_interval["A"]
            holds = low <= trace.metadata["ceilings"][trace.metadata["domain"]] <= high
            runs.append(
                {"cutoff": cutoff, "seed": seed, "verdict": str(fit.verdict), "ci": (low, high), "holds": holds}
            )
    n_held = {cutoff: sum(bool(run["holds"]) for run in runs if run["cutoff"] == cutoff) for cutoff in CUTOFFS}
    note = f"of {n} seeds, {steps} steps; by cutoff: " + ", ".join(f"{cut} {count}" for cut, count in n_held.items())
    name = "95 % intervals of A that hold the ceiling"
    return Check(name, n_held["epoch"] / n, REQUIRED, at_least=True, unit="", note=note), runs


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--early", type=int, default=0, metavar="N", help="also the first 60 %% of N runs (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="early runs side by side (default: 1)")
    parser.add_argument("--out", type=Path, help="keep the runs here, and go on with those that are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = options.out or Path(folder)
        checks, runs = whole_runs(out)
        for run in runs:
            print(
                f"  seed {run['seed']}: {run['seconds']:.0f} s, {run['first']:.3f} -> {run['last']:.3f}, "
                f"{run['verdict']}, A {run['A']:.3f} {interval(*run['ci'])}, ceiling {run['ceiling']:.3f}"
            )
        more = {"runs": runs}
        if options.early:
            check, more["early"] = early_runs(options.early, out, options.jobs)
            checks.append(check)
    return finish("The default run of the trainer", checks, versions("torch", "numpy"), options.json, dict(more))


if __name__ == "__main__":
    sys.exit(main())
