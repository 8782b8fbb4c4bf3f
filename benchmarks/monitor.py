"""How often does a monitor cry wolf, and how soon does it notice?

    python benchmarks/monitor.py [--runs 1000] [--jobs 2] [--json out.json]

Healthy runs of three rows of Table 1 with three kinds of noise, fitted to 1.5 or 3 C_mid and run on to twice that:
alarms among them (at most 1 in 100 is the promise). The same runs with a planted change half-way through: the
pass rate declines by 0.005 or 0.01 an evaluation, or drops by 0.05 at once: evaluations until the alarm. Then healthy
runs with other noise than is assumed: growing along the run, 1/f, with a slow component, with 3 % outliers.
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import multiprocessing
import time

import numpy as np

from _common import SEED, Check
from off_the_law import ar1, long_memory, slow
from rlscaling import Trace, fit_trace, monitor
from rlscaling.curves.sigmoid import sigmoid
from simulation import ROWS, draw, evaluations, truth

NOISES = ((0.3, 0.003), (0.6, 0.006), (0.8, 0.010))
SEEN = (1.5, 3.0)  # of C_mid
CHANGES = {"declines by 0.005": 0.005, "declines by 0.01": 0.01, "drops by 0.05": None}
MOST = 300  # evaluations of a run


def one(k: int) -> tuple[float, bool, dict[str, float]] | None:
    """Return how far run ``k`` was seen, whether it raises an alarm while healthy, and the delays of planted changes.

    Delays are in evaluations: inf where it goes unnoticed, nan where an alarm came before it.
    """
    row, (rho, sd), seen = tuple(ROWS)[k % 3], NOISES[k // 3 % 3], SEEN[k // 9 % 2]
    params, rng = truth(row), np.random.default_rng([SEED, 3, k])
    C = evaluations(2.0 * seen * params[2])
    C = C[:: len(C) // (MOST // 2)] if len(C) > MOST else C
    y = draw(params, C, rho, sd, rng)
    try:
        fit = fit_trace(Trace(C, y), max_compute=seen * params[2])
    except ValueError:
        return None
    if not fit.verdict.has_curve or fit.n_points < 7:
        return None
    start = int(np.searchsorted(C, 1.5 * fit.compute_range[1]))
    since = np.maximum(np.arange(len(C)) - start + 1, 0)
    delays = {}
    for name, slope in CHANGES.items():
        lost = 0.05 * (since > 0) if slope is None else slope * since
        alarms = [alarm.compute for alarm in monitor(Trace(C, np.clip(y - lost, 0.0, 1.0)), fit).alarms]
        at = int(np.searchsorted(C, alarms[0])) if alarms else None
        delays[name] = np.inf if at is None else np.nan if at < start else float(at - start + 1)
    return seen, bool(monitor(Trace(C, y), fit).alarms), delays


def grows(rng: np.random.Generator, C: np.ndarray) -> np.ndarray:
    return ar1(rng, C, 300.0, 0.004) * (1.0 + C / C[-1])


def outliers(rng: np.random.Generator, C: np.ndarray) -> np.ndarray:
    return ar1(rng, C, 300.0, 0.005) + 0.03 * rng.standard_normal(len(C)) * (rng.random(len(C)) < 0.03)


OTHER_NOISE = {"noise that grows": grows, "1/f": long_memory, "correlation .97": slow, "3 % outliers": outliers}


def other(task: tuple[str, int]) -> bool | None:
    """Return whether a healthy run with other noise raises an alarm."""
    name, k = task
    params, rng = truth("scalerl"), np.random.default_rng([SEED, 6, k, sum(map(ord, name))])
    seen = SEEN[k % 2]
    C = np.linspace(0.0, 2.0 * seen * params[2], 100)
    y = np.clip(sigmoid(C, *params) + OTHER_NOISE[name](rng, C), 0.0, 1.0)
    fit = fit_trace(Trace(C, y), max_compute=seen * params[2], min_compute=0)
    if not fit.verdict.has_curve:
        return None
    return bool(monitor(Trace(C, y), fit).alarms)


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side (default: 1)")
    args = parser.parse_args()
    began = time.time()
    with multiprocessing.Pool(args.jobs) as pool:
        found = [result for result in pool.map(one, range(args.runs), chunksize=5) if result is not None]
    false = sum(alarm for _, alarm, _ in found)
    print(f"healthy runs: {false} alarms in {len(found)}")
    print("planted changes: evaluations until the alarm, 10, 50 and 90 % of the runs; unnoticed to the end")
    for seen in SEEN:
        print(f"  fitted to {seen:g} C_mid")
        for name in CHANGES:
            delays = np.array([delay[name] for far, _, delay in found if far == seen])
            delays = delays[~np.isnan(delays)]
            low, median, high = np.quantile(delays, [0.1, 0.5, 0.9], method="nearest")
            print(f"    {name:18} {low:4.0f} {median:4.0f} {high:4.0f}   {np.mean(np.isinf(delays)):.3f}")
    checks = []
    with multiprocessing.Pool(args.jobs) as pool:
        for name in OTHER_NOISE:
            alarms = [a for a in pool.map(other, [(name, k) for k in range(args.runs)], chunksize=5) if a is not None]
            share, allowed = float(np.mean(alarms)), 0.01 + 1.64 * np.sqrt(0.01 * 0.99 / len(alarms))
            print(f"healthy runs, {name}: {sum(alarms)} alarms in {len(alarms)}")
            checks.append(Check(f"alarms, {name}", share, float(allowed), False, ""))
    print(f"{time.time() - began:.0f} s")
    allowed = 0.01 + 1.64 * np.sqrt(0.01 * 0.99 / len(found))  # what a true 1 % would pass 19 times in 20
    checks.insert(0, Check("alarms among healthy runs", false / len(found), float(allowed), False, ""))
    return _common.finish("monitor", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
