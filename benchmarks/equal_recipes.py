"""Are equal recipes told apart where the noise is slow?

    python benchmarks/equal_recipes.py [--pairs 100] [--jobs 2] [--json out.json]

Two recipes (or twelve) with the same curve, to 16,000 GPU-hours, in worlds of benchmarks/off_the_law.py: how often a
pair is called higher or lower, on `A` or on `R` at 100,000 GPU-hours, and how often the headline is decided. Then pairs
that rise in two phases, of different height: how often the right one has a stated probability above .975.
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import itertools
import time
import warnings
from multiprocessing import Pool

import numpy as np

from _common import SEED, Check
from off_the_law import ar1, random_walk, slow, usual
from rlscaling import compare, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid

C = np.linspace(0.0, 16_000.0, 76)
SEEDS = 0.015  # sd of A between runs of one recipe, as the paper has it
WORLDS = {
    "correlation .97": (slow, 2, 0.0, 0.07),
    "random walk of .001 a step": (random_walk, 2, 0.0, 0.10),
    "correlation .97, twelve recipes": (slow, 12, 0.0, 0.10),
    "usual noise, seeds that differ": (usual, 2, SEEDS, None),
}
TOLD = ("higher", "lower")


def fits_of(world: str, k: int) -> dict[str, object]:
    noise, n, spread, _ = WORLDS[world]
    rng = np.random.default_rng([SEED, 4, k, sum(map(ord, world))])
    ceilings = 0.61 + spread * rng.standard_normal(n)
    scores = [sigmoid(C, A, 1.92, 2542.0, 0.35) + noise(rng, C) for A in ceilings]
    return {f"r{j}": fit_sigmoid(C, np.clip(y, 0.0, 1.0)) for j, y in enumerate(scores)}


def equal(task: tuple[str, int]) -> tuple[bool, bool]:
    """Return whether a pair of equal recipes is told apart, and whether the headline is decided."""
    world, k = task
    found = compare(fits_of(world, k), rng=k, n_resamples=400)
    pairs = itertools.combinations(found.names, 2)
    told = any(found.pair_verdict(x, y, on=on) in TOLD for x, y in pairs for on in ("A", "R"))
    return told, found.decided


def two_phase(k: int) -> tuple[float, bool]:
    """Return the probability stated for one of two runs that rise in two phases, and whether it is the higher one."""
    rng = np.random.default_rng([SEED, 5, k])
    fits, ends = {}, []
    for name in "xy":
        first, second = rng.uniform(0.10, 0.20), rng.uniform(0.05, 0.15)

        def curve(at: np.ndarray, first: float = first, second: float = second) -> np.ndarray:
            later = second / (1.0 + (12_000.0 / np.maximum(at, 1.0)) ** 4.0)
            return sigmoid(at, 0.35 + first, 2.0, 1500.0, 0.35) + later

        seen = C[C <= 8000.0]
        fits[name] = fit_sigmoid(seen, curve(seen) + ar1(rng, seen, 300.0, 0.005))
        ends.append(float(curve(np.array([100_000.0]))[0]))
    found = compare(fits, rng=k, n_resamples=400)
    return found.probability_better("x", "y"), ends[0] > ends[1]


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    began, checks = time.time(), []
    warnings.simplefilter("ignore")
    print(f"{args.pairs} comparisons each\n{'':36}{'told apart':>11}{'decided':>9}")
    with Pool(args.jobs) as pool:
        for world, (_, _, _, limit) in WORLDS.items():
            found = np.array(pool.map(equal, [(world, k) for k in range(args.pairs)], chunksize=2))
            told, decided = found.mean(axis=0)
            print(f"{world:36}{told:11.2f}{decided:9.2f}", flush=True)
            if limit is not None:
                checks.append(Check(f"{world}: told apart", float(told), limit, False, ""))
            checks.append(Check(f"{world}: decided", float(decided), 0.07, False, ""))
        stated = pool.map(two_phase, range(args.pairs), chunksize=2)
    sure = [(p > 0.5) == higher for p, higher in stated if max(p, 1.0 - p) > 0.975]
    right = float(np.mean(sure)) if sure else 1.0
    print(f"two phases: {len(sure)} of {args.pairs} stated above .975, right {right:.2f}; {time.time() - began:.0f} s")
    checks.append(Check("two phases, stated above .975: right", right, 0.95, True, ""))
    return _common.finish("equal recipes", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
