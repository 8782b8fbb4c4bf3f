"""Does a verdict stay? Runs that grow one evaluation at a time, and what was said of them along the way.

    python benchmarks/flicker.py [--runs 40] [--jobs 2] [--json out.json]

Simulated runs (a row of Table 1, wander of correlation .3 to .8 with sd .003 to .010, 1,000 prompts x 16 samples) are
fitted after each evaluation from the tenth after the cutoff to 8 C_mid. `identified` is withdrawn when a later verdict
is weaker than `approximate`; it was wrong when A was then off by more than .02 (counted at its first mention).
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import itertools
import time
from dataclasses import dataclass
from multiprocessing import Pool

import numpy as np

from _common import Check
from rlscaling import datasets, fit_sigmoid
from rlscaling.fitting.verdict import Verdict
from simulation import CUTOFF, draw

FIRST, LAST, MOST = 10, 8.0, 60  # evaluations after the cutoff, C_mid, and evaluations in all


@dataclass(frozen=True)
class Story:
    """What was said of one growing run."""

    changes: int
    identified: bool
    first_wrong: bool
    withdrawn: bool
    softened: bool


def story(k: int) -> Story:
    rng = np.random.default_rng([2510, k])
    rows = list(datasets.table1().values())
    row = rows[int(rng.integers(len(rows)))]
    params = (row.A, row.B, row.C_mid, float(rng.uniform(0.2, 0.35)))
    C = np.linspace(0.0, max(LAST * row.C_mid, 4.0 * CUTOFF), MOST + 1)
    y = draw(params, C, float(rng.uniform(0.3, 0.8)), float(rng.uniform(0.003, 0.010)), rng)
    said, off = [], []
    for n in range(int(np.searchsorted(C, CUTOFF)) + FIRST, len(C) + 1):
        fit = fit_sigmoid(C[:n], y[:n])
        said.append(fit.verdict)
        off.append(abs(fit.A - row.A) > 0.02)
    changes = sum(a is not b for a, b in itertools.pairwise(said))
    if Verdict.IDENTIFIED not in said:
        return Story(changes, False, False, False, False)
    first = said.index(Verdict.IDENTIFIED)
    later = said[first:]
    withdrawn = any(not verdict.identifies_ceiling for verdict in later)
    return Story(changes, True, off[first], withdrawn, Verdict.APPROXIMATE in later)


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    began = time.time()
    with Pool(args.jobs) as pool:
        stories = pool.map(story, range(args.runs), chunksize=1)
    identified = [s for s in stories if s.identified]
    print(f"{args.runs} growing runs: {np.mean([s.changes for s in stories]):.1f} changes of verdict a run")
    print(f"called identified at some time: {len(identified)}; wrong at the first mention: ", end="")
    print(f"{sum(s.first_wrong for s in identified)}; softened to approximate later: ", end="")
    print(f"{sum(s.softened for s in identified)}; withdrawn later: {sum(s.withdrawn for s in identified)}")
    print(f"{time.time() - began:.0f} s")
    withdrawn, wrong = (sum(getattr(s, a) for s in stories) / args.runs for a in ("withdrawn", "first_wrong"))
    checks = [
        Check("runs of which identified was said and withdrawn", withdrawn, 0.03, False, ""),
        Check("first identified wrong by more than .02", wrong, 0.03, False, ""),
    ]
    return _common.finish("verdicts of growing runs", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
