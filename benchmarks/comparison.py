"""P(X beats Y at 100,000 GPU-hours): is it right as often as it says, and better than the i.i.d. bootstrap?

    python benchmarks/comparison.py [--pairs 300] [--jobs 2] [--json out.json]

Random pairs of recipes: A 0.56 to 0.66, B 1.5 to 2.5, C_mid 1,800 to 4,000, one R0 (0.30); runs of 8,000 to 16,000
GPU-hours with one of three kinds of correlated noise. Stated is the probability of the recipe that is called better;
actual is how often it is. Also how often the intervals hold the truth: of the difference, of the compute multiplier,
and of the last crossing (infinite where the true curves do not cross). Exits with 1 when a target is missed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
from multiprocessing import Pool

import numpy as np
import scipy

import rlscaling
from rlscaling import bootstrap, compare, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid, sigmoid_inverse
from simulation import NOISE, R0, draw, evaluations

BUDGET = 1e5
KINDS = ("low", "middle", "high")
BINS = ((0.9, 0.975), (0.975, 1.0001))


def one(k: int) -> dict[str, float]:
    """Return what is stated and what is true of one pair."""
    rng = np.random.default_rng([2510, 13786, k])
    noise = NOISE[KINDS[k % len(KINDS)]]
    truths, fits = {}, {}
    for name in ("x", "y"):
        truths[name] = (rng.uniform(0.56, 0.66), rng.uniform(1.5, 2.5), rng.uniform(1800, 4000), R0)
        C = evaluations(rng.uniform(8000, 16000))
        fits[name] = fit_sigmoid(C, draw(truths[name], C, *noise, rng))
    comparison = compare(fits, rng=k)
    draws = {name: bootstrap(fit, scheme="residual", rng=k).distribution for name, fit in fits.items()}
    curves = {name: sigmoid(BUDGET, *d.T) for name, d in draws.items()}
    iid = float((curves["x"] > curves["y"]).mean())
    actual = float(sigmoid(BUDGET, *truths["x"]) > sigmoid(BUDGET, *truths["y"]))
    low, high = comparison.R_pairs.low[0], comparison.R_pairs.high[0]
    true = float(sigmoid(BUDGET, *truths["x"]) - sigmoid(BUDGET, *truths["y"]))
    crossing, times = comparison.crossover("x", "y"), comparison.multiplier("x", "y")
    grid = np.geomspace(crossing.low, crossing.high, 100_000)
    above = sigmoid(grid, *truths["x"]) > sigmoid(grid, *truths["y"])
    changes = np.flatnonzero(above[1:] != above[:-1])
    true_crossing = float(grid[changes[-1]]) if len(changes) else np.inf
    reach = [float(sigmoid_inverse(times.pass_rate, *truths[name])) for name in ("x", "y")]
    return {
        "stated": comparison.probability_better("x", "y"),
        "iid": iid,
        "actual": actual,
        "held": float(low <= true <= high),
        "crossing": float(crossing.confidence_interval[0] <= true_crossing <= crossing.confidence_interval[1]),
        "multiplier": float(times.confidence_interval[0] <= reach[1] / reach[0] <= times.confidence_interval[1]),
        "noise": k % len(KINDS),
    }


def calibration(p: np.ndarray, actual: np.ndarray) -> list[tuple[int, float, float]]:
    """Return number, mean stated and mean actual of the favoured recipe, in each bin."""
    favoured = np.where(p >= 0.5, p, 1.0 - p)
    right = np.where(p >= 0.5, actual, 1.0 - actual)
    rows = []
    for low, high in BINS:
        inside = (favoured >= low) & (favoured < high)
        rows.append((int(inside.sum()), float(favoured[inside].mean()), float(right[inside].mean())))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()
    began = time.time()
    print(f"rlscaling {rlscaling.__version__}, numpy {np.__version__}, scipy {scipy.__version__}")
    print(f"{args.pairs} pairs, 1000 draws each, noise {', '.join(KINDS)} in turn, budget {BUDGET:g} GPU-hours\n")
    with Pool(args.jobs) as pool:
        rows = pool.map(one, range(args.pairs), chunksize=5)
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    actual = column["actual"]
    brier = {name: float(np.mean((column[name] - actual) ** 2)) for name in ("stated", "iid")}
    print(
        f"{'':24} {'Brier':>6}   " + "   ".join(f"{low:g} to {min(high, 1):g}: n, stated, actual" for low, high in BINS)
    )
    found = {name: calibration(column[name], actual) for name in ("stated", "iid")}
    for name, label in (("stated", "compare"), ("iid", "i.i.d. bootstrap")):
        cells = "   ".join(f"{n:6d} {s:10.3f} {a:12.3f}" for n, s, a in found[name])
        print(f"{label:24} {brier[name]:6.3f}   {cells}")
    kinds = {"held": "difference at 100k", "multiplier": "compute multiplier", "crossing": "last crossing"}
    print("\n95 % intervals hold the truth: " + ", ".join(f"{t} {column[k].mean():.3f}" for k, t in kinds.items()))
    checks = {
        "stated above 0.9 within 0.07 of actual": all(abs(s - a) <= 0.07 for _, s, a in found["stated"]),
        "Brier score below that of the i.i.d. bootstrap": brier["stated"] < brier["iid"],
    }
    for what, held in checks.items():
        print(("ok     " if held else "MISSED ") + what)
    print(f"{time.time() - began:.0f} s")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"brier": brier, "calibration": found, "pairs": args.pairs}, file, indent=1)
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
