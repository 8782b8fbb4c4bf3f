"""Do ten times the replicates, or ten times the points, cost more than ten times the time? And the memory?

CPU time of this process, the sizes taking turns; the ratio is the median over the rounds. The memory is the peak
resident size of a process of its own that draws 100,000 replicates.
"""

from __future__ import annotations

import _common as common

# isort: split
import statistics
import subprocess
import sys

import numpy as np

from rlscaling import bootstrap, fit_sigmoid
from simulation import NOISE, STEP, draw, truth

LAST = 16_000.0


def series(n_times: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one ScaleRL run with 68 x ``n_times`` evaluations after the cutoff, and the one at compute 0."""
    C = np.arange(0, int(LAST / STEP) * n_times + 1) * (STEP / n_times)
    return C, draw(truth("scalerl"), C, *NOISE["middle"], np.random.default_rng(common.SEED))


def peak_memory(n_resamples: int) -> float:
    """Return the peak resident size, in MB (10^6 bytes), of a process that fits and draws ``n_resamples``.

    An upper bound: on Linux the peak of a child starts at the size of its parent.
    """
    code = (
        "import sys, resource, growth\n"
        f"growth.whole(growth.series(1), {n_resamples})\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(peak * (1 if sys.platform == 'darwin' else 1024))\n"
    )
    folder = str(common.Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return int(done.stdout) / 1e6


def whole(data: tuple[np.ndarray, np.ndarray], n_resamples: int) -> object:
    """Do the whole default: fit, verdict, resamples, intervals."""
    return bootstrap(fit_sigmoid(*data), n_resamples=n_resamples, rng=0).confidence_interval


def main() -> int:
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--replicates", type=int, default=100_000, help="for the memory")
    options = parser.parse_args()
    short, long = series(1), series(10)
    tasks = [
        lambda: [whole(short, 1000) for _ in range(4)],
        lambda: whole(short, 10_000),
        lambda: whole(long, 1000),
        lambda: [fit_sigmoid(*short) for _ in range(10)],
        lambda: [fit_sigmoid(*long) for _ in range(2)],
    ]
    base, replicates, points, fit, fit_points = common.interleaved(tasks, options.rounds)
    base, fit, fit_points = ([t / k for t in column] for column, k in ((base, 4), (fit, 10), (fit_points, 2)))

    def check(name: str, more: list[float], less: list[float]) -> common.Check:
        note = f"{1e3 * statistics.median(more):.1f} ms / {1e3 * statistics.median(less):.1f} ms"
        return common.Check(name, common.median_ratio(more, less), 11.0, False, note=note)

    small, large = peak_memory(1000), peak_memory(options.replicates)
    checks = [
        check("time, 10x the replicates (1,000 to 10,000)", replicates, base),
        check("time, 10x the points (68 to 680)", points, base),
        check("time of fit_sigmoid, 10x the points", fit_points, fit),
        common.Check(
            f"peak memory, {options.replicates:,} replicates", large, 500.0, False, "MB", f"1,000: {small:.0f} MB"
        ),
    ]
    about = common.versions("rlscaling", "numpy", "scipy")
    seconds = {"base": base, "replicates": replicates, "points": points, "fit": fit, "fit_points": fit_points}
    return common.finish("Growth, one core", checks, about, options.json, {"seconds": seconds})


if __name__ == "__main__":
    sys.exit(main())
