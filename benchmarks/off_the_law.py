"""Do the verdict and the interval of A hold where a run leaves the sigmoid, or its noise is no AR(1)?

    python benchmarks/off_the_law.py [--runs 150] [--jobs 2] [--drift MEDIAN NONE] [--json out.json]

Simulated runs like those of the paper (base curve: the row `scalerl` of Table 1 with R0 .25 to .35, evaluations every
211 GPU-hours, default options) in worlds that are plausible and that no other benchmark has: slow and long-memory
noise, dense or irregular evaluations, an early evaluation off the curve, resumes and steps, and curves that approach
their ceiling otherwise than a sigmoid. "A" is the level that the world tends to (at 100,000 hours if it never stops).
Printed are how often the 95 % interval of A holds it, how often R at twice the data, what was said, and how many of the
`identified` runs were off by more than .02.
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pool

import numpy as np

from _common import Check
from rlscaling import bootstrap, datasets, extrapolate, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.fitting.verdict import Verdict

BASE = datasets.table1()["scalerl"]
FAR = 100_000.0
Curve = Callable[[np.ndarray], np.ndarray]
Noise = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def ar1(rng: np.random.Generator, C: np.ndarray, length: float, sd: float) -> np.ndarray:
    """Return a stationary wander whose correlation falls by e over ``length`` GPU-hours."""
    z = rng.standard_normal(len(C))
    rho = np.exp(-np.diff(C) / length) if length > 0 else np.zeros(len(C) - 1)
    for t in range(1, len(C)):
        z[t] = rho[t - 1] * z[t - 1] + np.sqrt(1.0 - rho[t - 1] ** 2) * z[t]
    return sd * z


def usual(rng: np.random.Generator, C: np.ndarray) -> np.ndarray:
    return ar1(rng, C, 300.0, 0.005) + 0.002 * rng.standard_normal(len(C))


def slow(rng: np.random.Generator, C: np.ndarray) -> np.ndarray:
    return ar1(rng, C, 6_900.0, 0.006) + 0.006 * rng.standard_normal(len(C))


def random_walk(rng: np.random.Generator, C: np.ndarray) -> np.ndarray:
    return np.cumsum(0.001 * rng.standard_normal(len(C))) + 0.005 * rng.standard_normal(len(C))


def long_memory(rng: np.random.Generator, C: np.ndarray) -> np.ndarray:
    """Noise whose power goes like 1 over frequency."""
    m = 4 * len(C)
    power = np.zeros(m // 2 + 1)
    power[1:] = np.arange(1, m // 2 + 1) ** -0.5
    z = np.fft.irfft(power * (rng.standard_normal((2, len(power))) * [[1], [1j]]).sum(axis=0), m)
    return 0.008 * z[: len(C)] / z.std()


def dense(length: float, sd: float, white: float) -> Noise:
    return lambda rng, C: ar1(rng, C, length, sd) + white * rng.standard_normal(len(C))


@dataclass(frozen=True)
class World:
    """What is special about a world: its curve, noise, evaluations, or what is done to the scores."""

    end: float = 16_000.0
    n: int = 76
    noise: Noise = usual
    curve: Callable[[np.random.Generator], tuple[Curve, float]] | None = None
    irregular: bool = False
    shift: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray] | None = None
    held: float = 0.85  # how often A's interval has to hold; lower where the data cannot show how A is approached


def law(rng: np.random.Generator) -> tuple[Curve, float]:
    R0 = float(rng.uniform(0.25, 0.35))
    return lambda C: sigmoid(C, BASE.A, BASE.B, BASE.C_mid, R0), BASE.A


def of_share(
    A: float, share: Callable[[np.ndarray], np.ndarray]
) -> Callable[[np.random.Generator], tuple[Curve, float]]:
    """Return a curve from R0 to A that has gone ``share`` of the way at ``C / 2500``."""

    def make(rng: np.random.Generator) -> tuple[Curve, float]:
        R0, scale = float(rng.uniform(0.25, 0.35)), 2500.0 * float(rng.uniform(0.8, 1.2))
        return lambda C: R0 + (A - R0) * share(np.maximum(np.asarray(C, dtype=float), 1e-9) / scale), A

    return make


def plus(extra: Curve) -> Callable[[np.random.Generator], tuple[Curve, float]]:
    """Return the law with something added to it; its level is that at 100,000 GPU-hours."""

    def make(rng: np.random.Generator) -> tuple[Curve, float]:
        curve, _ = law(rng)
        return lambda C: curve(C) + extra(np.asarray(C, dtype=float)), float(
            curve(np.array(FAR)) + extra(np.array(FAR))
        )

    return make


def first_off(size: float) -> Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]:
    return lambda rng, C, y: np.concatenate([[y[0] + size], y[1:]])


def resumed(rng: np.random.Generator, C: np.ndarray, y: np.ndarray) -> np.ndarray:
    return y + rng.normal(0.0, 0.01) * (C > 0.5 * C[-1])


WORLDS = {
    "the law": World(),
    "wander, correlation .97": World(noise=slow),
    "random walk of .001 a step": World(noise=random_walk),
    "noise 1/f": World(noise=long_memory),
    "3,000 evaluations": World(n=3000, noise=dense(400.0, 0.006, 0.006)),
    "1,000 evaluations, slow wander, to 6,000": World(6_000.0, 1000, dense(1500.0, 0.006, 0.010)),
    "1,000 evaluations, slow wander": World(n=1000, noise=dense(1500.0, 0.006, 0.010)),
    "300 evaluations, to 6,000": World(6_000.0, 300, dense(400.0, 0.006, 0.006)),
    "irregular distances, to 6,000": World(6_000.0, 60, dense(400.0, 0.006, 0.003), irregular=True),
    "first evaluation -.20, to 6,000": World(6_000.0, 29, shift=first_off(-0.20)),
    "first evaluation -.10, to 6,000": World(6_000.0, 29, shift=first_off(-0.10)),
    "first evaluation +.10, to 6,000": World(6_000.0, 29, shift=first_off(0.10)),
    "resumed with a shift of .01": World(shift=resumed),
    "step of +.02 half-way": World(curve=plus(lambda C: 0.02 * (C >= 8_000.0))),
    "two-phase rise, to 8,000": World(8_000.0, 38, curve=plus(lambda C: 0.1 * sigmoid(C, 1.0, 2.5, 11_000.0, 0.0))),
    "log drift of .02 a doubling": World(curve=plus(lambda C: 0.02 * np.log1p(C / 5_000.0)), held=0.70),
    "arctangent, B 3": World(curve=of_share(0.64, lambda x: 0.5 + np.arctan(3.0 * np.log(x)) / np.pi), held=0.70),
    "arctangent, B 1.5": World(curve=of_share(0.64, lambda x: 0.5 + np.arctan(1.5 * np.log(x)) / np.pi), held=0.45),
    "stretched exponential": World(curve=of_share(0.61, lambda x: 1.0 - np.exp(-((x / 1.6) ** 0.6))), held=0.70),
    "Gompertz, B 1.2": World(curve=of_share(0.62, lambda x: np.exp(-(x**-1.2)))),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What was said of one run."""

    verdict: Verdict
    error: float
    held: bool
    held_at_twice: bool
    width: float


def outcome(task: tuple[str, int]) -> Outcome:
    name, k = task
    world, rng = WORLDS[name], np.random.default_rng([2510, k, sum(map(ord, name))])
    curve, A = (world.curve or law)(rng)
    C = np.linspace(0.0, world.end, world.n)
    if world.irregular:
        C = np.concatenate([[0.0], np.sort(rng.uniform(100.0, world.end, world.n - 1))])
    y = curve(C) + world.noise(rng, C)
    y = np.clip(y if world.shift is None else world.shift(rng, C, y), 0.0, 1.0)
    fit = fit_sigmoid(C, y)
    boot = bootstrap(fit, n_resamples=400, rng=k)
    low, high = boot.confidence_interval["A"]
    twice = extrapolate(fit, 2.0 * C[-1], bootstrap=boot).confidence_interval.at(0)
    true = float(curve(np.array(2.0 * C[-1])))
    return Outcome(fit.verdict, fit.A - A, low <= A <= high, twice[0] <= true <= twice[1], high - low)


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--drift", type=float, nargs=2, metavar=("MEDIAN", "NONE"), help="another prior of the drift")
    args = parser.parse_args()
    began, checks, wrong, called = time.time(), [], 0, 0
    print(f"{args.runs} runs a world\n{'':42}{'A held':>7}{'R(2x)':>7}{'width':>7}  identified  off by > .02  verdicts")
    with Pool(args.jobs, _common.set_drift, (args.drift,)) as pool:
        for name, world in WORLDS.items():
            runs = pool.map(outcome, [(name, k) for k in range(args.runs)], chunksize=5)
            held, twice = (float(np.mean([getattr(r, a) for r in runs])) for a in ("held", "held_at_twice"))
            identified = [r for r in runs if r.verdict is Verdict.IDENTIFIED]
            off = sum(abs(r.error) > 0.02 for r in identified)
            wrong, called = wrong + off, called + len(identified)
            width = float(np.median([r.width for r in runs]))
            said = ", ".join(f"{verdict} {n}" for verdict, n in Counter(str(r.verdict) for r in runs).most_common())
            print(f"{name:42}{held:7.2f}{twice:7.2f}{width:7.3f}{len(identified):12}{off:14}  {said}", flush=True)
            checks.append(Check(f"{name}: interval of A holds", held, world.held, True, ""))
    checks.append(Check("identified runs that are off by more than .02", wrong / max(called, 1), 0.10, False, ""))
    print(f"{time.time() - began:.0f} s")
    return _common.finish("off the law", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
