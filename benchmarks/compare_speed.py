"""How long a comparison takes: 8 recipes with one common ceiling, and 100 runs, with 1,000 draws each, on one core.

    python benchmarks/compare_speed.py [--json PATH]

Times are CPU seconds of this process; memory is its peak. The 100 runs are fitted beforehand; comparing them includes
everything that is printed. A check of the joint refit: lmfit's ceiling against the solver's.
"""

from __future__ import annotations

from _common import SEED, Check, arguments, finish, versions  # before numpy: it keeps BLAS on one thread

# isort: split
import resource
import time

import numpy as np

from rlscaling import compare, fit_sigmoid
from rlscaling.comparing.compare import Comparison
from rlscaling.comparing.joint_fit import common_ceiling
from simulation import NOISE, R0, draw, evaluations

JOINT_LIMIT, COMPARE_LIMIT, MEMORY_LIMIT = 5.0, 60.0, 500.0  # s, s, MB
N_JOINT, N_RUNS, N_DRAWS = 8, 100, 1000


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def recipes(n: int, rng: np.random.Generator, one_ceiling: bool) -> dict[str, object]:
    """Return fits of ``n`` simulated recipes of 16,000 GPU-hours."""
    C = evaluations(16000.0)
    fits = {}
    for k in range(n):
        A = 0.61 if one_ceiling else rng.uniform(0.56, 0.66)
        truth = (A, rng.uniform(1.5, 2.5), rng.uniform(1800, 4000), R0)
        fits[f"recipe-{k:03d}"] = fit_sigmoid(C, draw(truth, C, *NOISE["middle"], rng))
    return fits


def joint(comparison: Comparison) -> tuple[float, float]:
    """Refit all recipes with a common ceiling in every draw; return CPU seconds and lmfit's A less the solver's."""
    comparison.with_common_ceiling(*comparison.names[:2])  # imports lmfit
    start = time.process_time()
    refit = comparison.with_common_ceiling()
    seconds = time.process_time() - start
    group, R0_shared = comparison.group, np.array([comparison.R0])
    observed = [group.observed(i) for i in range(len(group.models))]
    A, _ = common_ceiling(group.models, observed.__getitem__, R0_shared, np.array([refit.A]), point=True)
    return seconds, abs(refit.A - float(A[0]))


def main() -> int:
    args = arguments(__doc__ or "").parse_args()
    rng = np.random.default_rng(SEED)
    seconds, off = joint(compare(recipes(N_JOINT, rng, one_ceiling=True), rng=0, n_resamples=N_DRAWS))
    fits = recipes(N_RUNS, rng, one_ceiling=False)
    before, start = peak(), time.process_time()
    comparison = compare(fits, rng=0, n_resamples=N_DRAWS)
    text = str(comparison)
    took, memory = time.process_time() - start, peak()
    checks = [
        Check(f"{N_JOINT} recipes, one ceiling, {N_DRAWS} draws", seconds, JOINT_LIMIT, False, "s"),
        Check("its point fit: lmfit's A less the solver's", off, 1e-6, False, ""),
        Check(f"{N_RUNS} runs compared and printed, {N_DRAWS} draws each", took, COMPARE_LIMIT, False, "s"),
        Check("peak memory of the process", memory, MEMORY_LIMIT, False, "MB", f"{before:.0f} MB before"),
    ]
    more = {"lines": len(text.splitlines()), "common_ceiling": list(comparison.leaders_by_A)}
    return finish("compare_speed", checks, versions("rlscaling", "numpy", "scipy", "lmfit"), args.json, more)


if __name__ == "__main__":
    raise SystemExit(main())
