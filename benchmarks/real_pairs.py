"""Is the right one of two real runs bet on, and is what the comparison promises true?

    python benchmarks/real_pairs.py [--data ../shared/data] [--pairs 500] [--jobs 2] [--json out.json]

Two curves of one repository and unit are cut at a half or a quarter of their common compute and compared at its end.
Printed are how often the stated probabilities (these runs) came true, how often a decided headline was right, and how
often it bet against a run that plainly stood above at the cut (by .02 or more and by 5 sd of its evaluations), with the
glitches the curves have of themselves. Nothing was tuned on these pairs. Without the data it says so and exits with 0.
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import itertools
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import Pool

import numpy as np

from _common import Check
from _real_runs import Curve, curves
from rlscaling import RLScalingError, compare, fit_sigmoid

CUTS = (0.5, 0.25)
LEAST = 8
LATE = 0.1  # of the evaluations: their mean is where a run ends
PLAINLY, BY = 5.0, 0.02


@dataclass(frozen=True)
class Outcome:
    """What was said of one pair, and what came."""

    first_half: bool
    p: float  # that the first ends above
    p_new: float
    above: bool
    apart: float
    decided: bool
    right: bool
    contradicts: bool


def end_of(curve: Curve, until: float) -> float:
    y = curve.score[curve.compute <= until]
    return float(y[-max(2, round(LATE * len(y))) :].mean())


def outcome(task: tuple[Curve, Curve, float]) -> Outcome | None:
    x, y, cut = task
    end = float(min(x.compute[-1], y.compute[-1]))
    fits, levels, noise = {}, [], []
    for name, curve in (("x", x), ("y", y)):
        seen = curve.compute <= cut * end
        if seen.sum() < LEAST:
            return None
        C, scores = curve.compute[seen], curve.score[seen]
        try:
            fits[name] = fit_sigmoid(C, scores, compute_unit="steps", min_compute=0)
        except RLScalingError:
            return None
        levels.append(float(scores[-3:].mean()))
        noise.append(float(np.median(np.abs(np.diff(scores)))) / 0.6745 / np.sqrt(2.0) / np.sqrt(3.0))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compare(fits, compute=end, shared_R0=False, rng=0, n_resamples=400)
    except RLScalingError:
        return None
    ends = end_of(x, end), end_of(y, end)
    gap = levels[0] - levels[1]
    plainly = abs(gap) >= max(BY, PLAINLY * float(np.hypot(*noise)))
    above_now = "x" if gap > 0 else "y"
    return Outcome(
        x.first_half, found.probability_better("x", "y"), found.probability_better("x", "y", new_run=True),
        ends[0] > ends[1], abs(ends[0] - ends[1]), found.decided, (found.leader == "x") == (ends[0] > ends[1]),
        found.decided and plainly and found.leader != above_now,
    )  # fmt: skip


def table(title: str, outcomes: Sequence[Outcome]) -> dict[str, float]:
    p = np.array([o.p for o in outcomes])
    came = np.array([o.above for o in outcomes])
    p, came = np.where(p < 0.5, 1.0 - p, p), np.where(p < 0.5, ~came, came)
    decided = [o for o in outcomes if o.decided]
    print(f"\n{title}: {len(outcomes)} pairs")
    worst = 0.0
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 0.975), (0.975, 1.01)):
        inside = (p >= low) & (p < high)
        if inside.any():
            over = float(p[inside].mean() - came[inside].mean())
            worst = max(worst, over) if inside.sum() >= 20 else worst
            numbers = f"stated {p[inside].mean():.3f}, came {came[inside].mean():.3f}"
            print(f"  P {low:.3f}-{min(high, 1):.3f}: {inside.sum():4}, {numbers}")
    right = float(np.mean([o.right for o in decided])) if decided else float("nan")
    against = sum(o.contradicts for o in outcomes)
    print(f"  decided: {len(decided)}, right {right:.3f}; bets against a run that plainly stands above: {against}")
    return {"decided": len(decided), "right": right, "against": against, "worst": worst}


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--curves-alone", action="store_true", help="forecast by the sigmoid, to compare")
    args, there = _common.with_real_curves(parser)
    if not there:
        return 0
    began, found = time.time(), [curve for curve in curves(args.data) if curve.bounded]
    pairs = [(x, y, cut) for x, y in itertools.combinations(found, 2) if x.repository == y.repository for cut in CUTS]
    order = np.random.default_rng(_common.SEED).permutation(len(pairs))[: 2 * args.pairs]
    with Pool(args.jobs, _common.take_curves_alone, (args.curves_alone,)) as pool:
        outcomes = [o for o in pool.imap(outcome, (pairs[i] for i in order), chunksize=4) if o is not None]
    outcomes = outcomes[: args.pairs]
    first = table("first half", [o for o in outcomes if o.first_half])
    second = table("second half", [o for o in outcomes if not o.first_half])
    both = table("both halves", outcomes)
    print(f"\n{time.time() - began:.0f} s")
    checks = [
        Check("bets against a run that plainly stands above", both["against"], 0, False, ""),
        Check("decided headlines that are right", both["right"], 0.95, True, ""),
        Check("first half, decided headlines that are right", first["right"], 0.95, True, ""),
        Check("second half, decided headlines that are right", second["right"], 0.95, True, ""),
        Check("stated probability over what came, worst bin of 20 or more", both["worst"], 0.03, False, ""),
    ]
    return _common.finish("pairs of real runs", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
