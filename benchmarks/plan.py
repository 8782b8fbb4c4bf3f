"""Does the band of a plan hold the run length that is really needed?

    python benchmarks/plan.py [--series 200] [--json out.json]

Runs of batch-2048 and ScaleRL (Table 1, R0 0.30, an evaluation every 216.2 GPU-hours, noise 0.6/0.006) seen to 1 to 2
C_mid. A run length is enough when the 95 % errors of the least-squares `A` are within 0.02: 2.75 C_mid for
batch-2048 and 3.74 C_mid for ScaleRL, which this script confirms by fits of whole runs (R0 known within 0.0028).
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import time

import numpy as np

from _common import SEED, Check
from rlscaling import fit_sigmoid, plan
from rlscaling.solver.problem import Problem
from rlscaling.solver.variable_projection import solve
from simulation import CUTOFF, draw, evaluations, truth

NEEDED = {"bs2048": 2.75, "scalerl": 3.74}  # of C_mid
RHO, SD = 0.6, 0.006
R0_ERROR = 0.0028


def error_of_A(row: str, times: float, n: int) -> float:
    """Return the half-width that holds 95 % of the errors of A after ``times`` C_mid, R0 known to `R0_ERROR`."""
    params = truth(row)
    C = evaluations(times * params[2])
    kept = C >= CUTOFF
    rng = np.random.default_rng([SEED, 1])
    Y = np.array([draw(params, C, RHO, SD, rng)[kept] for _ in range(n)])
    R0 = params[3] + R0_ERROR * rng.standard_normal(n)
    A = [solve(Problem(C[kept], np.ones(kept.sum()), R0=r), y).A[0] for y, r in zip(Y, R0, strict=True)]
    return float(np.quantile(np.abs(np.array(A) - params[0]), 0.95))


def bands(row: str, seen: float, n: int) -> np.ndarray:
    """Return low, median and high of the plans of ``n`` runs seen to ``seen`` C_mid, in C_mid, shape (n, 3)."""
    params = truth(row)
    C = evaluations(seen * params[2])
    found = []
    for k in range(n):
        fit = fit_sigmoid(C, draw(params, C, RHO, SD, np.random.default_rng([SEED, 2, k])))
        needed = plan(fit, rng=k).needed
        ends = (C[-1],) * 3 if needed is None else (needed.low, needed.median, needed.high)
        found.append(np.array(ends) / params[2])
    return np.array(found)


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    parser.add_argument("--series", type=int, default=200)
    args = parser.parse_args()
    began, checks = time.time(), []
    print("needed: 95 % of the errors of A after so many C_mid")
    for row, times in NEEDED.items():
        print(f"  {row}: {times:g} C_mid: {error_of_A(row, times, 2 * args.series):.4f}", flush=True)
    print(
        "\nplans: median over runs of low, median, high of the band, in C_mid; how often the band holds what is needed"
    )
    for row, seen in (("bs2048", 1.5), ("bs2048", 1.0), ("bs2048", 2.0), ("scalerl", 2.0)):
        band, needed = bands(row, seen, args.series), NEEDED[row]
        held = float(np.mean((band[:, 0] <= needed) & (needed <= band[:, 2])))
        low, median, high = np.median(band, axis=0)
        spread = np.quantile(band[:, 1], [0.1, 0.9])
        print(
            f"  {row} seen to {seen:g}: {low:.1f} {median:.1f} {high:.1f} (10-90 % of the medians {spread[0]:.1f} to "
            f"{spread[1]:.1f}); needed {needed:g}, held {held:.3f}",
            flush=True,
        )
        if (row, seen) == ("bs2048", 1.5):
            checks.append(Check("bs2048 seen to 1.5 C_mid: band holds 2.75 C_mid", held, 0.75, True, ""))
    print(f"{time.time() - began:.0f} s")
    return _common.finish("plans", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
