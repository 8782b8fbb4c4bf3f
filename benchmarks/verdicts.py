"""Do the verdicts mean what they say? Simulated runs of all lengths and noises, and how far A was off in each class.

    python benchmarks/verdicts.py [--series 800] [--json out.json]

Data end at 0.4 to 16 C_mid (log-uniform), rho 0.3 to 0.8, sd 0.003 to 0.010, the ten rows of Table 1, R0 0.2 to 0.35, a
step-0 evaluation present. Also the false alarms of flat, falling and misfit, and whether the promised run length
("run to about X GPU-hours to know A to 0.02") was right. Exits with 1 when a target is missed.
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
from rlscaling import FitError, datasets, fit_sigmoid
from rlscaling.fitting.verdict import Verdict
from simulation import CUTOFF, STEP, draw, evaluations

LONGEST = 16.0  # C_mid
CALLED = (Verdict.IDENTIFIED, Verdict.APPROXIMATE)


def one(k: int) -> dict[str, object] | None:
    """Return one simulated run's truth and verdict."""
    rng = np.random.default_rng([2510, k])
    rows = list(datasets.table1().values())
    row = rows[int(rng.integers(len(rows)))]
    params = (row.A, row.B, row.C_mid, float(rng.uniform(0.2, 0.35)))
    end = float(np.exp(rng.uniform(np.log(0.4), np.log(LONGEST))))
    rho, sd = float(rng.uniform(0.3, 0.8)), float(rng.uniform(0.003, 0.010))
    C = evaluations(max(end * row.C_mid, CUTOFF + 7 * STEP))
    if len(C) > 400:
        C = C[:: len(C) // 200]
    y = draw(params, C, rho, sd, rng)
    try:
        fit = fit_sigmoid(C, y)
    except FitError:
        return None
    needed = fit.compute_needed
    ratio = None
    if needed is not None and np.isfinite(needed.median):  # run as far as was said, and look
        longer = np.arange(0, min(int(needed.median / np.median(np.diff(C))) + 1, 3000)) * np.median(np.diff(C))
        again = fit_sigmoid(longer, draw(params, longer, rho, sd, rng))
        low, high = (again.confidence_interval or {"A": (0.0, 1.0)})["A"]
        ratio = 0.5 * (high - low)
    ci = (fit.confidence_interval or {"A": (0.0, 1.0)})["A"]
    return {
        "end": C[-1] / row.C_mid, "n": fit.n_points, "rho": rho, "sd": sd, "verdict": str(fit.verdict),
        "error": fit.A - row.A, "held": bool(ci[0] <= row.A <= ci[1]), "executed": ratio,
    }  # fmt: skip


def flat(k: int) -> str:
    """Return the verdict on a constant run."""
    rng = np.random.default_rng([2511, k])
    C = evaluations(float(rng.uniform(3300.0, 20000.0)))
    y = draw((0.3, 1.0, 5000.0, 0.3), C, float(rng.uniform(0.0, 0.8)), float(rng.uniform(0.003, 0.010)), rng)
    return str(fit_sigmoid(C, y).verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=800)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()
    began = time.time()
    print(f"rlscaling {rlscaling.__version__}, numpy {np.__version__}, scipy {scipy.__version__}\n")
    with Pool(args.jobs) as pool:
        runs = [r for r in pool.map(one, range(args.series), chunksize=8) if r is not None]
        constant = pool.map(flat, range(args.series // 2), chunksize=8)
    print(f"{'verdict':24} share  median|err|  95%|err|  P(<=.02)  P(<=.05)  held")
    for verdict in Verdict:
        chosen = [r for r in runs if r["verdict"] == verdict]
        if chosen:
            e = np.abs([r["error"] for r in chosen])
            print(
                f"{verdict:24} {len(chosen) / len(runs):5.3f} {np.median(e):12.4f} {np.quantile(e, 0.95):9.4f} "
                f"{np.mean(e <= 0.02):9.3f} {np.mean(e <= 0.05):9.3f} {np.mean([r['held'] for r in chosen]):5.2f}"
            )
    identified = np.abs([r["error"] for r in runs if r["verdict"] == Verdict.IDENTIFIED])
    called = np.abs([r["error"] for r in runs if r["verdict"] in CALLED])
    late = [r for r in runs if r["end"] >= 4.0 and r["n"] >= 40 and r["rho"] <= 0.6]
    late_called = np.mean([r["verdict"] in CALLED for r in late])
    near = [r for r in runs if abs(r["error"]) <= 0.02]
    flagged = sum(r["verdict"] not in CALLED for r in near)
    off = sum(abs(r["error"]) > 0.05 for r in runs if r["verdict"] in CALLED)
    print(
        f"\nestimates within 0.02: {len(near)}, of which called weak or worse: {flagged}; off by > 0.05 and not: {off}"
    )
    executed = np.array([r["executed"] for r in runs if r["executed"] is not None])
    print(f"\nconstant runs called: { {v: constant.count(v) for v in sorted(set(constant))} }")
    print(
        f"half-width of A after running as far as was said ({len(executed)} runs): median {np.median(executed):.3f}, "
        f"10-90 % {np.quantile(executed, 0.1):.3f} to {np.quantile(executed, 0.9):.3f}"
    )
    false_shape = np.mean([r["verdict"] in (Verdict.MISFIT, Verdict.FALLING) for r in runs])
    checks = {
        f"identified: A within 0.02 in >= 97 % ({np.mean(identified <= 0.02):.3f}, n={len(identified)})":
            np.mean(identified <= 0.02) >= 0.97,
        f"identified or approximate: within 0.05 in >= 95 % ({np.mean(called <= 0.05):.3f}, n={len(called)})":
            np.mean(called <= 0.05) >= 0.95,
        f"past 4 C_mid, 40 points, rho <= 0.6: called one of the two in >= 80 % ({late_called:.3f}, n={len(late)})":
            late_called >= 0.80,
        f"healthy runs called misfit or falling in <= 1 % ({false_shape:.4f})": false_shape <= 0.01,
        f"constant runs called flat in >= 95 % ({constant.count('flat') / len(constant):.3f})":
            constant.count("flat") / len(constant) >= 0.95,
    }  # fmt: skip
    for what, held in checks.items():
        print(("ok     " if held else "MISSED ") + what)
    print(f"{time.time() - began:.0f} s")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"runs": runs, "constant": constant}, file)
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
