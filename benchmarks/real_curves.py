"""Is the first word right on real curves? Verdicts and intervals at a half, a quarter and an eighth of real runs.

    python benchmarks/real_curves.py [--data ../shared/data] [--jobs 2] [--drift MEDIAN NONE] [--json out.json]

Every curve of the two folders of real runs (`traces`, `traces2`) is cut at a half, a quarter and an eighth of its
compute and fitted with the default options; the truth is its plateau, the mean of the last tenth. The repositories fall
into two halves. The first alone does not tell the priors of the departures apart (`solver/departures.py`): they were
chosen by `off_the_law.py`. One rule, that a jump is weak at best, came from a cut of the second half. Without the data
it says so and exits with 0.
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from _common import Check
from _real_runs import FIRST_HALF, curves
from rlscaling import RLScalingError, fit_sigmoid
from rlscaling.fitting.verdict import Verdict

CUTS = (2, 4, 8)
LEAST = 7  # evaluations before the cut
NARROW = 0.10
STRONG, P_STRONG = 0.6, 0.01  # Spearman's correlation that plainly is a rise
CALLED = (Verdict.IDENTIFIED, Verdict.APPROXIMATE)


@dataclass(frozen=True)
class Cut:
    """The beginning of a real curve, and the plateau that it came to."""

    curve: str
    repository: str
    bounded: bool
    factor: int
    compute: tuple[float, ...]
    score: tuple[float, ...]
    plateau: float


@dataclass(frozen=True)
class Outcome:
    """What was said at a cut."""

    cut: Cut
    verdict: Verdict
    A: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return abs(self.A - self.cut.plateau)

    @property
    def held(self) -> bool:
        return self.low <= self.cut.plateau <= self.high

    @property
    def plainly_rises(self) -> bool:
        y = np.array(self.cut.score)
        if np.ptp(y) == 0.0:
            return False
        rank, p = spearmanr(np.arange(len(y)), y)
        return bool(rank > STRONG and p < P_STRONG)


def cuts(folder: Path) -> Iterator[Cut]:
    for curve in curves(folder):
        plateau = float(curve.score[-max(1, round(len(curve.score) / 10)) :].mean())
        for factor in CUTS:
            seen = curve.compute <= curve.compute[-1] / factor
            if seen.sum() >= LEAST:
                C, y = tuple(curve.compute[seen].tolist()), tuple(curve.score[seen].tolist())
                yield Cut(curve.name, curve.repository, curve.bounded, factor, C, y, plateau)


def outcome(cut: Cut) -> Outcome | None:
    options = {} if cut.bounded else {"A_max": np.inf}
    try:
        fit = fit_sigmoid(cut.compute, cut.score, compute_unit="steps", min_compute=0, **options)
    except RLScalingError as error:
        warnings.warn(f"{cut.curve}, 1/{cut.factor}: {error}", stacklevel=1)
        return None
    low, high = (fit.confidence_interval or {"A": (-np.inf, np.inf)})["A"]
    return Outcome(cut, fit.verdict, fit.A, low, high)


def share(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def table(title: str, outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Print one table and return its numbers."""
    bounded = [o for o in outcomes if o.cut.bounded]
    numbers: dict[str, float] = {"cuts": len(outcomes)}
    print(f"\n{title}: {len(outcomes)} cuts, {len(bounded)} of them of pass rates")
    print(f"  {'verdict':24}{'cuts':>5}{'A within .02':>14}{'within .05':>12}{'interval holds':>16}")
    for verdict in Verdict:
        mine = [o for o in bounded if o.verdict is verdict]
        if not mine:
            continue
        near, close = share([o.error < 0.02 for o in mine]), share([o.error < 0.05 for o in mine])
        held = share([o.held for o in mine])
        numbers |= {f"{verdict} n": len(mine), f"{verdict} .02": near, f"{verdict} .05": close, f"{verdict} held": held}
        print(f"  {verdict:24}{len(mine):5}{near:14.2f}{close:12.2f}{held:16.2f}")
    told = [o for o in bounded if o.verdict in CALLED]
    flat = [o for o in outcomes if o.verdict is Verdict.FLAT]
    rising = [o for o in outcomes if o.plainly_rises]
    numbers |= {"told": len(told), "told held": share([o.held for o in told])}
    numbers |= {f"told {x}": share([o.error < float(f"0{x}") for o in told]) for x in (".02", ".05")}
    numbers |= {"rising called flat": sum(o.plainly_rises for o in flat), "rising": len(rising)}
    print(f"  told (identified or approximate): {len(told)}; within .02 {numbers['told .02']:.2f}, ", end="")
    print(f"within .05 {numbers['told .05']:.2f}, ", end="")
    print(f"interval holds {numbers['told held']:.2f}")
    for factor in CUTS:
        narrow = [o for o in bounded if o.cut.factor == factor and o.high - o.low < NARROW and o.verdict.has_curve]
        numbers |= {f"narrow {factor}": share([o.held for o in narrow]), f"narrow n {factor}": len(narrow)}
        print(
            f"  interval narrower than {NARROW:g} at 1/{factor}: {len(narrow)}, holds {numbers[f'narrow {factor}']:.2f}"
        )
    print(f"  plainly rising (Spearman > {STRONG:g}, p < {P_STRONG:g}): {len(rising)}; ", end="")
    print(f"called flat: {numbers['rising called flat']}")
    return numbers


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--drift", type=float, nargs=2, metavar=("MEDIAN", "NONE"), help="another prior of the drift")
    args, there = _common.with_real_curves(parser)
    if not there:
        return 0
    began = time.time()
    with Pool(args.jobs, _common.set_drift, (args.drift,)) as pool:
        outcomes = [o for o in pool.imap(outcome, cuts(args.data), chunksize=2) if o is not None]
    first = [o for o in outcomes if o.cut.repository in FIRST_HALF]
    second = [o for o in outcomes if o.cut.repository not in FIRST_HALF]
    for title, half in (("first half", first), ("second half", second)):
        print(f"{title}: {', '.join(f'{name} ({n})' for name, n in Counter(o.cut.repository for o in half).items())}")
    table("first half", first)
    scored = table("second half", second)
    both = table("both halves", outcomes)
    n_curves = len({o.cut.curve for o in outcomes})
    n_repositories = len({o.cut.repository for o in outcomes})
    print(f"\n{len(outcomes)} cuts of {n_curves} curves of {n_repositories} repositories, {time.time() - began:.0f} s")
    rising = "plainly rising runs called flat"
    checks = [
        Check("second half, told: A within .05", scored["told .05"], 0.92, True, ""),
        Check("second half, told: interval holds the plateau", scored["told held"], 0.90, True, ""),
        Check("both halves, told: A within .05", both["told .05"], 0.92, True, ""),
        Check("both halves, told: interval holds the plateau", both["told held"], 0.90, True, ""),
        Check("both halves, told: cuts", both["told"], 15, True, ""),
        Check(f"both halves, {rising}, share", both["rising called flat"] / both["rising"], 0.01, False, ""),
    ]
    return _common.finish("verdicts on real curves", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
