"""Equal ceilings and different exponents: how often is the answer right, and how often a false alarm?

    python benchmarks/equivalence.py [--pairs 200] [--jobs 2] [--json out.json]

Pairs of runs of 16,000 GPU-hours, noise of correlation 0.6 and sd 0.006, R0 = 0.30. `compare` gives the verdict on A
(margin 0.02); B is compared as the paper does, with one common ceiling re-estimated in every draw. The last column is
what the common ceiling does to the difference of B where the true ceilings differ. Exits with 1 when a target is
missed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
from multiprocessing import Pool

import lmfit
import numpy as np
import scipy

import rlscaling
from rlscaling import compare, fit_sigmoid
from simulation import NOISE, R0, draw, evaluations

END, NOISE_KIND, MARGIN = 16000.0, "middle", 0.02
SCALERL = (0.610, 1.92, 2542.0, R0)
CASES = {  # true parameters of x and y
    "identical": (SCALERL, SCALERL),
    "A differs by the margin": (SCALERL, (0.590, 1.92, 2542.0, R0)),
    "B 1.92 against 2.44": (SCALERL, (0.610, 2.44, 2542.0, R0)),
    "ScaleRL against batch 512": (SCALERL, (0.605, 1.77, 2818.0, R0)),
    "ScaleRL against 8 generations": (SCALERL, (0.585, 2.44, 2542.0, R0)),
}


def one(task: tuple[str, int]) -> dict[str, object]:
    """Return what is said of one pair."""
    case, k = task
    rng = np.random.default_rng([2510, 13786, 5, list(CASES).index(case), k])
    C = evaluations(END)
    fits = {
        name: fit_sigmoid(C, draw(truth, C, *NOISE[NOISE_KIND], rng))
        for name, truth in zip("xy", CASES[case], strict=True)
    }
    comparison = compare(fits, rng=k, margin=MARGIN)
    refit = comparison.with_common_ceiling("x", "y")
    x, y = comparison.recipes
    low, high = comparison.interval(x.exponents() - y.exponents())
    return {
        "A": str(comparison.pair_verdict("x", "y")),
        "B": str(refit.pair_verdict("x", "y")),
        "B_free": "undecided" if low <= 0 <= high else "different",
        "dB": float(refit.B[0] - refit.B[1]),
        "dB_free": float(refit.B_free[0] - refit.B_free[1]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()
    began = time.time()
    print(
        f"rlscaling {rlscaling.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, lmfit "
        f"{lmfit.__version__}"
    )
    print(
        f"{args.pairs} pairs a case, 1000 draws each, {END:g} GPU-hours, noise {NOISE[NOISE_KIND]}, margin {MARGIN}\n"
    )
    header = ("A equal", "A different", "B different", "same, own A", "dB", "dB own A", "dB true")
    print(f"{'':30} " + " ".join(f"{h:>11}" for h in header))
    table = {}
    with Pool(args.jobs) as pool:
        for case, (x, y) in CASES.items():
            rows = pool.map(one, [(case, k) for k in range(args.pairs)], chunksize=5)
            share = {
                "equal": np.mean([row["A"] == "equal" for row in rows]),
                "different": np.mean([row["A"] in ("higher", "lower") for row in rows]),
                "B": np.mean([row["B"] != "undecided" for row in rows]),
                "B_free": np.mean([row["B_free"] != "undecided" for row in rows]),
                "dB": np.mean([row["dB"] for row in rows]),
                "dB_free": np.mean([row["dB_free"] for row in rows]),
            }
            table[case] = {name: float(value) for name, value in share.items()}
            print(f"{case:30} " + " ".join(f"{v:11.3f}" for v in (*table[case].values(), x[1] - y[1])), flush=True)
    margin = np.sqrt(0.1 * 0.9 / args.pairs)
    print(f"\nbinomial error of a share at 0.10: {margin:.3f}")
    null, edge, power = (table[case] for case in list(CASES)[:3])
    checks = {
        "identical: A called different in at most 0.10": null["different"] <= 0.10,
        "identical: B called different in at most 0.10": null["B"] <= 0.10,
        "A differs by the margin: called equal in at most 0.10": edge["equal"] <= 0.10,
        "B 1.92 against 2.44: called different in at least 0.90, common A": power["B"] >= 0.90,
    }
    for what, held in checks.items():
        print(("ok     " if held else "MISSED ") + what)
    print(f"{time.time() - began:.0f} s")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"cases": table, "pairs": args.pairs}, file, indent=1)
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
